"""What crosses from abandoned branches: the notes of a run, and the text that carries them into a restored context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrewind.core.records import BranchId, RecordUid

CHARACTERS_PER_TOKEN = 4
"""A rough rule for English text; used for accounting where no tokenizer is at hand."""


@dataclass(frozen=True, slots=True)
class Note:
    """One entry of the memory. `branch` is the one that the rewind opened; it names the note within a run."""

    branch: BranchId
    target: RecordUid
    text: str
    by: str = "agent"
    """Who wrote it: the agent itself, or a person."""


def injection(notes: Sequence[Note], *, rewinds: int, left: int | None, effects: Sequence[str] = ()) -> str:
    """The message that stands right after a restored prefix (rewind.md, section 3): facts first, no invitation.

    Args:
        notes: those that the retained prefix doesn't hold already, oldest first.
        rewinds: how many the run has made, this one included.
        left: how many more it may make; None for no limit.
        effects: what happened outside the workspace on the abandoned path and still stands.
    """
    lines = [
        (
            "[agentrewind] You are at a restored point of this task. You went on from here before, and that path was"
            " abandoned."
        ),
        "The files in the workspace are exactly as they were at this point. Nothing that was done after it is there.",
        "",
        _heading(notes),
    ]
    for number, note in enumerate(notes, 1):
        lines += [f'<note {number} from="{note.branch}"{_author(note)}>', note.text.strip(), "</note>"]
    lines += ["", "Effects outside the workspace that still stand: " + ("; ".join(effects) or "none known") + "."]
    allowance = "no limit" if left is None else f"{left} left"
    lines.append(
        f"Rewinds made in this run: {rewinds} ({allowance}). Another one is allowed if this path fails too."
        " Now go on with the task from here; what the notes call done and delivered need not be done or said again."
    )
    return "\n".join(lines)


def _heading(notes: Sequence[Note]) -> str:
    if all(note.by == "agent" for note in notes):
        return "What you noted for yourself when you came back:"
    if any(note.by == "agent" for note in notes):
        return "What was noted when you came back, by yourself or by the person that you work for:"
    return "What the person that you work for noted when you were brought back:"


def _author(note: Note) -> str:
    return "" if note.by == "agent" else f' by="{note.by}"'


def tokens(text: str) -> int:
    """About how many tokens `text` takes."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
