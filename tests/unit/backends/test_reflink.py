"""What clones promise beyond the contract: large files take no room, and nothing but their blocks is shared."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.core.errors import WorkspaceRefused
from agentrewind.snapshots.backends.reflink import ReflinkWorld, why_not
from agentrewind.testing.snapshots import describe
from tests.unit.backends.histories import live
from tests.unit.backends.images import image

SIZE = 24 << 20


@pytest.fixture(params=["xfs", "btrfs"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with image(request.param, tmp_path) as place:
        (place / "workspace").mkdir()
        yield place / "workspace"


def used(root: Path) -> int:
    fd = os.open(root, os.O_RDONLY)
    try:
        os.sync()
        room = os.fstatvfs(fd)
    finally:
        os.close(fd)
    return (room.f_blocks - room.f_bfree) * room.f_frsize


def test_large_files_take_no_room_when_saved_nor_when_brought_back(root: Path) -> None:
    (root / "large").write_bytes(os.urandom(SIZE))
    start = used(root)
    with ReflinkWorld.open(root, root.parent / "store") as world:
        target = world.snapshot()
        assert used(root) - start < SIZE // 4
        (root / "large").unlink()
        world.restore(target.id)
        (root / "large").unlink()
        world.restore(target.id)
        assert used(root) - start < SIZE // 2
        assert world.verify(target.id).ok


def test_sharing_again_changes_neither_bytes_nor_times(root: Path) -> None:
    (root / "large").write_bytes(os.urandom(3 << 20))
    os.utime(root / "large", ns=(7, 1_614_830_767_123_456_789))
    time.sleep(0.03)
    with ReflinkWorld.open(root, root.parent / "store") as world:
        target = world.snapshot()
        before = describe(root)
        (root / "large").write_bytes(b"damaged")
        world.restore(target.id)
        assert describe(root) == before
        (root / "large").write_bytes(os.urandom(3 << 20))
        assert world.verify(target.id).ok, "a write to the workspace isn't a write to the clone"


def test_random_histories_come_back(root: Path) -> None:
    with ReflinkWorld.open(root, root.parent / "store") as world:
        live(root, world, random.Random(5), 20)


def test_elsewhere_it_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    if not why_not(root, tmp_path / "store"):
        pytest.skip("files can be cloned here")
    with pytest.raises(WorkspaceRefused, match="doesn't clone files"):
        ReflinkWorld.open(root, tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir() if path.name != "leases"] == ["workspace"]
