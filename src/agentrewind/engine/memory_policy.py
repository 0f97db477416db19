"""What a rewind carries into the context that it opens, and the one call by which the model shortens it."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agentrewind.core.budgets import Budget
from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError
from agentrewind.core.memory import (
    CUMULATIVE,
    Entry,
    MemoryPolicy,
    Note,
    entries,
    injection,
    merging,
    standing,
    to_merge,
    tokens,
)
from agentrewind.core.records import BranchId, MessageId, NotesMerged, Usage
from agentrewind.core.wire import Send, WireReply
from agentrewind.dialects.base import Dialect, Reply
from agentrewind.engine.checkpointer import Log, ms
from agentrewind.engine.signal import RaisedElsewhere

TAIL = 300


@dataclass(frozen=True, slots=True)
class Asking:
    """A call of the harness, by whose way its model can be asked something else."""

    dialect: Dialect
    body: Json
    send: Send


class Memory:
    """The notes of one run under one policy. Nothing here moves anything.

    Args:
        whole: the notes that retained messages hold are said again with the others, in one message (fresh mode).
    """

    def __init__(self, log: Log, budget: Budget, policy: MemoryPolicy = CUMULATIVE, *, whole: bool = False) -> None:
        self._log = log
        self._budget = budget
        self.policy = policy
        self._whole = whole

    def carried(self, note: Note, held: Collection[str]) -> list[Entry]:
        """What a rewind with this note has to bring into the context, oldest first.

        `held` are the branches whose notes stand in the target's context.
        """
        tree = self._log.tree
        notes = [*tree.notes, note]
        stand = standing(self.policy, notes, held)
        missing = stand if self._whole else [note for note in stand if note.branch not in held]
        return entries(missing, tree.merges)

    def standing(self, held: Collection[str]) -> list[Entry]:
        """What has to stand in a context that was not opened by a rewind, and of which it holds these notes."""
        notes = standing(self.policy, self._log.tree.notes, held) if self._log.tree.notes else []
        return entries([note for note in notes if note.branch not in held], self._log.tree.merges)

    def said(self, carried: Sequence[Entry], *, rewinds: int, effects: Sequence[str] = (), kept: bool = False) -> str:
        """The text that carries them, in a run that has made so many rewinds; empty where nothing is to be said."""
        if self.policy.kind == "none":
            return ""
        left = None if self._budget.rewinds is None else max(self._budget.rewinds - rewinds, 0)
        return injection(carried, rewinds=rewinds, left=left, effects=effects, kept=kept)

    def excess(self, carried: Sequence[Entry]) -> tuple[Entry, ...]:
        """The entries that are to be made one before the rewind; none where the policy sets no limit or it is kept."""
        return () if self.policy.tokens is None else to_merge(carried, self.policy.tokens)

    def merge(self, older: Sequence[Entry], by: Asking) -> NotesMerged:
        """Have the model make one note of these; what came of it, to be written down.

        A call that fails, or whose answer is no shorter than the notes, leaves each of them as it is: `failed`.
        """
        assert self.policy.tokens is not None
        covers = tuple(name for entry in older for name in entry.branches)
        asked = by.dialect.asking(by.body, merging(older, self.policy.tokens))
        begun = time.perf_counter()
        answer, failed = _asked(by.dialect, asked, by.send)
        took = ms(begun)
        text = answer.text.strip() if answer else ""
        if answer is not None and not text:
            failed = "the model's answer is empty"
        elif text and tokens(text) >= sum(tokens(entry.text) for entry in older):
            text, failed = "", "the model's note is no shorter than those that it stands for"
        request, output = self._kept(asked, answer)
        usage = answer.usage if answer else Usage()
        dialect = by.dialect
        return NotesMerged(
            covers,
            text,
            failed,
            dialect.model(by.body),
            dialect.name,
            request,
            output,
            usage,
            latency_ms=took,
            at_ns=time.time_ns() - int(took * 1e6),
        )

    def _kept(self, asked: Json, answer: Reply | None) -> tuple[MessageId, MessageId | None]:
        return self._log.put(asked), None if answer is None else self._log.put(answer.response)


def names(carried: Sequence[Entry]) -> tuple[BranchId, ...]:
    """The branches whose notes these are."""
    return tuple(name for entry in carried for name in entry.branches)


def _asked(dialect: Dialect, body: Json, send: Send) -> tuple[Reply | None, str]:
    """The answer, or why there is none."""
    try:
        reply: WireReply = send(body)
        if not reply.ok:
            return None, f"HTTP {reply.status}: {reply.body[:TAIL].decode('utf-8', 'replace')}"
        return dialect.parse(reply.body, stream=False), ""
    except ProviderError as error:
        return None, str(error)
    except (Exception, RaisedElsewhere) as error:  # noqa: BLE001 (whatever the HTTP library of the harness raises)
        return None, f"{type(error).__name__}: {error}"
