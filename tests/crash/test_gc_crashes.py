"""Killed at any point of a collection: no snapshot that stays is lost, the store opens, and a second one finishes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.compose import collecting
from agentrewind.compose.collecting import Retention, collected, preview
from agentrewind.compose.home import Home
from agentrewind.compose.stores import place_of
from agentrewind.compose.worlds import open_world
from agentrewind.core import crashpoints
from agentrewind.core.records import RunEnded, RunStarted, Snapshotted
from agentrewind.core.world import SnapshotId
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots import gc, packs
from agentrewind.snapshots.budget import Limits
from agentrewind.snapshots.gc import Collected, collect, survey
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.crash.test_snapshot_crashes import killed_at
from tests.trees import describe

assert gc
assert collecting
POINTS = [name for name in crashpoints.names() if name.startswith("store.gc-") and "-run-" not in name]
RUN_POINTS = [name for name in crashpoints.names() if name.startswith("store.gc-run-")]
FREE = Limits(min_free=0)


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "PACK_LIMIT", 100_000)


def history(root: Path, store: Path) -> dict[SnapshotId, dict]:
    root.mkdir()
    states = {}
    with WorkspaceWorld.open(root, store) as world:
        for step in range(9):
            rng = random.Random(step)
            (root / "edited").write_bytes(rng.randbytes(40_000))
            (root / f"stays-{step}").write_bytes(rng.randbytes(3_000))
            states[world.snapshot().id] = describe(root)
    return states


def removed(store: Path, keep: set[SnapshotId], room: int = 1 << 40) -> Collected:
    opened = Store.open(store, writable=True, limits=FREE)
    try:
        return collect(opened, survey(opened, keep), room=lambda: room)
    finally:
        opened.close()


def whole(root: Path, store: Path, keep: dict[SnapshotId, dict]) -> None:
    with WorkspaceWorld.open(root, store, lease=False) as world:
        found = [snapshot.id for snapshot in world.snapshots() if snapshot.id in keep]
        assert found == list(keep)
        for name, state in keep.items():
            assert world.verify(name).ok
            out = root.parent / "out"
            world.export(name, out)
            hashes = {path: item.get("sha256") for path, item in describe(out).items()}
            assert hashes == {path: item.get("sha256") for path, item in state.items()}
            shutil.rmtree(out)


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("point", POINTS)
def test_killed_while_collecting(tmp_path: Path, point: str, after: int) -> None:
    root, store = tmp_path / "ws", tmp_path / "store"
    states = history(root, store)
    names = list(states)
    keep = {name: states[name] for name in (names[2], names[3], names[7])}
    calm = tmp_path / "calm"
    shutil.copytree(store, calm)
    expected = removed(calm, set(keep)).after
    room = 0 if point == "store.gc-punched" else 1 << 40
    if not killed_at(point, after, lambda: removed(store, set(keep), room)):
        assert after, f"{point} was never reached"
        return
    whole(root, store, keep)
    after_second = removed(store, set(keep)).after
    assert after_second <= expected * 1.1 + 1_000
    whole(root, store, keep)
    with WorkspaceWorld.open(root, store) as world:
        assert [found.id for found in world.snapshots()] == list(keep)
        (root / "edited").write_bytes(random.Random(2).randbytes(40_000))
        again = world.snapshot()
        assert world.verify(again.id).ok


def test_killed_again_and_again_a_collection_gets_there(tmp_path: Path) -> None:
    root, store = tmp_path / "ws", tmp_path / "store"
    states = history(root, store)
    names = list(states)
    keep = {name: states[name] for name in (names[0], names[5], names[8])}
    deaths = 0
    for point in ("index-dropped", "rolled", "copied", "removed", "copied", "done"):
        deaths += killed_at(f"store.gc-{point}", 0, lambda: removed(store, set(keep)))
        whole(root, store, keep)
    assert deaths >= 4
    removed(store, set(keep))
    with WorkspaceWorld.open(root, store) as world:
        assert [found.id for found in world.snapshots()] == list(keep)


def make_run(home: Home, root: Path, number: int) -> str:
    """A run that has ended, with three snapshots of its own."""
    run_id = f"2026120{number}-000000-some-run-000{number}"
    with (
        open_world(home, root, holder=f"run {run_id}") as world,
        JournalWriter.create(home.run_dir(run_id), RunStarted(run_id, str(root), number, "0")) as log,
    ):
        for step in range(3):
            (root / "file").write_bytes(random.Random(10 * number + step).randbytes(50_000))
            log.append(Snapshotted(world.snapshot().id))
        log.append(RunEnded(number, ok=True, reason="done"))
    return run_id


@pytest.mark.parametrize("point", RUN_POINTS)
def test_killed_while_removing_runs(tmp_path: Path, point: str) -> None:
    home, root = Home(tmp_path / "home").made(), tmp_path / "ws"
    root.mkdir()
    runs = [make_run(home, root, number) for number in (1, 2, 3)]
    place = place_of(home, str(root))
    retention = Retention(keep_runs=1)

    def act() -> Callable[[], object]:
        return lambda: collected(home, place, retention, preview(home, place, retention))

    assert killed_at(point, 0, act())
    assert home.run_ids() == runs[1:]
    act()()
    assert home.run_ids() == runs[2:]
    assert not list(home.runs.glob(".removing-*"))
    with open_world(home, root, reading=True) as world:
        assert len(world.snapshots()) == 3
        assert all(world.verify(found.id).ok for found in world.snapshots())
