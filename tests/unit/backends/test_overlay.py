"""What layers promise beyond the contract."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.core.errors import Busy, RestoreRefused, WorkspaceRefused
from agentrewind.snapshots.backends import mounts, overlay
from agentrewind.snapshots.backends.overlay import OverlayWorld, why_not
from agentrewind.testing.snapshots import describe
from tests.unit.backends.histories import live
from tests.unit.backends.images import unmount_below
from tests.unit.backends.standing import standing_in


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "workspace"
    path.mkdir()
    if why := why_not(path, tmp_path / "store"):
        pytest.skip(why)
    yield path
    unmount_below(tmp_path)


def opened(root: Path) -> OverlayWorld:
    return OverlayWorld.open(root, root.parent / "store")


def test_random_histories_come_back(root: Path) -> None:
    for seed in range(3):
        with opened(root) as world:
            live(root, world, random.Random(seed), 20)


def test_stacks_are_squashed_before_they_are_too_deep(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "DEPTH", 4)
    with opened(root) as world:
        live(root, world, random.Random(7), 40)
        assert len(world._stack.lower) <= 5


@pytest.mark.slow
def test_long_random_histories_come_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "DEPTH", 10)
    for seed in range(100, 130):
        with opened(root) as world:
            live(root, world, random.Random(seed), 60)


def test_who_stands_inside_is_named_and_nothing_is_touched(root: Path) -> None:
    (root / "a").write_text("before")
    with opened(root) as world:
        target = world.snapshot()
        (root / "a").write_text("after")
        with standing_in(root) as pid:
            with pytest.raises(Busy, match=f"{pid} \\(python"):
                world.snapshot()
            with pytest.raises((Busy, RestoreRefused), match=f"{pid} \\(python"):
                world.restore(target.id)
            assert (root / "a").read_text() == "after"
            assert world.pending is None
        world.restore(target.id)
    assert (root / "a").read_text() == "before"


def test_nothing_changed_needs_nobody_out(root: Path) -> None:
    (root / "a").write_text("a")
    with opened(root) as world:
        first = world.snapshot()
        with standing_in(root):
            assert world.snapshot() == first


def test_after_a_reboot_everything_is_mounted_anew(root: Path) -> None:
    (root / "a").write_text("at first")
    with opened(root) as world:
        first = world.snapshot()
        (root / "a").write_text("work that was never saved")
        (root / "new").write_text("new")
    unmount_below(root.parent)
    assert (root / "a").read_text() == "at first"
    with opened(root) as world:
        assert (root / "a").read_text() == "work that was never saved"
        assert (root / "new").read_text() == "new"
        world.restore(first.id)
        assert (root / "a").read_text() == "at first"


def test_a_base_changed_while_it_was_uncovered_is_refused(root: Path) -> None:
    (root / "a").write_text("at first")
    with opened(root) as world:
        world.snapshot()
        world.detach()
    (root / "a").write_text("changed below")
    with pytest.raises(WorkspaceRefused, match="changed while its layers weren't mounted"):
        opened(root)
    assert mounts.mounted_at(root) == []


def test_detached_it_shows_what_it_was_before(root: Path) -> None:
    (root / "a").write_text("at first")
    before = describe(root)
    with opened(root) as world:
        (root / "a").write_text("later")
        world.detach()
    assert describe(root) == before
    assert mounts.mounted_at(root) == []


def test_forks_are_apart(root: Path) -> None:
    (root / "a").write_text("common")
    with opened(root) as world:
        start = world.snapshot()
        forks = [root.parent / f"fork-{number}" for number in range(3)]
        for number, fork in enumerate(forks):
            fork.mkdir()
            world.fork(start.id, fork)
            (fork / "a").write_text(f"fork {number}")
        assert [(fork / "a").read_text() for fork in forks] == ["fork 0", "fork 1", "fork 2"]
        assert (root / "a").read_text() == "common"
        assert world.verify(start.id).ok


def test_a_link_parted_by_a_write_is_seen_so(root: Path) -> None:
    (root / "a").write_text("shared")
    for name in ("b", "c"):
        os.link(root / "a", root / name)
    with opened(root) as world:
        first = world.snapshot()
        assert {gap.path for gap in first.coverage.lossy} == {"a", "b", "c"}
        (root / "a").write_text("apart")
        second = world.snapshot()
        assert {gap.path for gap in second.coverage.lossy} == {"b", "c"}
        assert world.verify(second.id).ok
        world.restore(first.id)
    assert [(root / name).read_text() for name in "abc"] == ["shared"] * 3


def test_where_nothing_can_be_mounted_it_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root to stop being root")
    root = tmp_path / "workspace"
    root.mkdir()
    code = (
        "import sys; from pathlib import Path; from agentrewind.snapshots.backends.overlay import why_not;"
        "print(why_not(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all", sys.executable, "-c", code, root, tmp_path / "s"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "can't be mounted" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["workspace"]


@pytest.mark.parametrize(
    "space", [("--user", "--map-root-user", "--mount"), ("--mount", "--propagation", "shared")], ids=["user", "shared"]
)
def test_root_of_a_namespace_is_enough(tmp_path: Path, space: tuple[str, ...]) -> None:
    code = (
        "import random, sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]);"
        "from tests.unit.backends.histories import live;"
        "from agentrewind.snapshots.backends.overlay import OverlayWorld;"
        "root = Path(sys.argv[1]); world = OverlayWorld.open(root, root.parent / 'store');"
        "live(root, world, random.Random(3), 15); world.close(); print('lived')"
    )
    (tmp_path / "workspace").mkdir()
    command = ["unshare", *space, sys.executable, "-c", code]
    here = Path(__file__).parents[3]
    done = subprocess.run(
        [*command, str(tmp_path / "workspace"), str(here)], check=False, capture_output=True, text=True
    )
    if "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == "lived\n", done.stderr
