"""Nothing is reached through a link, with the kernel's help and without."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.snapshots import beneath
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots import hostile


@pytest.fixture(params=["openat2", "step by step"])
def top(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    if request.param == "step by step":
        monkeypatch.setattr(beneath, "_OPENAT2", False)
    elif not beneath._OPENAT2:
        pytest.skip("this kernel has no openat2")
    fd = os.open(root, beneath.DIRECTORY)
    yield fd
    os.close(fd)


def test_no_component_may_be_a_link(root: Path, top: int) -> None:
    (root.parent / "outside" / "d").mkdir(parents=True)
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "link").symlink_to("../../outside")
    os.close(beneath.open_beneath(top, "a/b"))
    os.close(beneath.open_beneath(top, ""))
    for path in ("a/link", "a/link/d", "a/link/absent"):
        with pytest.raises(OSError, match=r".") as caught:
            beneath.open_beneath(top, path)
        assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_the_way_up_is_closed(root: Path, top: int) -> None:
    (root / "a").mkdir()
    for path in ("..", "a/../..", "a/../../ws"):
        with pytest.raises(OSError, match=r".") as caught:
            beneath.open_beneath(top, path)
        assert caught.value.errno == errno.EXDEV


@pytest.mark.usefixtures("top")
def test_the_hostile_tree_comes_back_either_way(root: Path, world: WorkspaceWorld) -> None:
    hostile.build(root)
    before = describe(root)
    target = world.snapshot()
    hostile.damage(root)
    world.restore(target.id)
    assert not differences(before, describe(root))


def test_it_comes_back_where_names_can_not_be_exchanged(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(beneath, "_renameat2", unsupported)
    hostile.build(root)
    before = describe(root)
    target = world.snapshot()
    hostile.damage(root)
    world.restore(target.id)
    assert not differences(before, describe(root))
    assert (root.parent / "ws-outside.txt").read_text() == "outside\nwritten through\n"


def test_holes_are_written_where_they_can_not_be_punched(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (root / "image").open("wb") as file:
        file.truncate(6 << 20)
        file.seek(5 << 20)
        file.write(b"data")
    data = (root / "image").read_bytes()
    target = world.snapshot()
    with (root / "image").open("r+b") as file:
        file.write(b"x" * (3 << 20))
    monkeypatch.setattr(beneath, "punch_hole", lambda *_: False)
    world.restore(target.id)
    assert (root / "image").read_bytes() == data
