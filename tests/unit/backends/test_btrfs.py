"""What subvolumes promise beyond the contract."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.errors import RestoreRefused, WorkspaceRefused
from agentrewind.snapshots.backends import subvolumes
from agentrewind.snapshots.backends.btrfs import BtrfsWorld
from tests.unit.backends.histories import live
from tests.unit.backends.images import image
from tests.unit.backends.standing import standing_in


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with image("btrfs", tmp_path) as place:
        subvolumes.create(place / "workspace")
        yield place / "workspace"


def opened(root: Path) -> BtrfsWorld:
    return BtrfsWorld.open(root, root.parent / "store")


def test_random_histories_come_back(root: Path) -> None:
    with opened(root) as world:
        live(root, world, random.Random(1), 40)


def test_who_stands_inside_is_named_and_nothing_is_touched(root: Path) -> None:
    (root / "a").write_text("before")
    with opened(root) as world:
        target = world.snapshot()
        (root / "a").write_text("after")
        with standing_in(root) as pid, pytest.raises(RestoreRefused, match=f"{pid} \\(python"):
            world.restore(target.id)
        assert (root / "a").read_text() == "after"
        assert world.pending is None
        world.restore(target.id)
    assert (root / "a").read_text() == "before"
    assert not (root.parent / "store" / "aside").exists()


def test_a_subvolume_inside_is_said_and_stops_a_restore(root: Path) -> None:
    with opened(root) as world:
        target = world.snapshot()
        subvolumes.create(root / "inner")
        (root / "inner" / "precious").write_text("x")
        assert [gap.path for gap in world.snapshot().coverage.excluded] == ["inner"]
        (root / "a").write_text("a")
        with pytest.raises(RestoreRefused, match="inner"):
            world.restore(target.id)
    assert (root / "inner" / "precious").read_text() == "x"


def test_what_is_written_while_the_trees_are_switched_is_saved(root: Path) -> None:
    (root / "a").write_text("before")
    with opened(root) as world:
        target = world.snapshot()
        (root / "a").write_text("after")
        crashpoints.arm("snapshot.restore-intent-written", lambda: (root / "b").write_text("at the last moment"))
        try:
            report = world.restore(target.id)
        finally:
            crashpoints.disarm()
        assert len(report.drift) == 1
        assert [path.name for path in root.iterdir()] == ["a"]
        late = world.snapshots()[-1]
        assert late.id in report.drift[0].why
        world.restore(late.id)
    assert (root / "b").read_text() == "at the last moment"


def test_forks_are_apart(root: Path) -> None:
    (root / "a").write_text("common")
    with opened(root) as world:
        start = world.snapshot()
        for number in range(3):
            world.fork(start.id, root.parent / f"fork-{number}")
            (root.parent / f"fork-{number}" / "a").write_text(f"{number}")
        assert world.verify(start.id).ok
    assert (root / "a").read_text() == "common"


def test_elsewhere_it_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    with pytest.raises(WorkspaceRefused, match="isn't on a btrfs file system"):
        BtrfsWorld.open(tmp_path / "workspace", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_plain_directory_is_refused_with_what_to_do(root: Path) -> None:
    (root.parent / "plain").mkdir()
    with pytest.raises(WorkspaceRefused, match="btrfs subvolume create"):
        BtrfsWorld.open(root.parent / "plain", root.parent / "other")
