"""The store: durable, deduplicated, rebuilt from its packs, and damaged only where it is damaged."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core.errors import (
    SnapshotDamaged,
    SnapshotNotFound,
    StorageFull,
    StoreError,
    UsageError,
)
from agentrewind.snapshots import compression, packs
from agentrewind.snapshots.store import KEY_EVERY
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences

Open = Callable[..., WorkspaceWorld]


def pack_bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in (store / "packs").iterdir())


def records(store: Path) -> list[tuple[Path, packs.Record]]:
    """All records of all packs."""
    found = []
    for path in sorted((store / "packs").iterdir()):
        found += [(path, record) for record in packs.records(path.read_bytes(), int(path.stem), 0)]
    return found


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))


def forget_caches(store: Path) -> None:
    for name in ("index", "scan-cache"):
        (store / name).unlink(missing_ok=True)


def test_an_unchanged_world_is_the_same_snapshot_and_writes_nothing(
    root: Path, store: Path, world: WorkspaceWorld
) -> None:
    (root / "a").write_text("a")
    first = world.snapshot()
    size = pack_bytes(store)
    assert world.snapshot("another label") == first
    assert pack_bytes(store) == size


def test_equal_states_have_equal_fingerprints(root: Path, world: WorkspaceWorld) -> None:
    os.utime(root, ns=(1, 1))
    first = world.snapshot()
    (root / "a").write_text("a")
    second = world.snapshot()
    (root / "a").unlink()
    os.utime(root, ns=(1, 1))
    third = world.snapshot()
    assert first.fingerprint == third.fingerprint != second.fingerprint
    assert world.identical(first.id, third.id)
    assert not world.identical(first.id, second.id)


def test_a_small_change_costs_little(root: Path, store: Path, world: WorkspaceWorld) -> None:
    for number in range(300):
        (root / f"f{number}").write_bytes(random.Random(number).randbytes(2000))
    with (root / "big").open("wb") as file:
        file.write(os.urandom(20 << 20))
    world.snapshot()
    size = pack_bytes(store)
    with (root / "big").open("r+b") as file:
        file.seek(10 << 20)
        file.write(os.urandom(4096))
    world.snapshot()
    assert pack_bytes(store) - size < (1 << 20) + 20_000


def test_equal_contents_are_kept_once(root: Path, store: Path, world: WorkspaceWorld) -> None:
    data = os.urandom(50_000)
    for number in range(20):
        (root / f"f{number}").write_bytes(data)
    world.snapshot()
    assert pack_bytes(store) < 70_000


def test_only_the_owner_may_read_the_store(root: Path, store: Path, open_world: Open) -> None:
    (root / ".env").write_text("SECRET=1")
    world = open_world()
    world.snapshot()
    world.close()
    for path in [store, *store.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_snapshots_outlive_many_steps_and_whole_states(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    for number in range(400):
        (root / f"base{number}").write_text(str(number))
    states = {}
    for number in range(KEY_EVERY * 2 + 5):
        (root / "counter").write_text(str(number))
        states[world.snapshot().id] = describe(root)
    world.close()
    forget_caches(store)
    world = open_world()
    assert [found.id for found in world.snapshots()] == list(states)
    for name in list(states)[:: KEY_EVERY // 3]:
        world.restore(name)
        assert not differences(states[name], describe(root))
    whole = [record for _, record in records(store) if record.kind == packs.MANIFEST and record.unpacked > 20_000]
    assert len(whole) == 3


def test_what_a_killed_process_left_half_written_is_cleared(store: Path, open_world: Open) -> None:
    open_world().close()
    (store / "index.0a0b0c0d.new").write_bytes(b"half")
    open_world(lease=False)
    assert list(store.glob("*.new"))
    open_world()
    assert not list(store.glob("*.new"))


def test_the_index_is_only_a_cache(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    (root / "a").write_text("a")
    first = world.snapshot()
    world.close()
    (store / "index").write_bytes(b"nonsense")
    (store / "scan-cache").write_bytes(b"nonsense")
    world = open_world()
    assert world.find(first.id) == first
    assert world.snapshot() == first


def test_cut_off_anywhere_in_the_last_append_the_earlier_snapshot_is_whole(
    root: Path, store: Path, open_world: Open, tmp_path: Path
) -> None:
    world = open_world()
    (root / "a").write_text("first")
    first = world.snapshot()
    pack = store / "packs" / "000001.pack"
    start = pack.stat().st_size
    (root / "a").write_text("second")
    (root / "b").write_bytes(os.urandom(300))
    second = world.snapshot()
    world.close()
    forget_caches(store)
    whole = pack.read_bytes()
    for end in [*range(start, len(whole), 37), len(whole) - 1]:
        pack.write_bytes(whole[:end])
        for later in (store / "packs").iterdir():
            if later != pack:
                later.unlink()
        forget_caches(store)
        world = open_world()
        assert [found.id for found in world.snapshots()] == [first.id]
        third = world.snapshot()
        assert third.id != second.id
        assert world.verify(first.id).ok
        assert world.verify(third.id).ok
        world.close()
        forget_caches(store)
        assert [found.id for found in open_world().snapshots()] == [first.id, third.id]


def test_a_byte_turned_anywhere_damages_only_what_uses_it(
    root: Path, store: Path, open_world: Open, tmp_path: Path
) -> None:
    world = open_world()
    states = {}
    for number in range(6):
        (root / f"file{number}").write_bytes(os.urandom(100 + number))
        (root / "same").write_text(str(number // 3))
        states[world.snapshot().id] = describe(root)
    world.close()
    whole = tmp_path / "whole"
    shutil.copytree(store, whole)
    rng = random.Random(4)
    for _, record in records(store):
        for at in {record.offset + 1, record.table_at - 2, record.body_at, rng.randrange(record.body_at, record.end)}:
            _damage_and_look(store, whole, open_world, states=states, record=record, at=at)


def _damage_and_look(
    store: Path, whole: Path, open_world: Open, *, states: dict[str, object], record: packs.Record, at: int
) -> None:
    shutil.rmtree(store)
    shutil.copytree(whole, store)
    forget_caches(store)
    flip(store / "packs" / f"{record.pack:06d}.pack", at)
    world = open_world(lease=False)
    usable = 0
    for name in states:
        try:
            usable += world.verify(name).ok
        except SnapshotNotFound:
            assert record.kind != packs.OBJECTS
    if record.kind == packs.OBJECTS:
        assert usable >= 1 or record.offset == 0
        assert usable < len(states)
    else:
        assert usable >= len(states) - 1, (record.kind, at)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_damaged_object_damages_exactly_the_snapshots_that_use_it(
    root: Path, store: Path, open_world: Open, indexed: bool
) -> None:
    world = open_world()
    (root / "a").write_bytes(os.urandom(500))
    first = world.snapshot()
    (root / "a").unlink()
    (root / "b").write_bytes(os.urandom(500))
    second = world.snapshot()
    world.close()
    if not indexed:
        forget_caches(store)
    path, record = next((path, record) for path, record in records(store) if record.kind == packs.OBJECTS)
    flip(path, record.body_at + 100)
    world = open_world()
    assert [gap.path for gap in world.verify(first.id).problems] == ["a"]
    assert world.verify(second.id).ok
    before = describe(root)
    with pytest.raises(SnapshotDamaged, match=r"'a'.*Nothing was touched"):
        world.restore(first.id)
    assert not differences(before, describe(root))
    assert world.pending is None
    with pytest.raises(SnapshotDamaged):
        world.read(first.id, "a")


def test_a_damaged_step_is_walked_around(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    for number in range(60):
        (root / f"base{number}").write_text("x")
    states = {}
    for number in range(KEY_EVERY + 4):
        (root / "counter").write_text(str(number))
        states[world.snapshot().id] = describe(root)
    world.close()
    forget_caches(store)
    steps = [(path, record) for path, record in records(store) if record.kind == packs.MANIFEST]
    path, record = steps[10]
    flip(path, record.body_at + 3)
    world = open_world()
    names = list(states)
    for name in (names[5], names[9], names[11], names[40], names[-1]):
        world.restore(name)
        assert not differences(states[name], describe(root))


class FullDisk:
    """Writes until there is no room left."""

    def __init__(self) -> None:
        self.room = 10**12

    def __call__(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(fd, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 10, 5_000, 60_000])
def test_a_full_disk_adds_nothing_and_the_store_goes_on(root: Path, store: Path, open_world: Open, room: int) -> None:
    disk = FullDisk()
    world = open_world(write=disk)
    (root / "a").write_text("a")
    first = world.snapshot()
    size = pack_bytes(store)
    (root / "b").write_bytes(os.urandom(200_000))
    disk.room = room
    with pytest.raises(StorageFull, match="Earlier snapshots are as they were"):
        world.snapshot()
    assert pack_bytes(store) == size
    assert [found.id for found in world.snapshots()] == [first.id]
    disk.room = 10**12
    second = world.snapshot()
    assert world.verify(second.id).ok
    (root / "b").unlink()
    world.restore(second.id)
    assert (root / "b").stat().st_size == 200_000


def test_a_file_size_limit_counts_as_full(root: Path, store: Path) -> None:
    (root / "b").write_bytes(os.urandom(3 << 20))
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from agentrewind.core.errors import StorageFull\n"
        "from agentrewind.snapshots.workspace import WorkspaceWorld\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "world = WorkspaceWorld.open(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "try: world.snapshot()\n"
        "except StorageFull: print('full', len(world.snapshots()))\n"
        "world.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root), str(store)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "full 0\n"
    with WorkspaceWorld.open(root, store) as world:
        assert world.verify(world.snapshot().id).ok


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_really_full_file_system(root: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (root / "a").write_text("a")
        with WorkspaceWorld.open(root, small / "store", lease_dir=tmp_path / "leases") as world:
            first = world.snapshot()
            (root / "b").write_bytes(os.urandom(2 << 20))
            with pytest.raises(StorageFull):
                world.snapshot()
            (root / "b").unlink()
            (root / "a").write_text("changed")
            world.restore(first.id)
            assert (root / "a").read_text() == "a"
        with WorkspaceWorld.open(root, small / "store", lease_dir=tmp_path / "leases") as world:
            assert world.verify(first.id).ok
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_restore_with_a_full_store_touches_nothing(root: Path, open_world: Open) -> None:
    disk = FullDisk()
    world = open_world(write=disk)
    (root / "a").write_text("a")
    first = world.snapshot()
    (root / "a").write_text("not saved yet")
    disk.room = 0
    before = describe(root)
    with pytest.raises(StorageFull):
        world.restore(first.id)
    assert not differences(before, describe(root))
    assert world.pending is None


def test_without_zstandard_zlib_does_it(root: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").write_text("compress me " * 1000)
    with monkeypatch.context() as patch:
        patch.setattr(compression, "zstandard", None)
        patch.setattr(compression, "_codec", compression._packer()[0])
        patch.setattr(compression, "_pack", compression._packer()[1])
        with WorkspaceWorld.open(root, store) as world:
            first = world.snapshot()
            assert world.verify(first.id).ok
    assert {record.codec for _, record in records(store)} <= {compression.RAW, compression.ZLIB}
    assert pack_bytes(store) < 2000
    with WorkspaceWorld.open(root, store) as world:
        assert world.read(first.id, "a") == b"compress me " * 1000


def test_what_zstd_wrote_is_named_where_zstandard_is_missing(
    root: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("compress me " * 1000)
    with WorkspaceWorld.open(root, store) as world:
        first = world.snapshot()
    monkeypatch.setattr(compression, "zstandard", None)
    with WorkspaceWorld.open(root, store, lease=False) as world:
        found = world.verify(first.id)
    assert not found.ok


def test_an_unknown_snapshot_is_refused_and_nothing_is_touched(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    world.snapshot()
    before = describe(root)
    for name in ("f" * 32, "", "zz"):
        with pytest.raises(SnapshotNotFound):
            world.restore(name)
    assert not differences(before, describe(root))


def test_a_snapshot_is_found_by_the_beginning_of_its_id(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    first = world.snapshot()
    assert world.find(first.id[:10]) == first
    ids = [first.id]
    for number in range(17):
        (root / "a").write_text(str(number))
        ids.append(world.snapshot().id)
    shared = next(name[0] for name in ids if sum(other.startswith(name[0]) for other in ids) > 1)
    with pytest.raises(SnapshotNotFound, match="give more of the id"):
        world.find(shared)


def test_a_reader_sees_what_the_writer_adds_and_writes_nothing(root: Path, store: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    world.snapshot()
    with WorkspaceWorld.open(root, store, lease=False) as reader:
        before = describe(store)
        (root / "a").write_text("b")
        assert reader.diff_live(reader.snapshots()[0].id).items[0].path == "a"
        assert not differences(before, describe(store))
        second = world.snapshot()
        after = describe(store)
        assert reader.find(second.id) == second
        assert reader.verify(second.id).ok
        for refused in (reader.snapshot, lambda: reader.restore(second.id), reader.resume):
            with pytest.raises(UsageError, match="reading only"):
                refused()
    assert not differences(after, describe(store))


def test_reading_where_there_is_no_store_is_a_usage_error(root: Path, store: Path) -> None:
    with pytest.raises(UsageError, match="nothing has been saved"):
        WorkspaceWorld.open(root, store, lease=False)
    assert not store.exists()


def test_a_store_of_another_kind_is_refused(root: Path, store: Path) -> None:
    store.mkdir()
    (store / "format").write_text("something else 7\n")
    with pytest.raises(UsageError, match="not a snapshot store"):
        WorkspaceWorld.open(root, store)


def test_a_damaged_record_of_a_restore_is_named(root: Path, store: Path, world: WorkspaceWorld) -> None:
    world.snapshot()
    (store / "restore-intent").write_text("{")
    with pytest.raises(StoreError, match="restore-intent"):
        _ = world.pending


def test_power_durability_syncs_every_snapshot(root: Path, open_world: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd)))
    world = open_world()
    (root / "a").write_text("a")
    world.snapshot()
    assert not synced
    world.sync()
    assert len(synced) == 1
    world = open_world(durability="power")
    (root / "a").write_text("b")
    world.snapshot()
    assert len(synced) == 2
