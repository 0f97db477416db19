"""The snapshot contract with large files as clones, in images of the file systems that clone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.backends.reflink import ReflinkWorld
from agentrewind.testing.snapshots import SnapshotContract
from tests.unit.backends.images import image
from tests.unit.snapshots.crafting import craft
from tests.unit.snapshots.test_hostile_snapshots import HOSTILE


class TestReflinkWorld(SnapshotContract):
    crash_points = "snapshot.restore-"
    before_writing = "snapshot.restore-file-opened"
    reads_back = True
    kind = "xfs"

    @pytest.fixture
    def root(self, tmp_path: Path) -> Iterator[Path]:
        with image(self.kind, tmp_path) as place:
            (place / "workspace").mkdir()
            yield place / "workspace"

    def open_world(self, root: Path, store: Path) -> ReflinkWorld:
        return ReflinkWorld.open(root, store)

    def hostile(self, store: Path) -> list[SnapshotId]:
        return [craft(store / "ledger", state) for state in HOSTILE.values()]


@pytest.mark.slow
class TestReflinkWorldOnBtrfs(TestReflinkWorld):
    kind = "btrfs"
