"""A disk that is full at any write: a clear error, the store opens, the workspace is untouched."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import subprocess
from pathlib import Path

import pytest

from agentrewind.core.errors import StorageFull
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.gc import collect, survey
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.crash.storm_child import FREE
from tests.trees import describe, differences


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
