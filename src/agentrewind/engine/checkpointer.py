"""One snapshot a node, written to the journal: the state before it, which is the state after the one before."""

from __future__ import annotations

import time
from typing import Protocol

from agentrewind.core.codec import Json
from agentrewind.core.errors import StorageFull, StoreError
from agentrewind.core.records import Event, MessageId, RecordUid, Snapshotted
from agentrewind.core.tree import RunTree
from agentrewind.core.world import Changes, Gap, Snapshot, SnapshotId, World
from agentrewind.engine.processes import ticks_now

GAPS_KEPT = 20


class Log(Protocol):
    """The part of a journal writer that the engine needs."""

    @property
    def tree(self) -> RunTree: ...
    def append(self, event: Event) -> None: ...
    def put(self, content: Json) -> MessageId: ...
    def get(self, content: MessageId) -> Json: ...
    def sync(self) -> None: ...


class Checkpointer:
    """Saves the world of one run and says in the journal what changed since it last did."""

    def __init__(self, log: Log, world: World) -> None:
        self._log = log
        self._world = world
        self._at: SnapshotId | None = None
        self.took_ms = 0.0
        """How long the last look took."""
        self._ticks = 0
        self._taken_at: dict[RecordUid, int] = {}
        self.looked_ms = 0.0
        """How long the last `save` looked at a world that was as before."""

    def save(self, label: str = "", *, idle: bool = False) -> Snapshotted:
        """Snapshot now. A failure is recorded as a hole and returned, never hidden and never raised.

        An unchanged world writes nothing: the node that comes next names the same snapshot again. With `idle`, what
        changed is no doing of the node before it.
        """
        self._ticks = ticks_now()
        tree = self._log.tree
        after = tree.head if tree.head is not None and tree.node(tree.head).after is None and not idle else None
        begun = time.perf_counter()
        self.looked_ms = 0.0
        try:
            snapshot = self._world.snapshot(label)
        except (StoreError, StorageFull, OSError) as error:
            event = Snapshotted(None, after, failed=str(error), complete=False, at_ns=time.time_ns(), took_ms=ms(begun))
        else:
            self.took_ms = ms(begun)
            if snapshot.id == self._at and snapshot.id in tree.states:
                self.looked_ms = ms(begun)
                return tree.states[snapshot.id]
            event = _described(snapshot, after, self._changes(snapshot), ms(begun))
            self._at = snapshot.id
        self._log.append(event)
        return event

    def belongs_to(self, uid: RecordUid) -> None:
        """The state saved last is the one before this node."""
        self._taken_at[uid] = self._ticks

    def taken_at(self, uid: RecordUid) -> int:
        """When the state before a node was saved, in ticks since boot: a process that was started later must end on
        the way back to it. 0 where this process didn't take it.
        """
        return self._taken_at.get(uid, 0)

    def moved(self, to: SnapshotId) -> None:
        """The world was restored: the next changes count from there."""
        self._at = to

    def _changes(self, snapshot: Snapshot) -> Changes:
        if self._at is None or snapshot.id == self._at:
            return Changes()
        return snapshot.changes if snapshot.parent == self._at else self._world.diff(self._at, snapshot.id)


def _described(snapshot: Snapshot, after: RecordUid | None, changes: Changes, took_ms: float) -> Snapshotted:
    coverage = snapshot.coverage
    gaps: tuple[Gap, ...] = (*coverage.unreadable, *coverage.too_large, *coverage.unstable)
    return Snapshotted(
        snapshot.id,
        after,
        snapshot.fingerprint,
        coverage.complete,
        gaps[:GAPS_KEPT],
        changes,
        at_ns=time.time_ns(),
        took_ms=took_ms,
    )


def ms(begun: float) -> float:
    """The milliseconds since a `time.perf_counter`."""
    return round((time.perf_counter() - begun) * 1000, 3)
