"""The snapshot contract on overlayfs layers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.backends.overlay import OverlayWorld, why_not
from agentrewind.testing.snapshots import SnapshotContract
from tests.unit.backends.images import unmount_below
from tests.unit.snapshots.crafting import craft
from tests.unit.snapshots.test_hostile_snapshots import HOSTILE


class TestOverlayWorld(SnapshotContract):
    crash_points = "backend."
    before_writing = "backend.live-saved"
    reads_back = False
    """A closed layer is the workspace itself, not a copy of it: where that is damaged, the workspace is."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Iterator[Path]:
        path = tmp_path / "workspace"
        path.mkdir()
        if why := why_not(path, tmp_path / "store"):
            pytest.skip(why)
        yield path
        unmount_below(tmp_path)

    def open_world(self, root: Path, store: Path) -> OverlayWorld:
        return OverlayWorld.open(root, store)

    def hostile(self, store: Path) -> list[SnapshotId]:
        return [craft(store / "ledger", state) for state in HOSTILE.values()]

    def damage(self, store: Path) -> None:
        subprocess.run(["mount", "-o", "remount,rw,bind", str(store / "base")], check=True)
        super().damage(store)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(store / "base")], check=True)
