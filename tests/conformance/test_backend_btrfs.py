"""The snapshot contract on btrfs subvolumes, in an image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.backends import subvolumes
from agentrewind.snapshots.backends.btrfs import BtrfsWorld
from agentrewind.testing.snapshots import SnapshotContract
from tests.unit.backends.images import image
from tests.unit.snapshots.crafting import craft
from tests.unit.snapshots.test_hostile_snapshots import HOSTILE


class TestBtrfsWorld(SnapshotContract):
    crash_points = "backend."
    before_writing = "backend.live-saved"
    reads_back = True

    @pytest.fixture
    def root(self, tmp_path: Path) -> Iterator[Path]:
        with image("btrfs", tmp_path) as place:
            subvolumes.create(place / "workspace")
            yield place / "workspace"

    def open_world(self, root: Path, store: Path) -> BtrfsWorld:
        return BtrfsWorld.open(root, store)

    def hostile(self, store: Path) -> list[SnapshotId]:
        return [craft(store / "ledger", state) for state in HOSTILE.values()]

    def damage(self, store: Path) -> None:
        states = list((store / "states").iterdir())
        for state in states:
            subvolumes.set_read_only(state, read_only=False)
        super().damage(store)
        for state in states:
            subvolumes.set_read_only(state, read_only=True)
