"""The snapshot contract on a workspace that is saved together with a side directory."""

from __future__ import annotations

from pathlib import Path

from agentrewind.snapshots.sided import SidedWorld
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.testing.snapshots import SnapshotContract


def opened(root: Path, store: Path) -> SidedWorld:
    beside = store.parent / f"{store.name}-beside"
    (beside / "files" / "tmp").mkdir(parents=True, exist_ok=True)
    main = WorkspaceWorld.open(root, store)
    side = WorkspaceWorld.open(beside / "files", beside / "store")
    return SidedWorld(main, side, beside, {"tmp": "/tmp"})


class TestSidedWorld(SnapshotContract):
    crash_points = "snapshot."
    before_writing = "snapshot.restore-file-opened"
    reads_back = True

    def open_world(self, root: Path, store: Path) -> SidedWorld:
        return opened(root, store)
