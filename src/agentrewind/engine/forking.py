"""The beginning of a run that forks off another one: the same calls up to a checkpoint, as events of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from agentrewind.core.codec import Json
from agentrewind.core.records import (
    FIRST_BRANCH,
    Judged,
    LlmInput,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    RecordUid,
    Snapshotted,
    ThreadId,
    record_uid,
)
from agentrewind.core.tree import Node, RunTree
from agentrewind.core.world import SnapshotId
from agentrewind.engine.checkpointer import Log


class Source(Protocol):
    """A run that is only read."""

    @property
    def tree(self) -> RunTree: ...
    def content(self, content: MessageId) -> Json: ...


ELSEWHERE = "the files of this step are in the run {run}, of which this one is a fork"


def unforkable(tree: RunTree, uid: RecordUid) -> str | None:
    """Why a run can't be forked at `uid`; None where it can."""
    unusable = tree.usable(uid)
    if unusable is not None:
        return unusable
    node = tree.node(uid)
    if node.began.thread != tree.main:
        return f"{uid} belongs to a conversation beside the main one, which can't go on alone."
    if node.began.snapshot is not None and not tree.complete(node.began.snapshot):
        return f"The snapshot at {uid} is incomplete: some files could not be read when it was taken."
    return None


def write_beginning(source: Source, fork: Log, uid: RecordUid, state: Snapshotted) -> RecordUid:
    """Write into `fork` all that led to `uid` in `source`, and the call itself as one that was never answered, so that
    a resume makes it. Its name in `fork`, where records are counted anew.

    `state` are the files before it, in the store of the fork. The files of earlier steps stay with the source.
    """
    copy = _Copy(source, fork)
    path = source.tree.path(uid)
    for node in path[:-1]:
        copy.take(node)
    fork.append(replace(state, after=fork.tree.head))
    return copy.begin(path[-1], state.snapshot)


class _Copy:
    """Takes the nodes of one path over, oldest first. Where rewinds led to them, what went upstream is all that counts:
    the fork reads as if its harness had sent that.
    """

    def __init__(self, source: Source, fork: Log) -> None:
        self._source, self._fork = source, fork
        started = source.tree.started
        self._elsewhere = ELSEWHERE.format(run=started.run_id if started else "before")
        self._names: dict[RecordUid, RecordUid] = {}
        self._last: dict[ThreadId, tuple[RecordUid, tuple[MessageId, ...]]] = {}

    def take(self, node: Node) -> None:
        self.begin(node, None)
        if node.ended is not None:
            self._fork.append(self._ended(node.ended))
        if node.judged is not None:
            self._fork.append(self._judged(node.judged))
        if node.after is not None:
            self._fork.append(
                Snapshotted(
                    None,
                    self._names[node.uid],
                    complete=False,
                    changes=node.after.changes,
                    failed=self._elsewhere,
                    at_ns=node.after.at_ns,
                )
            )

    def begin(self, node: Node, snapshot: SnapshotId | None) -> RecordUid:
        began = node.began
        uid = record_uid(len(self._names) + 1)
        llm = None if began.llm is None else self._llm(began, began.llm, uid)
        length = 0 if llm is None else llm.messages.keep + len(llm.messages.added)
        self._fork.append(
            NodeBegan(
                uid,
                began.kind,
                self._fork.tree.head,
                FIRST_BRANCH,
                began.thread,
                began.input_id,
                snapshot,
                began.started_ns,
                llm,
                began.tool,
                length,
            )
        )
        self._names[began.uid] = uid
        return uid

    def _llm(self, began: NodeBegan, llm: LlmInput, uid: RecordUid) -> LlmInput:
        ids = self._source.tree.messages(began.uid)
        base, before = self._last.get(began.thread, (None, ()))
        keep = sum(1 for _ in _shared(before, ids))
        added = tuple(self._content(item) for item in ids[keep:])
        self._last[began.thread] = uid, ids
        tools = None if llm.tools is None else self._content(llm.tools)
        return replace(llm, messages=MessageList(base, keep, added), tools=tools)

    def _ended(self, ended: NodeEnded) -> NodeEnded:
        output = None if ended.output is None else self._content(ended.output)
        return replace(ended, uid=self._names[ended.uid], output=output)

    def _judged(self, judged: Judged) -> Judged:
        return replace(judged, after=None if judged.after is None else self._names.get(judged.after))

    def _content(self, content: MessageId) -> MessageId:
        return self._fork.put(self._source.content(content))


def _shared(before: tuple[MessageId, ...], after: tuple[MessageId, ...]) -> Iterator[MessageId]:
    for old, new in zip(before, after, strict=False):
        if old != new:
            return
        yield new
