"""A disk that is full at any write: a clear error, the store opens, the workspace is untouched."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrewind.core.errors import AgentRewindError, StorageFull
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.gc import collect, survey
from agentrewind.snapshots.git_export import export_git
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.crash.storm_child import FREE
from tests.trees import describe, differences

PAGE = os.sysconf("SC_PAGE_SIZE")


class FullAt:
    """The disk is full from the write number `at` on."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, fd: int, data: bytes) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, data[: max(len(data) // 3, 1)])


def lay_out(base: Path) -> tuple[Path, Path, list[str]]:
    root, store = base / "ws", base / "store"
    root.mkdir(parents=True)
    names = []
    with WorkspaceWorld.open(root, store) as world:
        for step in range(3):
            (root / "edited").write_bytes(random.Random(step).randbytes(20_000))
            (root / f"own-{step}").write_bytes(random.Random(-step).randbytes(5_000))
            names.append(world.snapshot().id)
    return root, store, names


def test_a_disk_full_at_any_write_of_a_snapshot_or_a_restore(tmp_path: Path) -> None:
    failed = 0
    for at in range(60):
        root, store, names = lay_out(tmp_path / str(at))
        (root / "edited").write_bytes(os.urandom(30_000))
        before = describe(root)
        with WorkspaceWorld.open(root, store, write=FullAt(at)) as world:
            try:
                world.snapshot()
                world.restore(names[0])
            except StorageFull:
                failed += 1
                assert not differences(before, describe(root))
                assert world.pending is None
        with WorkspaceWorld.open(root, store) as world:
            assert all(world.verify(found.id).ok for found in world.snapshots())
            assert {found.id for found in world.snapshots()} >= set(names)
            world.restore(names[1])
        if failed and failed < at:
            return
    pytest.fail("no write number was enough")


def test_a_disk_full_at_any_write_of_a_collection(tmp_path: Path) -> None:
    for at in range(60):
        root, store, names = lay_out(tmp_path / str(at))
        disk = FullAt(at)
        opened = Store.open(store, writable=True, limits=FREE, write=disk)
        try:
            collect(opened, survey(opened, {names[2]}))
        except StorageFull as error:
            assert "Earlier snapshots are as they were" in str(error)  # noqa: PT017
        finally:
            opened.close()
        with WorkspaceWorld.open(root, store) as world:
            assert world.verify(names[2]).ok
        opened = Store.open(store, writable=True, limits=FREE)
        collect(opened, survey(opened, {names[2]}))
        assert opened.names() == [names[2]]
        opened.close()
        if disk.left >= 0:
            return
    pytest.fail("no write number was enough")


def fill(root: Path, small: Path, leases: Path) -> list[SnapshotId]:
    """Snapshots until there is no room for one, then whatever fits into the rest."""
    names = []
    with WorkspaceWorld.open(root, small / "store", lease_dir=leases, limits=FREE) as world:
        for step in range(40):
            (root / "edited").write_bytes(os.urandom(300_000))
            (root / "text").write_text(f"step {step}")
            try:
                names.append(world.snapshot().id)
            except StorageFull:
                break
    fd = os.open(small / "the rest", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(fd, bytes(4096))
    os.close(fd)
    return names


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_file_system_filled_to_the_last_byte_is_made_room_on(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(small)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        root = tmp_path / "ws"
        root.mkdir()
        names = fill(root, small, tmp_path / "leases")
        assert len(names) >= 5
        opened = Store.open(small / "store", writable=True, limits=FREE)
        done = collect(opened, survey(opened, names[-2:]))
        opened.close()
        assert done.before - done.after > 1_000_000
        with WorkspaceWorld.open(root, small / "store", lease_dir=tmp_path / "leases", limits=FREE) as world:
            assert all(world.verify(name).ok for name in names[-2:])
    finally:
        subprocess.run(["umount", str(small)], check=True)


@contextlib.contextmanager
def small_file_system(place: Path) -> Iterator[Path]:
    """Holds workspace, store and whatever is exported: when it is full, everything is."""
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(place)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def leave(place: Path, free: int) -> Path:
    """A file that takes all but so many bytes."""
    rest = place / "the rest"
    room = os.statvfs(place)
    with rest.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - free)
    assert os.statvfs(place).f_bavail * room.f_frsize == free
    return rest


def lay_out_small(place: Path) -> list[SnapshotId]:
    """Two states and what was edited since; going back to the first needs room in the workspace."""
    root, names = place / "ws", []
    root.mkdir()
    with WorkspaceWorld.open(root, place / "store", limits=FREE) as world:
        for step in range(2):
            (root / "edited").write_bytes(random.Random(step).randbytes(20_000))
            (root / f"own-{step}").write_bytes(random.Random(-step).randbytes(60_000))
            names.append(world.snapshot().id)
            (root / f"own-{step}").unlink()
        world.sync()
    (root / "edited").write_bytes(os.urandom(30_000))
    return names


def saving(place: Path, _names: list[SnapshotId]) -> None:
    with WorkspaceWorld.open(place / "ws", place / "store", limits=FREE) as world:
        world.snapshot()


def restoring(place: Path, names: list[SnapshotId]) -> None:
    with WorkspaceWorld.open(place / "ws", place / "store", limits=FREE) as world:
        try:
            world.restore(names[0])
        finally:
            assert world.pending is None


def collecting(place: Path, names: list[SnapshotId]) -> None:
    with contextlib.closing(Store.open(place / "store", writable=True, limits=FREE)) as store:
        collect(store, survey(store, names[1:]))


def exporting(place: Path, names: list[SnapshotId]) -> None:
    with WorkspaceWorld.open(place / "ws", place / "store", limits=FREE) as world:
        world.export(names[0], place / "out")


def exporting_to_git(place: Path, names: list[SnapshotId]) -> None:
    with contextlib.closing(Store.open(place / "store", writable=False)) as store:
        export_git(store, names, place / "out")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("act", [saving, restoring, collecting, exporting, exporting_to_git])
def test_whatever_room_is_left_it_is_done_or_refused_in_words(
    tmp_path: Path, act: Callable[[Path, list[SnapshotId]], None]
) -> None:
    """With each number of free pages, from none on, then coarser, until there is enough."""
    refused = 0
    for pages in (*range(24), 32, 48, 96, 192, 250, 260, 270, 280, 300, 512):
        with small_file_system(tmp_path / str(pages)) as place:
            names = lay_out_small(place)
            before = describe(place / "ws")
            leave(place, pages * PAGE)
            try:
                act(place, names)
            except AgentRewindError as error:
                refused += 1
                assert re.search("[Rr]oom|space", str(error)), error  # noqa: PT017
                assert not differences(before, describe(place / "ws"))
                assert not (place / "out").exists() or act is exporting
                still_opens(place, names)
            else:
                still_opens(place, names[1:] if act is collecting else names)
                if refused:
                    return
    assert act is collecting, "no room was ever too little, or none enough"


def still_opens(place: Path, names: list[SnapshotId]) -> None:
    """On the full disk, and with room again."""
    for _ in ("full", "with room"):
        with WorkspaceWorld.open(place / "ws", place / "store", limits=FREE) as world:
            assert all(world.verify(name).ok for name in names)
        (place / "the rest").unlink(missing_ok=True)
    with WorkspaceWorld.open(place / "ws", place / "store", limits=FREE) as world:
        world.restore(names[-1])
