"""Two runs and a person in one workspace: a rewind of one run never takes away what it can't have made."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrewind.core.errors import RestoreRefused
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.attributed import Attributed
from agentrewind.snapshots.gc import collect, survey
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld

RUNS = ("run a", "run b")
PATHS = ("one", "two", "sub/three", "sub/four", "deep/er/five")


@dataclass
class Room:
    """Who has something at work, as one value for both runs."""

    now: set[str] = field(default_factory=set)
    since: set[str] = field(default_factory=set)


class Member:
    """One run's word in the room."""

    shared = True

    def __init__(self, room: Room, name: str) -> None:
        self.room, self.name = room, name

    def at_work(self, working: bool) -> None:
        if working:
            self.room.now.add(self.name)
            self.room.since.add(self.name)
        else:
            self.room.now.discard(self.name)
            self.room.since.discard(self.name)

    def since_last_look(self) -> list[str]:
        return sorted(self.room.since)

    def looked(self) -> None:
        self.room.since = set(self.room.now)


class Workshop:
    """A real workspace, and a model of whose each file is."""

    def __init__(self, base: Path) -> None:
        self.root = base / "work"
        self.root.mkdir()
        (self.root / "one").write_text("at first\n")
        self.world = WorkspaceWorld.open(self.root, base / "store", detector="scan")
        self.room = Room()
        self.worlds = {name: Attributed(self.world, Member(self.room, name)) for name in RUNS}
        self.looks: dict[str, list[SnapshotId]] = {name: [] for name in RUNS}
        self.owner: dict[str, frozenset[str]] = {}
        """Who was at work when a path changed last."""
        self.owners_at: dict[SnapshotId, dict[str, frozenset[str]]] = {}
        self.seen: dict[str, str] = {}
        self.number = 0
        for name in RUNS:
            self.begin(name)
            self.end(name)

    def files(self) -> dict[str, str]:
        return {str(path.relative_to(self.root)): path.read_text() for path in self.root.rglob("*") if path.is_file()}

    def look(self, name: str) -> SnapshotId:
        workers, now = frozenset(self.room.since), self.files()
        for path in self.seen.keys() | now.keys():
            if self.seen.get(path) != now.get(path):
                self.owner[path] = workers
        self.seen = now
        saved = self.worlds[name].snapshot().id
        self.owners_at[saved] = dict(self.owner)
        return saved

    def begin(self, name: str) -> None:
        if name not in self.room.now:
            self.looks[name].append(self.look(name))
            self.worlds[name].at_work(True)

    def end(self, name: str) -> None:
        if name in self.room.now:
            self.look(name)
            self.worlds[name].at_work(False)

    def write(self, path: str, *, removes: bool) -> None:
        self.number += 1
        at = self.root / path
        if removes:
            at.unlink(missing_ok=True)
        else:
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(f"version {self.number}\n")

    def rewind(self, name: str, which: int, *, people: bool) -> None:
        self.end(name)
        if not self.looks[name]:
            return
        present = self.look(name)
        target = self.looks[name][which % len(self.looks[name])]
        abandoned = target not in self.line(present)
        before = self.files()
        report = self.worlds[name].restore_own(target, name, people=people)
        after = self.files()
        for path in before.keys() | after.keys():
            owner = self.owner.get(path, frozenset())
            theirs = owner - {name} or (people and not owner and path in self.owner)
            again = abandoned and self.owners_at[target].get(path) == {name}  # its own work of then, on another line
            if theirs and not again:
                assert after.get(path) == before.get(path), (path, owner)
            elif before.get(path) != after.get(path) and path in before:
                self.is_saved(report.live, path, before[path])
        told = {gap.path: gap.why for gap in report.kept}
        for path, why in told.items():
            owner = self.owner.get(path, frozenset())
            if path in before and owner - {name} and not why.startswith("taken back"):
                assert any(other in why for other in owner - {name}), (path, why, owner)
        for path in before.keys() | after.keys():
            if before.get(path) != after.get(path):  # it is whose it was then
                self.owner[path] = self.owners_at[target].get(path, frozenset())
        self.seen = after

    def line(self, name: SnapshotId | None) -> set[SnapshotId]:
        """A snapshot and all that it grew from."""
        found = set()
        while name is not None:
            found.add(name)
            name = self.world.find(name).parent
        return found

    def is_saved(self, live: SnapshotId, path: str, text: str) -> None:
        assert self.world.read(live, path) == text.encode()


ACTS = st.one_of(
    st.tuples(st.sampled_from(("begin", "end")), st.sampled_from(RUNS)),
    st.tuples(st.sampled_from(("write", "remove")), st.sampled_from(PATHS)),
    st.tuples(st.just("rewind"), st.sampled_from(RUNS), st.integers(0, 5), st.booleans()),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTS, max_size=25))
