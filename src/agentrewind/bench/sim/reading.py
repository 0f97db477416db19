"""What the simulated model makes of a conversation: what was done, what was rejected, what the notes say."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrewind.bench.sim.policy import Policy
from agentrewind.core.memory import FILES_ONLY
from agentrewind.core.review import HELD_BACK
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.testing.scripted import Said

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
HELD = HELD_BACK.partition("(")[0].strip()
"""How the result of a call begins that a guard kept from running."""
FILES_BACK = FILES_ONLY.partition("{")[0]
_NOTE = re.compile(r'<note \d+ from="(?P<branches>[^"]*)"(?: by="(?P<by>[^"]*)")?>\n(?P<text>.*?)\n</note>', re.DOTALL)
_CANDIDATE = re.compile(r"^(?P<uid>rec_\d+)  .*?\(# step (?P<number>\d+) of ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Act:
    """A step as it was done: in the right form (empty), or in another one of the policy."""

    step: int
    form: str


@dataclass(frozen=True, slots=True)
class Note:
    by: str
    """Empty: the agent's own."""
    text: str


@dataclass(slots=True)
class Seen:
    """A conversation, read. `since` is what came after the newest rejection (or from the beginning)."""

    notes: list[Note] = field(default_factory=list)
    done: dict[int, str] = field(default_factory=dict)
    """The newest form of each step that was done."""
    rejections: list[str] = field(default_factory=list)
    """The criterion of each, as far as it is known, else empty."""
    since: list[Act] = field(default_factory=list)
    held: list[Act] = field(default_factory=list)
    """What a guard kept from running, since then."""
    listing: str = ""
    refusal: str = ""
    """What the answer to a rewind was, where there was none."""
    submitted: bool = False
    malformed: bool = False
    """The last turn was no call that could be run."""
    brought_back: int | None = None
    """The step to before which the files were brought back, since then, while the conversation stayed as it was."""

    @property
    def equal(self) -> int:
        """How many rejections in a row, up to the newest, name its criterion."""
        return sum(1 for _ in itertools.takewhile(lambda item: item == self.rejections[-1], self.rejections[::-1]))

    @property
    def noted(self) -> str:
        """All the notes, as one text."""
        return "\n".join(note.text for note in self.notes)


def read(said: Sequence[Said], policy: Policy) -> Seen:
    """Raises: nothing, whatever the conversation holds."""
    reader = _Reader(policy)
    for item in said:
        reader.take(item)
    return reader.seen


class _Reader:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known: dict[str, Act] = {}
        for number, form in policy.forms():
            self._known.setdefault(policy.text(number, form).strip(), Act(number, form))
        self._feedback = {name: _words(text) for name, text in policy.feedback.items()}
        self._waiting: list[tuple[str, Act | None]] = []
        self._target = ""
        self._has_task = False
        self.seen = Seen()

    def take(self, item: Said) -> None:
        if item.role == "assistant":
            self._waiting = list(self._asked(item))
            self.seen.submitted = not item.calls
            self.seen.malformed = bool(item.calls) and all(what == "" for what, _ in self._waiting)
            return
        if item.role == "tool":
            self._result(item.text)
        elif item.role == "user":
            self._user(item.text)
        self.seen.notes += [Note(found["by"] or "", found["text"]) for found in _NOTE.finditer(item.text)]

    def _asked(self, item: Said) -> Iterator[tuple[str, Act | None]]:
        """Each call: a rewind tool by its name, `run` and what it does, `submit`, or empty where it is none of them."""
        for call in item.calls:
            arguments = _arguments(call.arguments)
            command = str(arguments.get("command", "")).strip()
            if call.name in (CANDIDATES, COMMIT):
                self._target = str(arguments.get("record_uid", "")).strip()
                yield call.name, None
            elif command == SUBMIT:
                yield "submit", None
            else:
                act = self._known.get(command)
                yield ("run" if act else ""), act

    def _result(self, text: str) -> None:
        what, act = self._waiting.pop(0) if self._waiting else ("", None)
        seen = self.seen
        if act is not None and HELD in text:
            seen.held.append(act)
        elif act is not None:
            seen.done[act.step] = act.form
            seen.since.append(act)
        elif what == CANDIDATES:
            seen.listing = text
        elif what == COMMIT:
            seen.brought_back = step_at(seen.listing, self._target) if text.startswith(FILES_BACK) else None
            seen.refusal = text if seen.brought_back is None else ""
        elif what == "submit":
            seen.submitted = True

    def _user(self, text: str) -> None:
        seen = self.seen
        if not seen.submitted:
            seen.malformed, self._has_task = self._has_task, True
            return
        words = _words(text)
        found = next((name for name, feedback in self._feedback.items() if feedback in words), "")
        seen.rejections.append(found)
        seen.since, seen.held, seen.listing, seen.refusal = [], [], "", ""
        seen.submitted = seen.malformed = False
        seen.brought_back = None


def _candidates(listing: str) -> list[tuple[str, int]]:
    """The checkpoints just before a step of the policy, and that step."""
    return [(match["uid"], int(match["number"]) - 1) for match in _CANDIDATE.finditer(listing)]


def step_at(listing: str, uid: str) -> int | None:
    """The step that was done at a checkpoint of a listing."""
    return next((number for known, number in _candidates(listing) if known == uid), None)


def first_candidate(listing: str, step: int) -> str:
    """The oldest checkpoint in a listing before which a step was not yet done; empty where there is none."""
    found = _candidates(listing)
    exact = next((uid for uid, number in found if number == step), "")
    return exact or next((uid for uid, number in reversed(found) if number < step), "")


def _words(text: str) -> str:
    return " ".join(text.split())


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return given if isinstance(given, dict) else {}
