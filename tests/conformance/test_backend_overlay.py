"""The snapshot contract on overlayfs layers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.snapshots.backends.overlay import OverlayWorld, why_not
from agentrewind.testing.snapshots import SnapshotContract
from tests.unit.backends.images import unmount_below


class TestOverlayWorld(SnapshotContract):
    crash_points = "backend."

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

    def damage(self, store: Path) -> None:
        subprocess.run(["mount", "-o", "remount,rw,bind", str(store / "base")], check=True)
        super().damage(store)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(store / "base")], check=True)
