"""A workspace for a caller that knows `World` only, with a word about drift for all that it restores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrewind.core.world import RestoreReport, SnapshotId
from agentrewind.core.wrapping import Wrapping

if TYPE_CHECKING:
    from agentrewind.snapshots.workspace import WorkspaceWorld


class Drifting(Wrapping["WorkspaceWorld"]):
    """`world`, whose every restore keeps what changed after the snapshot `since`, or makes it equal and reports it."""

    def __init__(self, world: WorkspaceWorld, *, keep: bool, since: SnapshotId | None) -> None:
        super().__init__(world)
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
