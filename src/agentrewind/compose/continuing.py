"""A program that goes on with a run in a new process: which of its messages the run's rewinds had cut.

The program never noticed a rewind, so the history that it has kept holds what was abandoned. The journal holds what was
sent upstream; from both follow the edits that were in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentrewind.core.edits import Edit, Message, splice
from agentrewind.core.records import BranchId, Hint, RecordUid, Rewound
from agentrewind.core.tree import Node, RunTree
from agentrewind.dialects.base import Dialect
from agentrewind.engine.checkpointer import Log
from agentrewind.engine.offline import ResumePoint
from agentrewind.engine.threads import Context


@dataclass(frozen=True, slots=True)
class Continued:
    """The main conversation as the program had sent it, and the edits in force at its end.

    `edits` is None where the journal doesn't say (the program had rewritten its history).
    """

    raw: tuple[Message, ...] = ()
    edits: tuple[Edit, ...] | None = ()
    contexts: dict[RecordUid, Context] = field(default_factory=dict)
    open_end: bool = False
    """The last edit is a rewind that nothing was asked after: what the program got after its last call is cut too."""


def continued(log: Log, point: ResumePoint, dialects: Sequence[Dialect]) -> Continued:
    """The conversation that leads to `point`, found by following every call of the run."""
    followed = _Followed(log, dialects)
    for node in log.tree.nodes.values():
        if node.is_llm and node.began.thread == log.tree.main:
            sent = tuple(log.get(item) for item in log.tree.messages(node.uid))
            if not followed.take(node, sent):
                return Continued(edits=None)
    return followed.at(point)


@dataclass(frozen=True, slots=True)
class _At:
    """What is known at one call: the length of the raw list, the edits, and what went upstream."""

    length: int
    edits: tuple[Edit, ...]
    sent: tuple[Message, ...]
    branch: BranchId


class _Followed:
    """What the calls so far add up to."""

    def __init__(self, log: Log, dialects: Sequence[Dialect]) -> None:
        self._tree: RunTree = log.tree
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self._dialect: Dialect | None = None
        self._content = log.get
        self._raw: list[Message] = []
        self._seen: dict[RecordUid, _At] = {}
        self._last: _At | None = None

    def take(self, node: Node, sent: tuple[Message, ...]) -> bool:
        """One more call; whether what it sent is what the calls before it lead to."""
        began, known = node.began, len(self._raw)
        self._dialect = self._dialects.get(began.llm.dialect) if began.llm else None
        new = began.raw_length - known
        edits = self._edits(node, sent)
        if edits is None or not 0 <= new <= len(sent):
            return False
        self._raw += sent[len(sent) - new :]
        if began.hint is not None:
            edits = self._with_hint(began.hint, edits)
        if not self._same(splice(self._raw, edits), sent):
            return False
        self._last = self._seen[node.uid] = _At(began.raw_length, edits, sent, began.branch)
        return True

    def _same(self, one: Sequence[Message], other: Sequence[Message]) -> bool:
        """Whether they say the same: programs move markers of a cache, for example, from call to call."""
        return len(one) == len(other) and all(
            a == b or (self._dialect is not None and self._dialect.canonical(a) == self._dialect.canonical(b))
            for a, b in zip(one, other, strict=True)
        )

    def _with_hint(self, hint: Hint, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """The program holds the message of a hint as it was."""
        shown = self._raw[hint.place]
        self._raw[hint.place] = self._content(hint.original)
        return (*edits, Edit(hint.place, hint.place + 1, (shown,), hint=hint.key))

    def _edits(self, node: Node, sent: tuple[Message, ...]) -> tuple[Edit, ...] | None:
        began, last, length = node.began, self._last, len(self._raw)
        if last is None:
            return ()
        if began.branch != last.branch:
            move = self._tree.branches[began.branch].opened_by
            return last.edits if move is None else self._moved(move, sent)
        if began.raw_length > length or self._same(sent, last.sent):
            return last.edits
        return (*last.edits, Edit(length, length, sent[len(last.sent) :]))

    def _moved(self, move: Rewound, sent: tuple[Message, ...]) -> tuple[Edit, ...] | None:
        target = self._seen.get(move.target)
        if target is None or move.why != "rewind":
            return None
        return (*target.edits, self._cut(move.branch, target, sent[len(target.sent) :]))

    def _cut(self, branch: BranchId, target: _At, inserted: tuple[Message, ...]) -> Edit:
        """What the rewind that opened `branch` did: its memory holds the notes that the retained part didn't."""
        held = {note for edit in target.edits for note in edit.notes}
        stand = self._tree.held_on(branch)
        names = tuple(item.branch for item in self._tree.notes if item.branch in stand and item.branch not in held)
        return Edit(target.length, len(self._raw), inserted, branch, names)

    def at(self, point: ResumePoint) -> Continued:
        """The conversation at a point; a rewind that nothing was asked after has its memory at the end of the seed."""
        if point.at is None or point.at not in self._seen:
            return Continued()
        at = self._seen[point.at]
        added = point.seed[len(at.sent) :]
        edits = (*at.edits, self._cut(self._tree.notes[-1].branch, at, added)) if added else at.edits
        contexts = {uid: Context(seen.length, seen.edits) for uid, seen in self._seen.items()}
        return Continued(tuple(self._raw), edits, contexts, open_end=bool(added))
