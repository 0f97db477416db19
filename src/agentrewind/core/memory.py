"""What crosses from abandoned branches: the notes of a run, and the text that carries them into a restored context."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from agentrewind.core.errors import UsageError
from agentrewind.core.records import BranchId, RecordUid

BYTES_PER_TOKEN = 4
"""A rough rule where no tokenizer is at hand: about right for English and code, and for most other scripts too, whose
letters take more bytes.
"""


@dataclass(frozen=True, slots=True)
class Note:
    """One entry of the memory. `branch` is the one that the rewind opened; it names the note within a run."""

    branch: BranchId
    target: RecordUid
    text: str
    by: str = "agent"
    """Who wrote it: the agent itself, or a person."""

    @property
    def branches(self) -> tuple[BranchId, ...]:
        return (self.branch,)


@dataclass(frozen=True, slots=True)
class Merged:
    """One text that stands for several notes: those of the rewinds that opened `branches`."""

    branches: tuple[BranchId, ...]
    text: str
    by: str = "agent"


Entry = Note | Merged


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """Which notes a rewind brings into the context that it opens.

    `cumulative`: all of the run. `latest`: the newest; earlier ones stay only where the retained messages hold them.
    `budget`: all, but where they take more than `tokens`, the oldest are put into one by the model. `none`: not even
    the newest, and nothing says that there was a rewind; for comparison.
    """

    kind: Literal["cumulative", "latest", "budget", "none"] = "cumulative"
    tokens: int | None = None

    def __str__(self) -> str:
        return self.kind if self.tokens is None else f"{self.kind}:{self.tokens}"


CUMULATIVE = MemoryPolicy()


def policy_named(name: str) -> MemoryPolicy:
    """The policy that `cumulative`, `latest` or `budget:TOKENS` names; the default for an empty name.

    Raises:
        UsageError: it names none.
    """
    kind, _, tokens = name.partition(":")
    if kind in ("cumulative", "") and not tokens:
        return CUMULATIVE
    if kind == "latest" and not tokens:
        return MemoryPolicy("latest")
    if kind == "none" and not tokens:
        return MemoryPolicy("none")
    if kind == "budget" and tokens.isascii() and tokens.isdigit() and int(tokens) > 0:
        return MemoryPolicy("budget", int(tokens))
    raise UsageError(
        f"There is no memory policy {name!r}. Known: cumulative, latest, none, budget:TOKENS (as budget:2000)."
    )


def standing(policy: MemoryPolicy, notes: Sequence[Note], held: Collection[str]) -> list[Note]:
    """The notes that stand in the context that a rewind opens, oldest first.

    Args:
        policy: of the run.
        notes: all of the run, the new one last.
        held: the branches whose notes stand in the context as it was at the target.
    """
    if policy.kind == "none":
        return []
    if policy.kind != "latest":
        return list(notes)
    return [note for note in notes if note.branch in held or note is notes[-1]]


def entries(notes: Sequence[Note], merges: Sequence[Merged]) -> list[Entry]:
    """The notes with each merged text, the widest first, in the place of those for which it stands.

    One that stands for a note that isn't among them is left out, so that none is said twice.
    """
    left: list[Entry] = list(notes)
    for merged in sorted(merges, key=lambda item: -len(item.branches)):
        names = {name for entry in left if isinstance(entry, Note) for name in entry.branches}
        if names.issuperset(merged.branches):
            left = _with(left, merged)
    return left


def _with(entries: Sequence[Entry], merged: Merged) -> list[Entry]:
    out: list[Entry] = []
    for entry in entries:
        if not set(entry.branches) <= set(merged.branches):
            out.append(entry)
        elif merged not in out:
            out.append(merged)
    return out


def to_merge(carried: Sequence[Entry], limit: int) -> tuple[Entry, ...]:
    """The oldest entries, which are to become one; none where all fit into `limit` tokens.

    The newest note always stands as it was written, and others as far as they fit into half of the limit.
    """
    if sum(tokens(entry.text) for entry in carried) <= limit:
        return ()
    keep, used = len(carried) - 1, tokens(carried[-1].text) if carried else 0
    while keep > 0 and used + tokens(carried[keep - 1].text) <= limit // 2:
        keep -= 1
        used += tokens(carried[keep].text)
    return tuple(carried[:keep]) if keep > 1 else ()


MERGE = (
    "You are at work on a long task and went back to earlier points of it several times. Below are the notes that you"
    " wrote to yourself on the way, oldest first. Write one note that takes their place. Keep every fact that later"
    " work may need: what was tried and what showed that it failed, what is done and delivered, what still stands"
    " outside of the workspace, names of files and commands, what to do and not to do. Say nothing twice and add"
    " nothing. At most {limit} words. Answer with the note alone."
)
WORDS_PER_TOKEN = 0.7


def merging(older: Sequence[Entry], limit: int) -> str:
    """The request to put these entries into one of at most about half of `limit` tokens."""
    lines = [MERGE.format(limit=max(int(limit / 2 * WORDS_PER_TOKEN), 20))]
    for number, entry in enumerate(older, 1):
        lines += ["", f"<note {number}>", entry.text.strip(), "</note>"]
    return "\n".join(lines)


RESTART = "strategy restart"
"""Who writes the notes of a run that begins again after each failure."""
FILES_ONLY = "[agentrewind] The files are back as they were before {target}. This conversation stays as it is."
"""The answer to a rewind in a run whose conversations aren't rewound, for comparison."""
_RESTORED = (
    "[agentrewind] You are at a restored point of this task. You went on from here before, and that path was abandoned."
    "\nThe files in the workspace are exactly as they were at this point. Nothing that was done after it is there."
)
_KEPT = (
    "[agentrewind] The files in the workspace were brought back to an earlier point of this task; this conversation was"
    " not.\nNothing that was done after that point is in the files any more, whatever is said above."
)
_ANEW = (
    "[agentrewind] This is a new attempt at the task, in a new process. Every earlier one failed.\nThe files in the"
    " workspace are as they were at the very beginning. Nothing that an earlier attempt did is there."
)


