"""Collection: what nothing needs is given back, and nothing else."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from agentrewind.core.errors import Busy, SnapshotNotFound, StoreError
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots import gc, packs
from agentrewind.snapshots.budget import Limits
from agentrewind.snapshots.gc import Collected, collect, survey
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots.test_store import flip, forget_caches, pack_bytes, records

Open = Callable[..., WorkspaceWorld]
FREE = Limits(min_free=0)


def removed(store: Path, keep: Collection[SnapshotId], *, room: int = 1 << 40, **options: object) -> Collected:
    """Collect with only `keep` staying."""
    opened = Store.open(store, writable=True, limits=FREE)
    try:
        return collect(opened, survey(opened, keep, **options), room=lambda: room)
    finally:
        opened.close()


def history(root: Path, world: WorkspaceWorld, steps: int, *, size: int = 30_000) -> dict[SnapshotId, dict]:
    """So many snapshots, each of a state of its own: an edit, a file of this step alone, one that stays."""
    states = {}
    for step in range(steps):
        rng = random.Random(step)
        (root / "edited").write_bytes(rng.randbytes(size))
        (root / f"stays-{step}").write_bytes(rng.randbytes(2_000))
        (root / f"passes-{step - 1}").unlink(missing_ok=True)
        (root / f"passes-{step}").write_bytes(rng.randbytes(size))
        states[world.snapshot(f"step {step}").id] = describe(root)
    return states


def sound(root: Path, store: Path, states: dict[SnapshotId, dict], *, tmp: Path) -> None:
    """Exactly these snapshots are there, in this order, whole, and written out as they were."""
    with WorkspaceWorld.open(root, store, lease=False) as world:
        assert [found.id for found in world.snapshots()] == list(states)
        for number, (name, state) in enumerate(states.items()):
            assert world.verify(name).ok
            out = tmp / f"out-{number}"
            world.export(name, out, include_private=True)
            assert {name: item.get("sha256") for name, item in describe(out).items()} == {
                name: item.get("sha256") for name, item in state.items()
            }
            subprocess.run(["rm", "-rf", str(out)], check=True)


@pytest.mark.parametrize("kept", [slice(0, 0), slice(6, 8), slice(0, 2), slice(0, 8, 3), slice(0, 8)])
def test_what_stays_is_whole_and_the_rest_is_gone(
    root: Path, store: Path, open_world: Open, kept: slice, tmp_path: Path
) -> None:
    world = open_world()
    states = history(root, world, 8)
    world.close()
    before = pack_bytes(store)
    keep = dict(list(states.items())[kept])
    done = removed(store, keep)
    assert done.before == before
    assert done.after == pack_bytes(store)
    assert set(done.removed) == states.keys() - keep.keys()
    assert done.after < before * (len(keep) + 1) / 9 + 3_000
    sound(root, store, keep, tmp=tmp_path)
    forget_caches(store)
    sound(root, store, keep, tmp=tmp_path)
    again = removed(store, keep)
    assert again.before == again.after == done.after


def test_snapshots_go_on_after_a_collection(root: Path, store: Path, open_world: Open, tmp_path: Path) -> None:
    world = open_world()
    states = history(root, world, 6)
    world.close()
    names = list(states)
    keep = {name: states[name] for name in (names[1], names[4])}
    removed(store, keep)
    world = open_world()
    (root / "later").write_text("later")
    later = world.snapshot("later").id
    world.close()
    keep[later] = describe(root)
    sound(root, store, keep, tmp=tmp_path)
    forget_caches(store)
    sound(root, store, keep, tmp=tmp_path)
    removed(store, {later})
    sound(root, store, {later: keep[later]}, tmp=tmp_path)


def test_the_changes_of_a_snapshot_are_those_since_its_new_parent(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    names = list(history(root, world, 4))
    world.close()
    removed(store, {names[0], names[3]})
    with WorkspaceWorld.open(root, store, lease=False) as reader:
        last = reader.find(names[3])
        assert last.parent == names[0]
        assert last.changes == reader.diff(names[0], names[3])
        assert reader.find(names[0]).parent is None


def test_a_frame_that_is_needed_in_part_is_taken_apart(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    for number in range(40):
        (root / f"f{number}").write_bytes(random.Random(number).randbytes(1_000))
    world.snapshot()
    for number in range(1, 40):
        (root / f"f{number}").unlink()
    last = world.snapshot()
    world.close()
    done = removed(store, {last.id})
    assert done.before > 40_000
    assert done.after < 5_000
    with WorkspaceWorld.open(root, store, lease=False) as reader:
        assert reader.verify(last.id).ok


def test_large_and_private_files_stay_whole(root: Path, store: Path, open_world: Open, tmp_path: Path) -> None:
    (root / ".env").write_text("TOKEN=one\n")
    (root / "key.pem").write_bytes(os.urandom(5 << 20))
    (root / "big").write_bytes(os.urandom(6 << 20))
    world = open_world()
    world.snapshot()
    with (root / "big").open("r+b") as file:
        file.write(os.urandom(4096))
    (root / ".env").write_text("TOKEN=two\n")
    last = world.snapshot()
    world.close()
    done = removed(store, {last.id})
    assert done.before - done.after >= 1 << 20
    sound(root, store, {last.id: describe(root)}, tmp=tmp_path)


def test_while_somebody_saves_there_is_no_collection(root: Path, store: Path, world: WorkspaceWorld) -> None:
    world.snapshot()
    with pytest.raises(Busy, match="in use"):
        Store.open(store, writable=True)
    world.close()
    held = Store.open(store, writable=True, holder="agentrewind store gc")
    with pytest.raises(Busy, match="agentrewind store gc"):
        WorkspaceWorld.open(root, store)
    held.close()
    WorkspaceWorld.open(root, store).close()


def test_a_reader_finds_what_has_moved_and_is_told_what_has_gone(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    names = list(history(root, world, 5))
    data = (root / "edited").read_bytes()
    world.close()
    with WorkspaceWorld.open(root, store, lease=False) as reader:
        removed(store, {names[4]})
        assert reader.find(names[0]).label == "step 0", "what it has open it may read to the end"
        reader._store.pack_files.close()
        assert reader.read(names[4], "edited") == data
        assert reader.verify(names[4]).ok
        with pytest.raises(SnapshotNotFound):
            reader.diff(names[0], names[4])
    with WorkspaceWorld.open(root, store, lease=False) as reader:
        assert [found.id for found in reader.snapshots()] == [names[4]]


def test_a_reader_that_meets_a_removed_pack_is_told_so_in_one_sentence(
    root: Path, store: Path, open_world: Open
) -> None:
    for act in ("find", "coverage", "verify", "diff_live"):
        states = history(root, open_world(), 4)
        open_world().close()
        with WorkspaceWorld.open(root, store, lease=False) as reader:
            removed(store, set())
            reader._store.pack_files.close()
            with pytest.raises(SnapshotNotFound, match=r"removed meanwhile by `agentrewind store gc`\."):
                getattr(reader, act)(next(iter(states)))


def test_what_can_not_be_read_is_refused_and_nothing_is_removed(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    names = list(history(root, world, 4))
    world.close()
    forget_caches(store)
    for path, record in records(store):
        if record.kind == packs.MANIFEST:
            flip(path, record.body_at + 2)
    before = describe(store)
    with pytest.raises(StoreError, match=r"Nothing was removed.*--forget-damaged"):
        removed(store, names)
    after = describe(store)
    del before["lock"], after["lock"]
    assert not [line for line in differences(before, after) if not line.startswith("'.'")]
    done = removed(store, names, forget_damaged=True)
    assert set(done.removed) == set(names)


def test_a_damaged_step_is_healed_by_what_leads_around_it(
    root: Path, store: Path, open_world: Open, tmp_path: Path
) -> None:
    world = open_world()
    for number in range(60):
        (root / f"base{number}").write_text("x")
    states = {}
    for number in range(70):
        (root / "counter").write_text(str(number) * 500)
        states[world.snapshot().id] = describe(root)
    world.close()
    forget_caches(store)
    steps = [(path, record) for path, record in records(store) if record.kind == packs.MANIFEST]
    path, record = steps[10]
    flip(path, record.body_at + 3)
    names = list(states)
    keep = {name: states[name] for name in names[5:30:4]}
    removed(store, keep)
    sound(root, store, keep, tmp=tmp_path)


@pytest.mark.parametrize("kept", [slice(8, 10), slice(0, 2), slice(4, 6)])
def test_without_room_holes_are_punched(root: Path, store: Path, open_world: Open, tmp_path: Path, kept: slice) -> None:
    world = open_world()
    states = history(root, world, 10, size=200_000)
    world.close()
    keep = dict(list(states.items())[kept])
    blocks = sum(path.stat().st_blocks for path in (store / "packs").iterdir())
    done = removed(store, keep, room=0)
    left = sum(path.stat().st_blocks for path in (store / "packs").iterdir())
    if left >= blocks:
        pytest.skip("this file system has no holes")
    assert done.before - done.after > 1_500_000
    assert (blocks - left) * 512 > 1_500_000
    sound(root, store, keep, tmp=tmp_path)
    forget_caches(store)
    sound(root, store, keep, tmp=tmp_path)
    assert removed(store, keep).after < 1_200_000
    sound(root, store, keep, tmp=tmp_path)


def test_a_disk_full_to_the_last_byte_is_made_room_on(
    root: Path, store: Path, open_world: Open, tmp_path: Path
) -> None:
    """Not even the first record can be written, before objects of what goes have been given back."""
    world = open_world()
    states = history(root, world, 10, size=100_000)
    world.close()
    keep = dict(list(states.items())[-1:])
    packs_at = store / "packs"
    start = sum(path.stat().st_blocks for path in packs_at.iterdir())

    def write(fd: int, data: bytes) -> int:
        if sum(path.stat().st_blocks for path in packs_at.iterdir()) + len(data) // 512 + 1 > start:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, data)

    opened = Store.open(store, writable=True, limits=FREE, write=write)
    done = collect(opened, survey(opened, keep), room=lambda: 0)
    opened.close()
    assert done.after < done.before * 0.6
    assert done.waiting < done.before / 2
    sound(root, store, keep, tmp=tmp_path)


@pytest.mark.parametrize("lost", ["index", "scan-cache", "packs-tail"])
def test_it_needs_no_cache(root: Path, store: Path, open_world: Open, lost: str, tmp_path: Path) -> None:
    world = open_world()
    states = history(root, world, 4)
    world.close()
    if lost == "packs-tail":
        with (store / "packs" / "000001.pack").open("ab") as file:
            file.write(b"torn" * 5000)
    else:
        (store / lost).write_bytes(b"nonsense")
    keep = dict(list(states.items())[2:])
    removed(store, keep)
    assert pack_bytes(store) < 140_000
    sound(root, store, keep, tmp=tmp_path)


def test_the_worth_of_a_pack() -> None:
    assert gc.PackUse(1, 100, 0, ()).worth_it
    assert not gc.PackUse(1, 100_000, 99_000, ()).worth_it
    assert gc.PackUse(1, 100_000, 90_000, ()).worth_it
