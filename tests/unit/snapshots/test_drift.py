"""What somebody else wrote since the last look: kept or made equal as was asked for, and never lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.world import Act, RestoreReport, SnapshotId
from agentrewind.snapshots.drifting import Drifting
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences

Open = Callable[..., WorkspaceWorld]


def a_run(root: Path, world: WorkspaceWorld) -> tuple[SnapshotId, SnapshotId]:
    """Two states: the agent edited `code`, removed `old`, made `new` and `made/inside`."""
    (root / "code").write_text("first")
    (root / "notes").write_text("notes")
    (root / "old").write_text("old")
    (root / "same").write_text("same")
    first = world.snapshot().id
    (root / "code").write_text("second, by the agent")
    (root / "old").unlink()
    (root / "new").write_text("new, by the agent")
    (root / "made").mkdir()
    (root / "made" / "inside").write_text("by the agent")
    return first, world.snapshot().id


def acts(report: RestoreReport) -> set[str]:
    return {act.path for act in report.acts if act.path}


def told(report: RestoreReport) -> dict[str, str]:
    return {gap.path: gap.why for gap in report.drift}


def test_kept_drift_stays_and_the_rest_goes_back(root: Path, world: WorkspaceWorld) -> None:
    first, last = a_run(root, world)
    (root / "notes").write_text("notes, by a person")
    (root / "new").write_text("new, and then edited by a person")
    (root / "todo").write_text("made by a person")
    report = world.restore(first, keep_drift=True)
    assert (root / "code").read_text() == "first"
    assert (root / "old").read_text() == "old"
    assert not (root / "made").exists()
    assert (root / "notes").read_text() == "notes, by a person"
    assert (root / "new").read_text() == "new, and then edited by a person"
    assert (root / "todo").read_text() == "made by a person"
    assert acts(report) == {"code", "old", "made", "made/inside"}
    assert set(told(report)) == {"new", "notes", "todo"}
    assert told(report)["notes"] == f"changed since snapshot {last[:12]}: left as it is"
    assert told(report)["todo"].startswith("new since")
    assert {gap.path for gap in report.kept} == {"new", "notes", "todo"}
    assert report.verified
    assert world.pending is None


def test_discarded_drift_is_saved_made_equal_and_told(root: Path, world: WorkspaceWorld) -> None:
    first, _ = a_run(root, world)
    before = {name: (root / name).read_text() for name in ("code", "same")}
    (root / "notes").write_text("notes, by a person")
    (root / "same").unlink()
    present = describe(root)
    report = world.restore(first)
    assert (root / "notes").read_text() == "notes"
    assert (root / "same").read_text() == before["same"]
    assert {path: why.split(" since")[0] for path, why in told(report).items()} == {
        "notes": "changed", "same": "removed",
    }  # fmt: skip
    assert told(report)["notes"].endswith("saved, and made equal to the target")
    assert report.live is not None
    world.restore(report.live)
    assert not differences(present, describe(root))


def test_a_rehearsal_names_drift_apart_and_touches_nothing(root: Path, world: WorkspaceWorld) -> None:
    first, _ = a_run(root, world)
    (root / "notes").write_text("notes, by a person")
    before = describe(root)
    kept = world.restore(first, dry_run=True, keep_drift=True)
    equal = world.restore(first, dry_run=True)
    assert not differences(before, describe(root))
    assert "notes" not in acts(kept)
    assert "notes" in acts(equal)
    assert set(told(kept)) == set(told(equal)) == {"notes"}
    assert acts(equal) - {"notes"} == acts(kept)
    assert acts(world.restore(first, keep_drift=True)) == acts(kept)


def test_drift_counts_from_the_snapshot_that_was_named(root: Path, world: WorkspaceWorld) -> None:
    first, last = a_run(root, world)
    (root / "notes").write_text("notes, by a person")
    world.snapshot("saved by hand, after the run")
    assert not told(world.restore(first, dry_run=True))
    report = world.restore(first, keep_drift=True, since=last)
    assert set(told(report)) == {"notes"}
    assert (root / "notes").read_text() == "notes, by a person"
    assert (root / "code").read_text() == "first"


def test_what_a_person_removed_stays_removed(root: Path, world: WorkspaceWorld) -> None:
    (root / "d").mkdir()
    for name in ("a", "b"):
        (root / "d" / name).write_text(name)
    first = world.snapshot().id
    (root / "d" / "a").write_text("by the agent")
    (root / "d" / "b").unlink()
    world.snapshot()
    shutil.rmtree(root / "d")
    report = world.restore(first, keep_drift=True)
    assert not (root / "d").exists()
    assert {gap.path for gap in report.kept} == {"d", "d/a", "d/b"}
    assert "lies below 'd'" in {gap.path: gap.why for gap in report.kept}["d/b"]
    world.restore(first)
    assert (root / "d" / "a").read_text() == "a"


def test_a_directory_stays_for_what_a_person_put_into_it(root: Path, world: WorkspaceWorld) -> None:
    (root / "becomes").write_text("a file in the target")
    first = world.snapshot().id
    (root / "becomes").unlink()
    for name in ("made", "becomes"):
        (root / name).mkdir()
        (root / name / "by agent").write_text("x")
    world.snapshot()
    for name in ("made", "becomes"):
        (root / name / "by person").write_text("y")
    report = world.restore(first, keep_drift=True)
    for name in ("made", "becomes"):
        assert [path.name for path in (root / name).iterdir()] == ["by person"]
    assert {"made", "becomes", "made/by person", "becomes/by person"} <= {gap.path for gap in report.kept}
    assert not world.restore(first, keep_drift=True, since=world.snapshot().id).kept


def test_another_kind_of_thing_in_its_place_is_kept(root: Path, world: WorkspaceWorld) -> None:
    (root / "d").mkdir()
    (root / "d" / "a").write_text("a")
    (root / "f").write_text("f")
    first = world.snapshot().id
    (root / "d" / "a").write_text("by the agent")
    (root / "f").write_text("by the agent")
    world.snapshot()
    shutil.rmtree(root / "d")
    (root / "d").symlink_to("/etc")
    (root / "f").unlink()
    (root / "f").mkdir()
    world.restore(first, keep_drift=True)
    assert (root / "d").readlink() == Path("/etc")
    assert (root / "f").is_dir()


def test_only_the_name_of_a_linked_file_is_kept(root: Path, world: WorkspaceWorld) -> None:
    """A person linked a file that goes back: what he links to keeps its bytes, the other name goes back."""
    (root / "a").write_text("first")
    first = world.snapshot().id
    (root / "a").write_text("second")
    world.snapshot()
    os.link(root / "a", root / "b")
    report = world.restore(first, keep_drift=True)
    assert (root / "a").read_text() == "first"
    assert (root / "b").read_text() == "second"
    assert set(told(report)) == {"b"}


def test_the_names_of_a_private_file_stay_together(root: Path, world: WorkspaceWorld) -> None:
    (root / ".env").write_text("first")
    os.link(root / ".env", root / "a")
    first = world.snapshot().id
    (root / "a").unlink()
    (root / ".env").unlink()
    world.snapshot()
    (root / ".env").write_text("by a person")
    report = world.restore(first, keep_drift=True)
    assert {gap.path for gap in report.kept} == {".env", "a"}
    assert [path.name for path in root.iterdir()] == [".env"]
    world.restore(first)
    assert (root / "a").samefile(root / ".env")


def test_a_private_name_stands_without_the_other_name_that_is_kept(root: Path, world: WorkspaceWorld) -> None:
    """Where `a` stood is a directory with something of a person's; `.env` is what it shall be, so it isn't said to be
    kept, and a third name comes back as another name of it.
    """
    (root / "a").write_text("first")
    for name in (".env", "b"):
        os.link(root / "a", root / name)
    first = world.snapshot().id
    for name in ("a", "b"):
        (root / name).unlink()
    (root / "a").mkdir()
    world.snapshot()
    (root / "a" / "own").write_text("by a person")
    report = world.restore(first, keep_drift=True)
    assert {gap.path for gap in report.kept} == {"a", "a/own"}
    assert acts(report) == {".env", "b"}
    assert (root / "b").samefile(root / ".env")
    assert (root / "b").read_text() == "first"
    assert (root / "a" / "own").read_text() == "by a person"


def test_the_first_name_of_a_file_comes_back_alone(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("first")
    os.link(root / "a", root / "b")
    first = world.snapshot().id
    (root / "a").unlink()
    world.snapshot()
    (root / "b").write_text("by a person")
    world.restore(first, keep_drift=True)
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("first", "by a person")


def test_the_names_of_a_file_are_one_file_without_the_name_that_is_kept(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("first")
    for name in ("b", "c"):
        os.link(root / "a", root / name)
    first = world.snapshot().id
    for name in ("a", "b", "c"):
        (root / name).unlink()
    world.snapshot()
    (root / "a").write_text("by a person")
    world.restore(first, keep_drift=True)
    assert (root / "a").read_text() == "by a person"
    assert (root / "b").samefile(root / "c")
    assert (root / "c").read_text() == "first"


def test_names_that_are_one_file_with_a_kept_one_already_are_not_touched(root: Path, world: WorkspaceWorld) -> None:
    """Counted from an old look what the restore itself brought back is drift: asked once more it touches nothing."""
    for name in ("a", "b", "c"):
        (root / name).write_text("first")
    for name in ("b", "c"):
        (root / name).unlink()
        os.link(root / "a", root / name)
    first = world.snapshot().id
    (root / "a").unlink()
    (root / "b").unlink()
    (root / "b").mkdir()
    since = world.snapshot().id
    (root / "a").write_text("by a person")
    world.restore(first, keep_drift=True, since=since)
    before = {name: (root / name).stat().st_ino for name in ("a", "b", "c")}
    assert before["b"] == before["c"] != before["a"]
    report = world.restore(first, keep_drift=True, since=since)
    assert not report.acts
    assert {name: (root / name).stat().st_ino for name in ("a", "b", "c")} == before


def test_a_directory_whose_mode_a_person_set_keeps_it(root: Path, world: WorkspaceWorld) -> None:
    (root / "d").mkdir(mode=0o755)
    (root / "d" / "a").write_text("first")
    first = world.snapshot().id
    (root / "d" / "a").unlink()
    world.snapshot()
    (root / "d").chmod(0o700)
    os.utime(root / "d", ns=(5, 5))
    world.restore(first, keep_drift=True)
    assert (root / "d" / "a").read_text() == "first"
    assert ((root / "d").stat().st_mode & 0o777, (root / "d").stat().st_mtime_ns) == (0o700, 5)


def test_a_database_is_kept_as_a_unit(root: Path, world: WorkspaceWorld) -> None:
    def write(number: int) -> sqlite3.Connection:
        connection = sqlite3.connect(root / "db")
        connection.execute("pragma journal_mode=wal")
        connection.execute("create table if not exists t(n)")
        connection.execute("insert into t values (?)", (number,))
        connection.commit()
        return connection

    write(1).close()
    first = world.snapshot().id
    agent = write(2)
    world.snapshot()
    person = write(3)
    report = world.restore(first, keep_drift=True)
    assert {"db-wal"} <= {gap.path for gap in report.kept} <= {"db", "db-wal", "db-shm"}
    assert sqlite3.connect(root / "db").execute("select n from t order by n").fetchall() == [(1,), (2,), (3,)]
    agent.close()
    person.close()


def test_only_the_time_of_a_directory_is_no_drift(root: Path, world: WorkspaceWorld) -> None:
    first, _ = a_run(root, world)
    when = root.stat().st_mtime_ns
    (root / "todo").write_text("x")
    (root / "todo").unlink()
    assert root.stat().st_mtime_ns != when
    assert not told(world.restore(first, keep_drift=True))


def test_excluded_and_volatile_paths_are_no_drift(root: Path, open_world: Open) -> None:
    world = open_world(rules=PathRules(excluded=("*.log",), volatile=("*.pyc",)))
    (root / "a").write_text("a")
    first = world.snapshot().id
    (root / "a").write_text("b")
    world.snapshot()
    (root / "x.log").write_text("log")
    (root / "x.pyc").write_text("cache")
    report = world.restore(first, keep_drift=True)
    assert not told(report)
    assert {path.name for path in root.iterdir()} == {"a", "x.log"}


def test_an_edit_during_the_restore_is_kept_too(root: Path, world: WorkspaceWorld) -> None:
    first, _ = a_run(root, world)

    def edit() -> None:
        (root / "code").write_text("by a person, at this very moment")

    crashpoints.arm("snapshot.restore-intent-written", edit)
    report = world.restore(first, keep_drift=True)
    assert (root / "code").read_text() == "by a person, at this very moment"
    assert (root / "old").read_text() == "old"
    assert "code" in told(report)


def test_an_edit_after_a_crash_is_not_taken_for_ours(root: Path, open_world: Open) -> None:
    """The restore was to keep drift, and died half-way: what was to be kept then is kept when it is finished."""
    world = open_world()
    first, _ = a_run(root, world)
    (root / "notes").write_text("notes, by a person")

    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    crashpoints.arm("snapshot.restore-file-written", die)
    with pytest.raises(Death):
        world.restore(first, keep_drift=True)
    crashpoints.disarm()
    world.close()
    world = open_world()
    assert world.pending is not None
    report = world.resume()
    assert report is not None
    assert (root / "notes").read_text() == "notes, by a person"
    assert (root / "code").read_text() == "first"
    assert not (root / "made").exists()
    assert set(told(report)) == {"notes"}


def test_rules_that_changed_since_make_no_drift(root: Path, open_world: Open) -> None:
    world = open_world()
    (root / "secret").write_text("secret")
    (root / "a").write_text("a")
    first = world.snapshot().id
    (root / "a").write_text("b")
    last = world.snapshot().id
    world.close()
    world = open_world(rules=PathRules(private=("secret",)))
    report = world.restore(first, keep_drift=True, since=last)
    assert not told(report)
    assert (root / "a").read_text() == "a"


def test_a_caller_that_knows_nothing_of_drift_is_given_a_world_that_does(root: Path, world: WorkspaceWorld) -> None:
    first, last = a_run(root, world)
    (root / "notes").write_text("notes, by a person")
    view = Drifting(world, keep=True, since=last)
    report = view.restore(first)
    assert view.reports == [report]
    assert (root / "notes").read_text() == "notes, by a person"
    assert view.find(first).id == first
    assert view.snapshots()[0].id == first
    assert view.pending is view.resume() is None
    assert view.verify(first).ok
    assert view.diff(first, last)
    view.sync()
    assert view.snapshot().parent == first
    view.close()


def test_a_restore_in_which_everything_is_kept_touches_nothing(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("first")
    first = world.snapshot().id
    (root / "a").write_text("by a person")
    before = (root / "a").stat()
    report = world.restore(first, keep_drift=True)
    assert report.acts == ()
    assert (root / "a").stat() == before
    assert world.restore(first).acts == (Act("write", "a"),)
