"""What is removed with a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrewind.compose.collecting import (
    Retention,
    _owners,
    collected,
    preview,
    remove_leftovers,
    remove_run,
    stats,
)
from agentrewind.compose.home import Home
from agentrewind.compose.stores import Place, opened
from agentrewind.compose.worlds import open_world
from agentrewind.core.crashpoints import arm, disarm
from agentrewind.core.records import RunStarted
from agentrewind.core.world import Pending
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots.intent import Kept, write_intent

RUN = "20261201-003812-first-0001"


class Killed(BaseException): ...


def die() -> None:
    raise Killed


def test_a_removal_that_was_cut_off_is_finished_with_the_sandbox_of_the_run(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").made()
    JournalWriter.create(home.run_dir(RUN), RunStarted(RUN, str(tmp_path), 1, "0")).close()
    (home.sandbox_of(RUN) / "files" / "tmp").mkdir(parents=True)
    other = home.sandbox_of("20261201-003812-other-0002")
    other.mkdir()
    arm("store.gc-run-hidden", die)
    try:
        with pytest.raises(Killed):
            remove_run(home, RUN)
    finally:
        disarm()
    remove_leftovers(home)
    assert list((home.root / "sandboxes").iterdir()) == [other]
    assert list(home.runs.iterdir()) == []


def facts(home: Home, run_id: str, at: int) -> None:
    """A run of long ago."""
    JournalWriter.create(home.run_dir(run_id), RunStarted(run_id, str(home.root.parent / "work"), at, "0")).close()
    os.utime(home.run_dir(run_id) / "journal.jsonl", (at, at))


def sided(home: Home, run_id: str, count: int) -> None:
    """Snapshots of its sandbox that take so many bytes."""
    packs = home.sandbox_of(run_id) / "stores" / run_id / "packs"
    packs.mkdir(parents=True)
    (packs / "0").write_bytes(bytes(count))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    home, root = Home(tmp_path / "home").made(), tmp_path / "work"
    root.mkdir()
    (root / "a").write_text("x")
    with open_world(home, root) as world:
        world.snapshot()
    return Place(home.store_of(root), str(root))


def test_the_snapshots_of_sandboxes_count_for_the_size_and_go_with_their_runs(tmp_path: Path, place: Place) -> None:
    home = Home(tmp_path / "home")
    older, newer = "20261201-003812-older-0001", "20261201-003812-newer-0002"
    for at, run_id in enumerate((older, newer)):
        facts(home, run_id, at + 1)
        sided(home, run_id, 1_000_000)
    assert stats(home, place).sides == 2_000_000
    found = preview(home, place, Retention(max_size=1_500_000))
    assert (found.runs, found.sides, found.over) == ((older,), 1_000_000, 0)
    wanted, _ = collected(home, place, Retention(max_size=1_500_000), found)
    assert wanted.runs == (older,)
    assert stats(home, place).sides == 1_000_000
    assert not home.sandbox_of(older).exists()
    assert preview(home, place, Retention(max_size=10)).runs == (newer,)


@pytest.mark.parametrize("beside", [False, True], ids=["the workspace", "its sandbox"])
def test_all_that_a_restore_that_was_cut_off_goes_by_stays(tmp_path: Path, place: Place, beside: bool) -> None:
    home, root = Home(tmp_path / "home"), tmp_path / "work"
    names = []
    with open_world(home, root, holder="run gone") as world:
        for number in range(5):
            (root / "a").write_text(str(number))
            names.append(world.snapshot().id)
    directory = place.directory
    if beside:
        run_id = "20261201-003812-first-0001"
        facts(home, run_id, 1)
        directory = home.sandbox_of(run_id)
        directory.mkdir(parents=True)
    write_intent(directory, Pending(names[0], names[4]), accept_incomplete=False, kept=Kept(names[1], names[3]))
    with opened(place) as store:
        needed = _owners(home, place, store).pending
    assert needed == {names[0], names[1], names[3], names[4]}
    found = preview(home, place, Retention())
    assert found.found.drop == (names[2],)
