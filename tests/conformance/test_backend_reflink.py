"""The snapshot contract with large files as clones, in images of the file systems that clone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.snapshots.backends.reflink import ReflinkWorld
from agentrewind.testing.snapshots import SnapshotContract
from tests.unit.backends.images import image


class TestReflinkWorld(SnapshotContract):
    crash_points = "snapshot.restore-"
    kind = "xfs"

    @pytest.fixture
    def root(self, tmp_path: Path) -> Iterator[Path]:
        with image(self.kind, tmp_path) as place:
            (place / "workspace").mkdir()
            yield place / "workspace"

    def open_world(self, root: Path, store: Path) -> ReflinkWorld:
        return ReflinkWorld.open(root, store)


@pytest.mark.slow
class TestReflinkWorldOnBtrfs(TestReflinkWorld):
    kind = "btrfs"