def test_what_the_rewinding_run_cant_have_made_stays_and_all_else_is_saved(acts) -> None:
    with tempfile.TemporaryDirectory() as base:
        shop = Workshop(Path(base))
        for act in acts:
            match act:
                case ("begin", name):
                    shop.begin(name)
                case ("end", name):
                    shop.end(name)
                case ("write" | "remove" as what, path):
                    with suppress(NotADirectoryError, IsADirectoryError):
                        shop.write(path, removes=what == "remove")
                case ("rewind", name, which, people):
                    shop.rewind(name, which, people=people)
        shop.world.close()


# --- in words ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def working(shop: Workshop, name: str, *paths: str) -> None:
    shop.begin(name)
    for path in paths:
        shop.write(path, removes=False)
    shop.end(name)


def test_the_other_runs_later_files_stay_and_the_report_says_whose_they_are(shop: Workshop) -> None:
    working(shop, "run a", "two")
    target = shop.looks["run a"][0]
    working(shop, "run b", "sub/three")
    working(shop, "run a", "sub/four")
    report = shop.worlds["run a"].restore_own(target, "run a", people=False)
    assert set(shop.files()) == {"one", "sub/three"}
    assert {gap.path: gap.why for gap in report.kept}["sub/three"] == "new by run b: left as it is"


def test_a_persons_edit_while_nobody_is_at_work_stays_where_that_is_wanted(shop: Workshop) -> None:
    working(shop, "run a", "two")
    target = shop.looks["run a"][0]
    (shop.root / "one").write_text("by hand\n")
    shop.look("run a")
    working(shop, "run a", "sub/four")
    kept = shop.worlds["run a"].restore_own(target, "run a", people=True).kept
    assert shop.files() == {"one": "by hand\n"}
    assert [(gap.path, gap.why) for gap in kept if gap.path == "one"] == [
        ("one", "changed by somebody else than a run: left as it is")
    ]
    shop.worlds["run a"].restore_own(target, "run a", people=False)
    assert shop.files() == {"one": "at first\n"}


def test_what_two_runs_could_have_made_stays_and_the_doubt_is_said(shop: Workshop) -> None:
    shop.begin("run a")
    shop.begin("run b")
    shop.write("two", removes=False)
    shop.end("run a")
    report = shop.worlds["run a"].restore_own(shop.looks["run a"][0], "run a", people=False)
    assert "two" in shop.files()
    assert {gap.path: gap.why for gap in report.kept}["two"] == (
        "new by run b or run a, which can't be told apart: left as it is"
    )


def test_what_was_left_at_one_rewind_is_still_the_others_at_the_next(shop: Workshop) -> None:
    working(shop, "run a", "two")
    first = shop.looks["run a"][0]
    working(shop, "run b", "sub/three")
    working(shop, "run a", "sub/four")
    second = shop.looks["run a"][2]
    for target in (second, first, first):
        shop.worlds["run a"].restore_own(target, "run a", people=False)
        assert "sub/three" in shop.files()
    assert set(shop.files()) == {"one", "sub/three"}


def test_what_a_run_took_back_doesnt_return_with_the_rewind_of_another(shop: Workshop) -> None:
    working(shop, "run a", "two")
    target = shop.looks["run a"][0]
    working(shop, "run b", "sub/three")
    working(shop, "run b", "sub/four")
    shop.worlds["run a"].restore_own(target, "run a", people=False)
    assert set(shop.files()) == {"one", "sub/three", "sub/four"}
    report = shop.worlds["run b"].restore_own(shop.looks["run b"][2], "run b", people=False)
    assert set(shop.files()) == {"one", "sub/three"}, report.kept


def test_what_a_collection_takes_away_between_gives_no_file_to_the_wrong_run(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    target = shop.looks["run a"][0]
    working(shop, "run b", "sub/three")
    working(shop, "run a", "sub/four")
    last = shop.look("run a")
    shop.world.close()
    store = Store.open(tmp_path / "store", writable=True)
    collect(store, survey(store, {target, last}))
    store.close()
    with WorkspaceWorld.open(shop.root, tmp_path / "store", detector="scan") as world:
        report = world.restore_own(target, "run a", people=False)
    assert "sub/three" in shop.files()
    assert "run b" in {gap.path: gap.why for gap in report.kept}["sub/three"]


def test_where_nothing_can_be_told_any_more_nothing_is_touched(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    target = shop.looks["run a"][0]
    working(shop, "run b", "sub/three")
    working(shop, "run a", "sub/four")
    shop.look("run a")
    before = shop.files()

    def gone(_store: Store, name: SnapshotId) -> None:
        raise KeyError(name)

    monkeypatch.setattr(Store, "step", gone)
    with pytest.raises(RestoreRefused, match="can't be told any more"):
        shop.worlds["run a"].restore_own(target, "run a", people=False)
    assert shop.files() == before
