"""What a snapshot doesn't hold is said when it is taken, not found out when it is needed."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrewind.core.errors import RestoreRefused
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences

Open = Callable[..., WorkspaceWorld]
GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602
NODUMP, APPEND_ONLY, IMMUTABLE = 0x40, 0x20, 0x10
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, perm, who)
    for tag, perm, who in (
        (1, 6, 0xFFFFFFFF), (2, 4, 1234), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF),
    )
)  # fmt: skip
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def change_flags(path: Path, add: int = 0, remove: int = 0) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(fd, GET_FLAGS, bytes(8)))
        fcntl.ioctl(fd, SET_FLAGS, struct.pack("l", (flags | add) & ~remove))
    except OSError as error:
        pytest.skip(f"no such flags here: {error}")
    finally:
        os.close(fd)


@pytest.fixture
def flagged(root: Path) -> Iterator[Path]:
    yield root
    for path in [root, *root.rglob("*")]:
        if path.is_file() or path.is_dir():
            with_flags = os.open(path, os.O_RDONLY)
            try:
                (flags,) = struct.unpack("l", fcntl.ioctl(with_flags, GET_FLAGS, bytes(8)))
                fcntl.ioctl(with_flags, SET_FLAGS, struct.pack("l", flags & ~(NODUMP | APPEND_ONLY | IMMUTABLE)))
            except OSError:
                pass
            finally:
                os.close(with_flags)


def lossy(world: WorkspaceWorld) -> dict[str, str]:
    return {gap.path: gap.why for gap in world.snapshot().coverage.lossy}


def test_a_plain_tree_loses_nothing(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    os.setxattr(root / "a", "user.note", b"kept")
    assert lossy(world) == {}


def test_flags_of_chattr_are_named_when_the_snapshot_is_taken(flagged: Path, open_world: Open) -> None:
    world = open_world(detector="scan")  # the kernel tells no watcher of them: there they are seen with the next change
    for name in ("file", "plain"):
        (flagged / name).write_text("x")
    (flagged / "directory").mkdir()
    for name in ("file", "directory"):
        change_flags(flagged / name, NODUMP)
    expected = "kept, but without its flags that chattr sets"
    assert lossy(world) == {"directory": expected, "file": expected}
    (flagged / "plain").write_text("y")
    assert set(lossy(world)) == {"directory", "file"}, "also where they are known already"
    change_flags(flagged / "file", remove=NODUMP)
    assert set(lossy(world)) == {"directory"}


@as_root
@pytest.mark.parametrize("flag", [APPEND_ONLY, IMMUTABLE], ids=["append-only", "immutable"])
def test_what_may_not_be_written_is_named_and_a_restore_refuses(flagged: Path, open_world: Open, flag: int) -> None:
    world = open_world(detector="scan")
    (flagged / "log").write_text("x")
    target = world.snapshot().id
    (flagged / "log").write_text("xy")
    (flagged / "other").write_text("z")
    change_flags(flagged / "log", flag)
    assert set(lossy(world)) == {"log"}
    before = describe(flagged)
    with pytest.raises(RestoreRefused, match="immutable or append-only"):
        world.restore(target)
    assert not differences(before, describe(flagged))


@as_root
def test_attributes_that_are_not_kept_are_named(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    try:
        os.setxattr(root / "a", "trusted.note", b"x")
    except OSError as error:
        pytest.skip(f"no trusted attributes here: {error}")
    assert lossy(world) == {"a": "kept, but without its extended attributes outside of `user.`"}


def test_access_lists_come_back(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    (root / "d").mkdir()
    try:
        os.setxattr(root / "a", "system.posix_acl_access", ACL)
        os.setxattr(root / "d", "system.posix_acl_default", ACL)
    except OSError as error:
        pytest.skip(f"no access lists here: {error}")
    before = {
        name: os.getxattr(root / name, f"system.posix_acl_{what}") for name, what in (("a", "access"), ("d", "default"))
    }
    modes = describe(root)
    target = world.snapshot()
    assert not target.coverage.lossy
    os.removexattr(root / "a", "system.posix_acl_access")
    (root / "a").chmod(0o600)
    shutil.rmtree(root / "d")
    world.restore(target.id)
    after = {
        name: os.getxattr(root / name, f"system.posix_acl_{what}") for name, what in (("a", "access"), ("d", "default"))
    }
    assert before == after
    assert not differences(modes, describe(root))


def test_caches_are_counted_and_never_listed(root: Path, open_world: Open) -> None:
    world = open_world(rules=PathRules())
    (root / "__pycache__").mkdir()
    for number in range(7):
        (root / "__pycache__" / f"m{number}.pyc").write_text("x")
    coverage = world.snapshot().coverage
    assert coverage.volatile == 7
    assert not coverage.excluded
    (root / "__pycache__" / "m0.pyc").unlink()
    (root / "a").write_text("a")
    assert world.snapshot().coverage.volatile == 6
    world.close()
    assert open_world().snapshots()[-1].coverage.volatile == 6


def test_a_worktree_of_git_has_no_gap(root: Path, world: WorkspaceWorld) -> None:
    subprocess.run(["git", "init", "-q", root], check=True)
    coverage = world.snapshot().coverage
    assert coverage.complete
    assert not coverage.lossy
