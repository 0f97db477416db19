"""Room: a limit of the store's own with a warning before it, and a floor under the free space of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core.errors import StorageFull, UsageError
from agentrewind.snapshots import budget
from agentrewind.snapshots.budget import Limits, parse_size
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots.test_store import pack_bytes

Open = Callable[..., WorkspaceWorld]


def test_near_the_limit_there_is_one_warning(root: Path, open_world: Open) -> None:
    told: list[str] = []
    world = open_world(limits=Limits(max_size=100_000), warn=told.append)
    (root / "a").write_bytes(os.urandom(80_000))
    world.snapshot()
    assert told == []
    assert world.warnings == ()
    (root / "b").write_bytes(os.urandom(12_000))
    world.snapshot()
    (root / "c").write_bytes(os.urandom(100))
    world.snapshot()
    assert len(told) == 1
    assert world.warnings == tuple(told)
    assert "of the 100.0 kB that they may" in told[0]
    assert "`agentrewind store gc`" in told[0]


def test_at_the_limit_a_snapshot_is_refused_and_nothing_has_changed(root: Path, store: Path, open_world: Open) -> None:
    world = open_world(limits=Limits(max_size=100_000))
    (root / "a").write_bytes(os.urandom(50_000))
    first = world.snapshot()
    size = pack_bytes(store)
    (root / "b").write_bytes(os.urandom(80_000))
    before = describe(root)
    with pytest.raises(StorageFull, match=r"their limit is 100.0 kB.*as they were.*store gc.*max_size"):
        world.snapshot()
    assert pack_bytes(store) == size
    assert not differences(before, describe(root))
    assert world.verify(first.id).ok
    (root / "b").unlink()
    (root / "c").write_text("small")
    assert world.verify(world.snapshot().id).ok


def test_a_restore_whose_live_state_does_not_fit_touches_nothing(root: Path, open_world: Open) -> None:
    world = open_world(limits=Limits(max_size=20_000))
    (root / "a").write_text("a")
    first = world.snapshot()
    (root / "a").write_bytes(os.urandom(50_000))
    before = describe(root)
    with pytest.raises(StorageFull):
        world.restore(first.id)
    assert not differences(before, describe(root))
    assert world.pending is None


def test_a_snapshot_of_an_unchanged_world_needs_no_room(root: Path, open_world: Open) -> None:
    world = open_world()
    (root / "a").write_text("a")
    first = world.snapshot()
    world = open_world(limits=Limits(max_size=1, min_free=1 << 62))
    assert world.snapshot() == first


def test_the_disk_is_never_filled(root: Path, open_world: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = os.statvfs(root)
    free = disk.f_bavail * disk.f_frsize
    world = open_world(limits=Limits(min_free=free + (1 << 30)))
    (root / "a").write_text("a")
    with pytest.raises(StorageFull, match=r"less than .* of the disk free.*min_free"):
        world.snapshot()
    assert world.snapshots() == ()
    monkeypatch.setattr(budget, "FLOOR_BYTES", free * 2)
    monkeypatch.setattr(budget, "FLOOR_SHARE", 1.0)
    world = open_world()
    with pytest.raises(StorageFull, match="of the disk free"):
        world.snapshot()


def test_the_floor_is_the_lesser_of_the_two(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    _, floor = budget.room(tmp_path, Limits())
    assert floor == min(200_000_000, disk.f_blocks * disk.f_frsize // 100)
    assert budget.room(tmp_path, Limits(min_free=7))[1] == 7


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), (4096, 4096), ("500 MB", 500_000_000), ("2G", 2 * 10**9), ("1.5 GiB", 3 << 29), ("10kb", 10_000),
     ("3 TB", 3 * 10**12), ("7 B", 7), ("12 Kib", 12288)],
)  # fmt: skip
def test_sizes(text: str | int, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "much", "-1", "1 XB", "1.2.3", "GB", True, "1 GB or so"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)
