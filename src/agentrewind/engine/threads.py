"""Which conversation a call belongs to, and what the edits of that conversation are (rewind.md, section 4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from agentrewind.core.align import align
from agentrewind.core.codec import Json, digest
from agentrewind.core.edits import Edit, Message, splice
from agentrewind.core.records import MAIN_THREAD, MessageId, RecordUid, ThreadId

Canonical = Callable[[Message], Json]


@dataclass(frozen=True, slots=True)
class Context:
    """The conversation at one call: how many raw messages the harness sent, and the edits in force."""

    raw_length: int
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that the harness got: how many raw messages it had sent, and the messages of the answer."""

    raw_length: int
    messages: tuple[Message, ...]


@dataclass(slots=True)
class Sent:
    """What went upstream last, with the ids and canonical bytes of its messages: the next call pays for what is new."""

    messages: list[Message] = field(default_factory=list)
    ids: list[MessageId] = field(default_factory=list)
    canonical: list[bytes] = field(default_factory=list)
    uid: RecordUid | None = None


@dataclass(slots=True)
class Thread:
    """One conversation of the run."""

    id: ThreadId
    raw: list[Message] = field(default_factory=list)
    edits: tuple[Edit, ...] = ()
    contexts: dict[RecordUid, Context] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    """What the harness got, by the id under which a later request may go on from it."""
    sent: Sent = field(default_factory=Sent)
    first: RecordUid | None = None
    pending: dict[str, str] = field(default_factory=dict)
    """The tool calls of its last answer that the harness has not come back from: id to name."""
    seeded: frozenset[str] = frozenset()
    """The notes that stand in what the harness itself sends (it was seeded with them after a crash)."""
    ended: bool = False
    degraded: bool = False
    """The harness rewrote its history and the edits could not be placed again."""

    def effective(self) -> list[Message]:
        return splice(self.raw, self.edits)

    def cut(self, context: Context, inserted: Sequence[Message], branch: str, notes: tuple[str, ...]) -> None:
        """Go back to `context`: everything after it is cut, and `inserted` stands in its place."""
        here = Edit(context.raw_length, len(self.raw), tuple(inserted), branch, notes)
        self.edits = (*context.edits, here)

    def insert(self, messages: Sequence[Message]) -> None:
        """Put an exchange that the harness never sees at the end of what it sent."""
        end = len(self.raw)
        self.edits = (*self.edits, Edit(end, end, tuple(messages)))

    def notes_at(self, context: Context) -> frozenset[str]:
        """The branches whose notes stand in the conversation at that call."""
        return self.seeded.union(note for edit in context.edits for note in edit.notes)


class Threads:
    """All conversations of a process. `taken` are the names of those that earlier processes of the run had."""

    def __init__(self, taken: Collection[ThreadId] = ()) -> None:
        self._threads: list[Thread] = []
        self._taken = frozenset(taken)

    def all(self) -> list[Thread]:
        return list(self._threads)

    def get(self, thread: ThreadId) -> Thread | None:
        return next((item for item in self._threads if item.id == thread), None)

    def named(self, thread: ThreadId, raw: list[Message]) -> Thread:
        """The thread of that name, brought up to `raw`; opened where there is none."""
        found = self.get(thread)
        if found is None:
            found = Thread(thread)
            self._threads.append(found)
        found.raw = raw
        return found

    def history(self, answer_id: str) -> list[Message] | None:
        """What the harness had sent when it got this answer, then the answer; None where nobody knows it."""
        owner = next((thread for thread in self._threads if answer_id in thread.answers), None)
        if owner is None:
            return None
        answer = owner.answers[answer_id]
        return [*owner.raw[: answer.raw_length], *answer.messages]

    def assign(self, raw: list[Message], canonical: Canonical) -> Thread:
        """The thread whose list `raw` extends, brought up to it; else the one that was rewritten; else a new one."""
        shared = {thread.id: common_prefix(thread.raw, raw, canonical) for thread in self._threads}
        extended = [thread for thread in self._threads if shared[thread.id] == len(thread.raw)]
        if extended:
            thread = max(extended, key=lambda item: len(item.raw))
            thread.raw = raw
            return thread
        rewritten = next((thread for thread in self._threads[::-1] if _rewrote(thread, raw, canonical)), None)
        if rewritten is not None:
            _realign(rewritten, raw, canonical)
            return rewritten
        return self._open(raw, shared)

    def _open(self, raw: list[Message], shared: dict[ThreadId, int]) -> Thread:
        thread = Thread(self._free_name(), raw)
        kin = max(self._threads, key=lambda item: shared[item.id], default=None)
        if kin is not None:
            thread.edits = _inherited(kin.edits, shared[kin.id])
        self._threads.append(thread)
        return thread

    def _free_name(self) -> ThreadId:
        used = {thread.id for thread in self._threads}
        if MAIN_THREAD not in used:
            return MAIN_THREAD
        numbered = (ThreadId(f"t{number}") for number in itertools.count(1))
        return next(name for name in numbered if name not in used and name not in self._taken)


def common_prefix(old: Sequence[Message], new: Sequence[Message], canonical: Canonical) -> int:
    """How many messages the two lists share from the start, volatile fields left out."""
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        if before != after and canonical(before) != canonical(after):
            return index
    return min(len(old), len(new))


def _inherited(edits: Sequence[Edit], prefix: int) -> tuple[Edit, ...]:
    """The edits that concern the first `prefix` messages; one that reaches further is cut off there."""
    return tuple(
        replace(edit, stop=min(edit.stop, prefix))
        for edit in edits
        if edit.start < prefix or edit.start == edit.stop == prefix
    )


def _keys(messages: Sequence[Message], canonical: Canonical) -> list[str]:
    return [digest(canonical(message)) for message in messages]


def _rewrote(thread: Thread, raw: list[Message], canonical: Canonical) -> bool:
    """Whether `raw` is the thread's own history in another form: it holds later messages of it, in another place.

    A conversation that merely forks off keeps nothing of what comes after the shared prefix.
    """
    if thread.ended or not thread.raw:
        return False
    prefix = common_prefix(thread.raw, raw, canonical)
    later = set(_keys(thread.raw[prefix:], canonical))
    return any(key in later for key in _keys(raw[prefix:], canonical))


def _realign(thread: Thread, raw: list[Message], canonical: Canonical) -> None:
    """Place the thread's edits in its rewritten history, or mark it degraded and keep only what can't be wrong."""
    edits = align(_keys(thread.raw, canonical), _keys(raw, canonical), thread.edits)
    thread.raw = raw
    thread.contexts = {}
    thread.answers = {}
    if edits is not None:
        thread.edits = edits
        return
    thread.degraded = True
    memories = [edit for edit in thread.edits if edit.notes]
    end = len(raw)
    thread.edits = tuple(Edit(end, end, edit.inserted, edit.branch, edit.notes) for edit in memories)
