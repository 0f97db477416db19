"""A world around a world: what it doesn't say otherwise, the inner one does."""

from __future__ import annotations

from typing import Generic, TypeVar

from agentrewind.core.world import (
    Capabilities,
    Changes,
    Pending,
    RestoreReport,
    Snapshot,
    SnapshotId,
    Verification,
    World,
)

WorldT = TypeVar("WorldT", bound=World)


class Wrapping(Generic[WorldT]):
    """Every method of `World`, passed on as it came. Takes the inner world over: closing this closes it."""

    def __init__(self, world: WorldT) -> None:
        self.capabilities: Capabilities = world.capabilities
        self._world = world

    def snapshot(self, label: str = "") -> Snapshot:
        return self._world.snapshot(label)

    def find(self, snapshot: SnapshotId) -> Snapshot:
        return self._world.find(snapshot)

    def snapshots(self) -> tuple[Snapshot, ...]:
        return self._world.snapshots()

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        return self._world.restore(snapshot, dry_run=dry_run, accept_incomplete=accept_incomplete)

    @property
    def pending(self) -> Pending | None:
        return self._world.pending

    def resume(self) -> RestoreReport | None:
        return self._world.resume()

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes:
        return self._world.diff(a, b)

    def verify(self, snapshot: SnapshotId) -> Verification:
        return self._world.verify(snapshot)

    def sync(self) -> None:
        self._world.sync()

    def close(self) -> None:
        self._world.close()