def injection(
    notes: Sequence[Entry],
    *,
    rewinds: int,
    left: int | None,
    effects: Sequence[str] = (),
    kept: bool = False,
) -> str:
    """The message that stands right after a restored prefix (rewind.md, section 3): facts first, no invitation.

    Args:
        notes: those that the retained prefix doesn't hold already, oldest first.
        rewinds: how many the run has made, this one included.
        left: how many more it may make; None for no limit.
        effects: what happened outside the workspace on the abandoned path and still stands.
        kept: the conversation was not rewound, and what was abandoned stands before this.
    """
    anew = bool(notes) and all(note.by == RESTART for note in notes)
    lines = [_ANEW if anew else _KEPT if kept else _RESTORED, "", _heading(notes)]
    for number, note in enumerate(notes, 1):
        lines += [f'<note {number} from="{" ".join(note.branches)}"{_author(note)}>', note.text.strip(), "</note>"]
    lines += ["", "Effects outside the workspace that still stand: " + ("; ".join(effects) or "none known") + "."]
    if anew:
        return "\n".join(lines)
    allowance = "no limit" if left is None else f"{left} left"
    lines.append(
        f"Rewinds made in this run: {rewinds} ({allowance}). Another one is allowed if this path fails too."
        " Now go on with the task from here; what the notes call done and delivered need not be done or said again."
    )
    return "\n".join(lines)


def _heading(notes: Sequence[Entry]) -> str:
    authors = {note.by for note in notes}
    if authors == {RESTART}:
        return "What was written down when they failed, oldest first:"
    if authors <= {"agent"}:
        return "What you noted for yourself when you came back:"
    if not authors <= {"agent", "person"}:
        return "What was noted when you were brought back, or came back by yourself:"
    if "agent" in authors:
        return "What was noted when you came back, by yourself or by the person that you work for:"
    return "What the person that you work for noted when you were brought back:"


def _author(note: Entry) -> str:
    return "" if note.by == "agent" else f' by="{note.by}"'


def tokens(text: str) -> int:
    """About how many tokens `text` takes: its UTF-8 bytes by `BYTES_PER_TOKEN`, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
