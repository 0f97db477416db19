"""A workspace and the side of its sandbox go back together, or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from agentrewind.core.crashpoints import arm, disarm
from agentrewind.core.errors import RestoreRefused, SnapshotDamaged, StorageFull
from agentrewind.core.world import CHANGES_KEPT, Change, SnapshotId
from agentrewind.snapshots.attribution import Whose
from agentrewind.snapshots.sided import UNKNOWN, SidedWorld
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.conformance.test_sided import opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "a").write_text("one\n")
    return made


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    return tmp_path / "store-beside" / "files"


@pytest.fixture
def world(root, tmp_path):
    with closing(opened(root, tmp_path / "store")) as made:
        yield made


def test_both_come_back_to_the_state_they_had_together(world, root, beside):
    (beside / "tmp" / "notes").write_text("first")
    first = world.snapshot()
    (beside / "tmp" / "notes").write_text("second")
    (root / "a").write_text("two\n")
    world.snapshot()
    report = world.restore(first.id)
    assert (root / "a").read_text() == "one\n"
    assert (beside / "tmp" / "notes").read_text() == "first"
    assert {act.path for act in report.acts} == {"a", "/tmp/notes"}
    assert report.verified


def test_a_change_of_the_side_alone_is_a_state_of_its_own(world, beside):
    first = world.snapshot()
    assert world.snapshot().id == first.id, "nothing has changed"
    (beside / "tmp" / "x").write_text("x")
    second = world.snapshot()
    assert second.id != first.id
    assert second.fingerprint != first.fingerprint
    assert second.changes.items == (Change("A", "/tmp/x"),)
    assert world.diff(second.id, first.id).items == (Change("D", "/tmp/x"),)
    assert world.snapshot().id == second.id, "nothing has changed"


def test_what_is_gone_is_counted_in_both_also_beyond_the_paths_that_are_named(world, root, beside):
    for number in range(CHANGES_KEPT + 50):
        (root / f"f{number}").touch()
    (beside / "tmp" / "x").write_text("x")
    first = world.snapshot()
    for number in range(CHANGES_KEPT + 50):
        (root / f"f{number}").unlink()
    (beside / "tmp" / "x").unlink()
    second = world.snapshot()
    assert second.changes.deleted == CHANGES_KEPT + 51
    assert world.diff(first.id, second.id).deleted == CHANGES_KEPT + 51


def test_the_way_back_from_a_restore_is_for_both(world, root, beside):
    first = world.snapshot()
    (root / "b").write_text("b")
    (beside / "tmp" / "x").write_text("x")
    live = world.restore(first.id).live
    assert not (root / "b").exists()
    assert not (beside / "tmp" / "x").exists()
    world.restore(live)
    assert (root / "b").read_text() == "b"
    assert (beside / "tmp" / "x").read_text() == "x"


def test_what_is_written_beside_while_a_restore_begins_is_on_the_way_back_too(world, root, beside, monkeypatch):
    first = world.snapshot()
    (root / "a").write_text("two\n")
    (beside / "tmp" / "x").write_text("x")
    restore = world._side.restore

    def late(*given, **more):
        (beside / "tmp" / "x").write_text("written late")
        return restore(*given, **more)

    monkeypatch.setattr(world._side, "restore", late)
    live = world.restore(first.id).live
    monkeypatch.undo()
    assert not (beside / "tmp" / "x").exists()
    world.restore(live)
    assert (beside / "tmp" / "x").read_text() == "written late"
    assert (root / "a").read_text() == "two\n"


def test_a_dry_run_names_both_and_touches_neither(world, root, beside):
    first = world.snapshot()
    (root / "b").write_text("b")
    (beside / "tmp" / "x").write_text("x")
    report = world.restore(first.id, dry_run=True)
    assert {act.path for act in report.acts if act.what == "remove"} == {"b", "/tmp/x"}
    assert (root / "b").exists()
    assert (beside / "tmp" / "x").exists()


def test_what_belongs_together_is_known_after_opening_again(root, tmp_path, beside):
    store = tmp_path / "store"
    with closing(opened(root, store)) as world:
        first = world.snapshot().id
        (beside / "tmp" / "x").write_text("x")
        world.snapshot()
    with closing(opened(root, store)) as world:
        world.restore(first)
    assert not (beside / "tmp" / "x").exists()


def test_a_snapshot_that_knows_no_side_leaves_it_alone_and_says_so(root, tmp_path, beside):
    store = tmp_path / "store"
    with closing(WorkspaceWorld.open(root, store)) as plain:
        old = plain.snapshot().id
        (root / "a").write_text("two\n")
        plain.snapshot()
    with closing(opened(root, store)) as world:
        (beside / "tmp" / "x").write_text("x")
        report = world.restore(old)
    assert (root / "a").read_text() == "one\n"
    assert (beside / "tmp" / "x").exists()
    assert UNKNOWN in {gap.why for gap in report.kept}


def test_where_the_state_of_the_side_is_gone_nothing_is_touched(world, root, beside):
    world.snapshot()
    (root / "a").write_text("two\n")
    second = world.snapshot()
    world._links.add(second.id, SnapshotId("00000000-000000-0000000000000000"))
    (root / "a").write_text("three\n")
    with pytest.raises(SnapshotDamaged, match="Nothing was touched"):
        world.restore(second.id)
    assert (root / "a").read_text() == "three\n"
    assert world.pending is None


def test_where_the_workspace_refuses_the_side_stays_too(world, root, beside, monkeypatch):
    first = world.snapshot()
    (root / "a").write_text("two\n")
    (beside / "tmp" / "x").write_text("x")

    def refuse(*_args: object, **_more: object) -> None:
        raise RestoreRefused("not today")

    monkeypatch.setattr("agentrewind.snapshots.workspace.Restoring.run", _only_for(root, refuse))
    with pytest.raises(RestoreRefused):
        world.restore(first.id)
    assert (root / "a").read_text() == "two\n"
    assert (beside / "tmp" / "x").read_text() == "x"
    assert world.pending is None


def _only_for(root: Path, instead):
    from agentrewind.snapshots.restoring import Restoring

    real = Restoring.run

    def run(self):
        return instead() if self._site.root == root else real(self)

    return run


def test_a_kill_between_the_two_halves_is_finished_by_resume(root, tmp_path, beside, monkeypatch):
    store = tmp_path / "store"

    class Killed(BaseException): ...

    def die(point: str) -> None:
        if point == "snapshot.side restored":
            raise Killed

    with closing(opened(root, store)) as world:
        first = world.snapshot()
        (root / "a").write_text("two\n")
        (beside / "tmp" / "x").write_text("x")
        monkeypatch.setattr("agentrewind.snapshots.sided.reach", die)
        with pytest.raises(Killed):
            world.restore(first.id)
    monkeypatch.undo()
    assert (root / "a").read_text() == "two\n", "the kill fell before the second half"
    with closing(opened(root, store)) as world:
        pending = world.pending
        assert pending is not None
        assert pending.target == first.id
        world.resume()
        assert world.pending is None
        assert (root / "a").read_text() == "one\n"
        assert not (beside / "tmp" / "x").exists()
        world.restore(pending.live)
    assert (root / "a").read_text() == "two\n"
    assert (beside / "tmp" / "x").read_text() == "x"


def test_what_a_person_changed_stays_where_that_was_asked_for(world, root, beside):
    first = world.snapshot()
    (root / "a").write_text("two\n")
    world.snapshot()
    (root / "p").write_text("a person's")
    report = world.restore(first.id, keep_drift=True)
    assert (root / "a").read_text() == "one\n"
    assert (root / "p").read_text() == "a person's"
    assert [gap.path for gap in report.drift] == ["p"]


@pytest.mark.parametrize("asked", [{"keep_drift": True}, {"whose": Whose("run r")}], ids=["drift", "others"])
@pytest.mark.parametrize(
    "kill",
    [
        ("snapshot.restore-intent-written", 0),
        ("snapshot.side restored", 0),
        ("snapshot.restore-intent-written", 2),
        ("snapshot.restore-applied", 1),
    ],
)
def test_it_stays_too_where_a_kill_came_between(root, tmp_path, beside, asked, kill):
    class Killed(BaseException): ...

    def die() -> None:
        raise Killed

    store = tmp_path / "store"
    with closing(opened(root, store)) as world:
        world.mark(["run r"])
        first = world.snapshot()
        (root / "a").write_text("two\n")
        (beside / "tmp" / "x").write_text("x")
        world.snapshot()
        (root / "p").write_text("a person's")
        world.mark([])
        arm(kill[0], die, after=kill[1])
        try:
            with pytest.raises(Killed):
                world.restore(first.id, **asked)
        finally:
            disarm()
    with closing(opened(root, store)) as world:
        world.resume()
        assert world.pending is None
    assert (root / "a").read_text() == "one\n"
    assert (root / "p").read_text() == "a person's"
    assert not (beside / "tmp" / "x").exists()


def test_a_torn_last_line_of_the_links_is_no_line(root, tmp_path, beside):
    store = tmp_path / "store"
    with closing(opened(root, store)) as world:
        first = world.snapshot().id
    links = tmp_path / "store-beside" / "links"
    links.write_text(links.read_text() + "2026")
    with closing(opened(root, store)) as world:
        (beside / "tmp" / "x").write_text("x")
        second = world.snapshot().id
        world.restore(first)
        world.restore(second)
    assert (beside / "tmp" / "x").exists()
    assert isinstance(world, SidedWorld)


def test_where_the_disk_fills_up_in_the_middle_of_a_line_later_states_are_still_whole(
    root, tmp_path, beside, monkeypatch
):
    store = tmp_path / "store"
    with closing(opened(root, store)) as world:
        world.snapshot()
        (beside / "tmp" / "x").write_text("x")
        write, room = os.write, [9]

        def short(fd: int, data: bytes) -> int:
            if fd != world._links._fd:
                return write(fd, data)
            if not (size := room[0]):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            room[0] = 0
            return write(fd, data[:size])

        monkeypatch.setattr("agentrewind.snapshots.sided.os.write", short)
        with pytest.raises(StorageFull):
            world.snapshot()
        monkeypatch.undo()
        again = world.snapshot()
        (beside / "tmp" / "x").unlink()
        world.snapshot()
    with closing(opened(root, store)) as world:
        world.restore(again.id)
    assert (beside / "tmp" / "x").read_text() == "x"


def test_verify_reads_both(root, tmp_path, beside):
    with closing(opened(root, tmp_path / "store")) as world:
        (beside / "tmp" / "big").write_bytes(os.urandom(100_000))
        first = world.snapshot()
        found = world.verify(first.id)
        assert found.ok
        assert found.checked >= 2
    for pack in (beside.parent / "store" / "packs").iterdir():
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 0xFF
        pack.write_bytes(bytes(data))
    with closing(opened(root, tmp_path / "store")) as world:
        found = world.verify(first.id)
    assert not found.ok
    assert "/tmp/big" in {gap.path for gap in found.problems}


def test_the_side_of_a_snapshot_can_be_written_out(root, tmp_path, beside):
    with closing(opened(root, tmp_path / "store")) as world:
        (beside / "tmp" / "notes").write_text("first")
        first = world.snapshot().id
        (beside / "tmp" / "notes").write_text("second")
        world.snapshot()
        world.export_side(first, tmp_path / "out")
    assert (tmp_path / "out" / "tmp" / "notes").read_text() == "first"


def test_what_others_changed_is_saved_with_the_state_that_the_side_has_then(world, root, beside):
    world.mark(["run r"])
    (beside / "tmp" / "x").write_text("at first")
    first = world.snapshot()
    (root / "a").write_text("two\n")
    (beside / "tmp" / "x").write_text("later")
    world.snapshot()
    world.mark([])
    (root / "p").write_text("a person's")
    world.restore_own(first.id, "run r", people=True)
    last = world.snapshots()[-1]
    (root / "p").unlink()
    (beside / "tmp" / "x").unlink()
    world.restore(last.id)
    assert (root / "p").read_text() == "a person's"
    assert (beside / "tmp" / "x").read_text() == "at first"
