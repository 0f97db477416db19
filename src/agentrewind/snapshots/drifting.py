"""A workspace for a caller that knows `World` only, with a word about drift for all that it restores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrewind.core.world import Capabilities, Changes, Pending, RestoreReport, Snapshot, SnapshotId, Verification

if TYPE_CHECKING:
    from agentrewind.snapshots.workspace import WorkspaceWorld


class Drifting:
    """`world`, whose every restore keeps what changed after the snapshot `since`, or makes it equal and reports it."""

    def __init__(self, world: WorkspaceWorld, *, keep: bool, since: SnapshotId | None) -> None:
        self.capabilities: Capabilities = world.capabilities
        self._world = world
        self._keep = keep
        self._since = since
        self.reports: list[RestoreReport] = []
        """What each restore did, for whom the caller doesn't tell."""

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        """As `WorkspaceWorld.restore`."""
        report = self._world.restore(
            snapshot, dry_run=dry_run, accept_incomplete=accept_incomplete, keep_drift=self._keep, since=self._since
        )
        self.reports.append(report)
        return report

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        """As `WorkspaceWorld.restore_own`."""
        report = self._world.restore_own(snapshot, mine, people=people, until=until)
        self.reports.append(report)
        return report

    def snapshot(self, label: str = "") -> Snapshot:
        return self._world.snapshot(label)

    def find(self, snapshot: SnapshotId) -> Snapshot:
        return self._world.find(snapshot)

    def snapshots(self) -> tuple[Snapshot, ...]:
        return self._world.snapshots()

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
