"""How many features of a hostile tree each backend brings back, and that what is lost is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrewind.core.world import World
from agentrewind.snapshots.backends import overlay, subvolumes
from agentrewind.snapshots.backends.btrfs import BtrfsWorld
from agentrewind.snapshots.backends.git import GitWorld
from agentrewind.snapshots.backends.overlay import OverlayWorld
from agentrewind.snapshots.backends.reflink import ReflinkWorld
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.unit.backends.features import FEATURES, PlainGit, measured
from tests.unit.backends.images import image, unmount_below

LOST_BY_GIT = {
    "mode 0600", "set-uid", "directory modes, sticky", "empty directories", "hard links",
    "times of files, to the nanosecond", "times of directories", "times of symbolic links",
    "extended attributes", "holes", "FIFOs",
    "a nested repository's history", "the workspace's own repository",
}  # fmt: skip


def lost_by(world: World, root: Path) -> set[str]:
    try:
        target: list[Any] = []

        def keep() -> Callable[[], object]:
            target.append(world.snapshot())
            return lambda: world.restore(target[0].id)

        return {name for name, is_kept in measured(root, keep).items() if not is_kept}
    finally:
        world.close()


def made(place: Path) -> Path:
    root = place / "workspace"
    root.mkdir()
    return root


def test_there_are_as_many_as_we_say() -> None:
    assert len(FEATURES) == 25


def test_the_main_store_keeps_all(tmp_path: Path) -> None:
    root = made(tmp_path)
    assert lost_by(WorkspaceWorld.open(root, tmp_path / "store"), root) == set()


def test_subvolumes_keep_all(tmp_path: Path) -> None:
    with image("btrfs", tmp_path) as place:
        subvolumes.create(place / "workspace")
        root = place / "workspace"
        assert lost_by(BtrfsWorld.open(root, place / "store"), root) == set()


def test_clones_keep_all(tmp_path: Path) -> None:
    with image("xfs", tmp_path) as place:
        root = made(place)
        assert lost_by(ReflinkWorld.open(root, place / "store"), root) == set()


def test_layers_keep_all_that_was_linked_before(tmp_path: Path) -> None:
    root = made(tmp_path)
    if why := overlay.why_not(root, tmp_path / "store"):
        pytest.skip(why)
    try:
        assert lost_by(OverlayWorld.open(root, tmp_path / "store"), root) == set()
    finally:
        unmount_below(tmp_path)


def test_what_git_loses_is_said(tmp_path: Path) -> None:
    root = made(tmp_path)
    with GitWorld.open(root, tmp_path / "store") as world:
        lost = lost_by(world, root)
    assert lost == LOST_BY_GIT
    with GitWorld.open(root, tmp_path / "store") as world:
        coverage = world.snapshots()[0].coverage
    said = {gap.path: gap.why for gap in (*coverage.lossy, *coverage.excluded)}
    paths = {path for feature in FEATURES if feature.name in lost for path in feature.paths}
    unsaid = {path for path in paths if path not in said and not any(path.startswith(f"{up}/") for up in said)}
    assert unsaid == {"timed", "deep", "link-dir"}, "of these only the times are lost, and those of all together"
    assert "times" in said[""]


def test_plain_git_as_others_use_it_loses_more(tmp_path: Path) -> None:
    root = made(tmp_path)

    def keep() -> Callable[[], object]:
        plain = PlainGit(root, tmp_path / "store.git")
        plain.snapshot()
        return plain.restore

    assert sum(measured(root, keep).values()) < 25 - len(LOST_BY_GIT)
