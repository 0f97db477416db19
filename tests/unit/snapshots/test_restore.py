"""A restore never loses a byte: what isn't saved isn't touched, and what somebody else does meanwhile is kept."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.errors import RestoreInterrupted, RestoreRefused, SnapshotIncomplete, StoreError
from agentrewind.snapshots import beneath, restoring
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.workspace import Absence, WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots.plain_user import as_plain_user, place_for_all

Open = Callable[..., WorkspaceWorld]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def at() -> object:
    """Do something when a crash point is reached, a number of times."""

    def arm(point: str, act: Callable[[], object], times: int = 1) -> None:
        left = [times]

        def again() -> None:
            left[0] -= 1
            crashpoints.disarm()
            act()
            if left[0]:
                crashpoints.arm(point, again)

        crashpoints.arm(point, again)

    yield arm
    crashpoints.disarm()


def contents_of(world: WorkspaceWorld, path: str) -> set[object]:
    return {world.read(found.id, path) for found in world.snapshots()}


def test_the_undo_can_be_undone(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("before")
    first = world.snapshot()
    (root / "a").write_text("work of a day")
    (root / "new").write_text("never saved")
    after = describe(root)
    report = world.restore(first.id)
    assert not (root / "new").exists()
    assert report.live is not None
    world.restore(report.live)
    assert not differences(after, describe(root))


def test_a_rehearsal_says_the_same_and_touches_and_writes_nothing(
    root: Path, store: Path, world: WorkspaceWorld
) -> None:
    (root / "a").write_text("before")
    (root / "gone").write_text("x")
    first = world.snapshot()
    (root / "a").write_text("after")
    (root / "gone").unlink()
    (root / "new").mkdir()
    before = describe(root), describe(store / "packs")
    rehearsed = world.restore(first.id, dry_run=True)
    assert (describe(root), describe(store / "packs")) == before
    assert rehearsed.dry_run
    assert rehearsed.live is None
    assert [(act.what, act.path) for act in sorted(rehearsed.acts, key=lambda act: act.path)] == [
        ("attributes", ""), ("write", "a"), ("create", "gone"), ("remove", "new"),
    ]  # fmt: skip
    assert sorted(map(str, world.restore(first.id).acts)) == sorted(map(str, rehearsed.acts))


EDIT = b"an edit of a person, made meanwhile"


@pytest.mark.parametrize(
    "point",
    ["snapshot.restore-live-saved", "snapshot.restore-intent-written", "snapshot.restore-removed",
     "snapshot.restore-temporary-written"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["edited", "removed", "replaced"])
def test_an_edit_during_the_restore_is_saved_first(
    root: Path, world: WorkspaceWorld, at: Callable[..., None], point: str, path: str
) -> None:
    outside = root.parent / "outside"
    outside.write_text("outside")
    (root / "edited").write_text("before")
    (root / "z goes first").mkdir()
    os.link(outside, root / "replaced")
    first = world.snapshot()
    (root / "edited").write_text("live")
    (root / "removed").write_text("live")
    (root / "z goes first").rmdir()
    (root / "z goes first").write_text("x")
    fresh = root.parent / "fresh"
    fresh.write_text("live")
    os.link(fresh, root.parent / "fresh too")
    fresh.replace(root / "replaced")
    edited = []

    def edit() -> None:
        if (root / path).exists():  # it may be removed by then
            (root / path).write_bytes(EDIT)
            edited.append(path)

    at(point, edit)
    world.restore(first.id)
    assert edited or (path, point) == ("removed", "snapshot.restore-temporary-written")
    assert (root / "edited").read_text() == "before"
    assert not (root / "removed").exists()
    if edited:
        assert EDIT in contents_of(world, path)
    assert outside.read_text() == "outside"


def test_a_link_made_meanwhile_from_outside_is_not_written_through(
    root: Path, world: WorkspaceWorld, at: Callable[..., None]
) -> None:
    (root / "a").write_text("target")
    (root / "b").write_text("same")
    first = world.snapshot()
    (root / "a").write_text("live")
    (root / "b").chmod(0o600)

    def link() -> None:
        for name in ("a", "b"):
            os.link(root / name, root.parent / f"outside {name}")

    at("snapshot.restore-intent-written", link)
    world.restore(first.id)
    assert (root / "a").read_text() == "target"
    assert (root.parent / "outside a").read_text() == "live"
    assert stat.S_IMODE((root.parent / "outside b").stat().st_mode) == 0o600


def test_a_file_made_meanwhile_in_a_directory_to_be_removed_is_saved(
    root: Path, world: WorkspaceWorld, at: Callable[..., None]
) -> None:
    first = world.snapshot()
    (root / "d").mkdir()
    (root / "d" / "old").write_text("x")
    at("snapshot.restore-removed", lambda: (root / "d" / "meanwhile").write_bytes(EDIT))
    report = world.restore(first.id)
    assert not (root / "d").exists()
    assert EDIT in contents_of(world, "d/meanwhile")
    assert "d" in {gap.path for gap in report.drift}


def test_a_same_size_edit_with_its_time_put_back_is_seen(
    root: Path, world: WorkspaceWorld, at: Callable[..., None]
) -> None:
    (root / "a").write_text("target")
    first = world.snapshot()
    (root / "a").write_text("live 1")

    def edit() -> None:
        before = (root / "a").stat()
        (root / "a").write_text("live 2")
        os.utime(root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))

    at("snapshot.restore-intent-written", edit)
    world.restore(first.id)
    assert {b"live 1", b"live 2"} <= contents_of(world, "a")


def test_an_edit_that_no_watcher_can_tell_of_is_saved_before_it_is_removed(root: Path, world: WorkspaceWorld) -> None:
    """Written through another name that was made and is gone since the last look."""
    target = world.snapshot().id
    (root / "file").write_text("before")
    for _ in range(2):
        world.snapshot()
        time.sleep(0.1)  # by now its times prove something
    os.link(root / "file", root / "other")
    (root / "other").write_text("edited")
    (root / "other").unlink()
    report = world.restore(target)
    assert report.verified
    assert not (root / "file").exists()
    assert b"edited" in {world.read(snapshot.id, "file") for snapshot in world.snapshots()}


def test_between_exchange_and_look_a_user_file_is_put_back(
    root: Path, world: WorkspaceWorld, at: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The narrowest gap: somebody replaces the file after the last look at it, before the exchange."""
    outside = root.parent / "outside"
    outside.write_text("target")
    os.link(outside, root / "a")
    first = world.snapshot()
    outside.write_text("live!!")
    real, raced = beneath.exchange, []

    def exchange(directory: int, one: str, other: str) -> bool:
        if not raced:
            raced.append(other)
            fresh = root.parent / "fresh"
            fresh.write_bytes(EDIT)
            fresh.replace(root / "a")
        return real(directory, one, other)

    monkeypatch.setattr(beneath, "exchange", exchange)
    world.restore(first.id)
    assert raced == ["a"]
    assert (root / "a").read_text() == "target"
    assert EDIT in contents_of(world, "a")
    assert not [path for path in root.iterdir() if path.name.startswith(".agentrewind")]


def test_between_look_and_removal_a_user_file_is_put_back(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.snapshot()
    (root / "a").write_text("live")
    real, raced = beneath.rename_to_free_name, []

    def rename(directory: int, old: str, new: str) -> None:
        if not raced:
            raced.append(old)
            (root / "a").write_bytes(EDIT)
        real(directory, old, new)

    monkeypatch.setattr(beneath, "rename_to_free_name", rename)
    world.restore(first.id)
    assert raced == ["a"]
    assert EDIT in contents_of(world, "a")
    assert list(root.iterdir()) == []


def test_somebody_who_never_stops_writing_interrupts_and_is_named(
    root: Path, world: WorkspaceWorld, at: Callable[..., None]
) -> None:
    (root / "busy").write_text("target")
    (root / "quiet").write_text("target")
    first = world.snapshot()
    (root / "busy").write_text("live")
    (root / "quiet").write_text("live")
    number = [0]

    def write() -> None:
        number[0] += 1
        (root / "busy").write_text(f"busy {number[0]}")

    at("snapshot.restore-intent-written", write, times=99)
    with pytest.raises(RestoreInterrupted, match="'busy'"):
        world.restore(first.id)
    assert number[0] == restoring.PATIENCE
    assert world.pending is not None
    assert world.pending.target == first.id
    crashpoints.disarm()
    report = world.resume()
    assert report is not None
    assert (root / "busy").read_text() == "target"
    assert b"busy 3" in contents_of(world, "busy")
    assert world.pending is None
    assert world.resume() is None


def test_a_running_process_that_writes_all_the_time_loses_nothing(root: Path, world: WorkspaceWorld) -> None:
    """A log that another thread appends to: each line that was ever written is in the file or in a snapshot."""
    (root / "log").write_text("")
    for number in range(50):
        (root / f"f{number}").write_text("target")
    first = world.snapshot()
    written: list[str] = []
    stop = threading.Event()

    def append() -> None:
        while not stop.is_set():
            line = f"line {len(written)}"
            fresh = root.parent / "fresh"
            fresh.write_text(line)
            fresh.replace(root / "log")
            written.append(line)
            time.sleep(0.0005)

    for number in range(50):
        (root / f"f{number}").write_text("live")
    writer = threading.Thread(target=append)
    writer.start()
    try:
        with pytest.raises(RestoreInterrupted):
            world.restore(first.id)
        assert len(written) > 3
    finally:
        stop.set()
        writer.join()
    world.resume()
    assert (root / "log").read_text() == ""
    assert written[-1].encode() in contents_of(world, "log")


def test_links_are_made_and_unmade(root: Path, world: WorkspaceWorld) -> None:
    for name in ("a", "b", "c"):
        (root / name).write_text("one each")
    apart = world.snapshot(), describe(root)
    for name in ("b", "c"):
        (root / name).unlink()
        os.link(root / "a", root / name)
    together = world.snapshot(), describe(root)
    (root / "a").unlink()
    (root / "c").write_text("two")
    pair = world.snapshot(), describe(root)
    for snapshot, state in (apart, pair, together, apart, together, pair):
        world.restore(snapshot.id)
        assert not differences(state, describe(root))


def test_a_running_program_is_replaced(root: Path, world: WorkspaceWorld) -> None:
    shutil.copy("/bin/sleep", root / "program")
    first = world.snapshot()
    with (root / "program").open("ab") as file:
        file.write(b"changed")
    with subprocess.Popen([root / "program", "60"]) as running:
        try:
            world.restore(first.id)
        finally:
            running.kill()
    assert (root / "program").read_bytes() == Path("/bin/sleep").read_bytes()


@as_root
def test_an_immutable_file_is_refused_before_anything_is_touched(root: Path, world: WorkspaceWorld) -> None:
    (root / "fixed").write_text("target")
    (root / "other").write_text("target")
    first = world.snapshot()
    (root / "fixed").write_text("live")
    (root / "other").write_text("live")
    if subprocess.run(["chattr", "+i", str(root / "fixed")], check=False, capture_output=True).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        before = describe(root)
        with pytest.raises(RestoreRefused, match=r"'fixed' is marked immutable.*Nothing was touched"):
            world.restore(first.id)
        assert not differences(before, describe(root))
        assert world.pending is None
    finally:
        subprocess.run(["chattr", "-i", str(root / "fixed")], check=True)
    world.restore(first.id)
    assert (root / "fixed").read_text() == "target"


def test_no_room_is_refused_before_anything_is_touched(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "large").write_bytes(os.urandom(100_000))
    first = world.snapshot()
    (root / "large").unlink()
    before = describe(root)
    full = list(os.statvfs(root))
    full[4] = 1
    monkeypatch.setattr(os, "fstatvfs", lambda _: os.statvfs_result(full))
    with pytest.raises(RestoreRefused, match="needs 100,000 bytes"):
        world.restore(first.id)
    assert not differences(before, describe(root))


@as_root
def test_a_mount_inside_is_left_alone(root: Path, world: WorkspaceWorld) -> None:
    (root / "mnt").mkdir()
    first = world.snapshot()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(root / "mnt")], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (root / "mnt" / "theirs").write_text("theirs")
        (root / "a").write_text("a")
        found = world.snapshot()
        assert [(gap.path, gap.why) for gap in found.coverage.excluded] == [
            ("mnt", "another file system is mounted here")
        ]
        world.restore(first.id)
        assert (root / "mnt" / "theirs").read_text() == "theirs"
        assert not (root / "a").exists()
    finally:
        subprocess.run(["umount", str(root / "mnt")], check=True)


@as_root
def test_a_bind_mount_inside_is_left_alone(root: Path, world: WorkspaceWorld, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "theirs").write_text("theirs")
    (root / "mnt").mkdir()
    world.snapshot()
    if subprocess.run(["mount", "--bind", str(tmp_path / "other"), str(root / "mnt")], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        found = world.snapshot()
        assert [gap.path for gap in found.coverage.excluded] == ["mnt"]
        assert world.entry(found.id, "mnt/theirs") is None
    finally:
        subprocess.run(["umount", str(root / "mnt")], check=True)


def test_excluded_paths_stay_and_their_changes_are_reported(root: Path, open_world: Open) -> None:
    world = open_world(rules=PathRules(excluded=("data/", "*.big")))
    (root / "data").mkdir()
    (root / "data" / "x").write_text("x")
    (root / "same.big").write_text("same")
    (root / "sub").mkdir()
    (root / "sub" / "a.big").write_text("one")
    first = world.snapshot()
    assert {gap.path for gap in first.coverage.excluded} == {"data", "same.big", "sub/a.big"}
    assert first.coverage.complete
    (root / "data" / "y").write_text("y")
    (root / "sub" / "a.big").write_text("two")
    (root / "sub" / "new.big").write_text("new")
    (root / "tracked").write_text("x")
    report = world.restore(first.id)
    assert {gap.path: gap.why.split(":")[0] for gap in report.kept} == {
        "data": "excluded, and has changed since the target",
        "sub/a.big": "excluded, and has changed since the target",
        "sub/new.big": "excluded, and new since the target",
    }
    assert (root / "data" / "y").read_text() == "y"
    assert (root / "sub" / "a.big").read_text() == "two"
    assert not (root / "tracked").exists()
    assert world.read(first.id, "same.big") is Absence.EXCLUDED
    assert world.read(first.id, "data/x") is Absence.EXCLUDED
    assert world.read(first.id, "nowhere") is Absence.NOT_THERE


def test_a_directory_that_holds_something_excluded_stays(root: Path, open_world: Open) -> None:
    world = open_world(rules=PathRules(excluded=("*.big",)))
    first = world.snapshot()
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "e" / "x.big").write_text("x")
    (root / "d" / "tracked").write_text("y")
    report = world.restore(first.id)
    assert sorted(path.name for path in root.rglob("*")) == ["d", "e", "x.big"]
    assert {gap.path for gap in report.kept} == {"d", "d/e", "d/e/x.big"}


def test_a_file_can_not_replace_a_directory_with_something_excluded(root: Path, open_world: Open) -> None:
    world = open_world(rules=PathRules(excluded=("*.big",)))
    (root / "d").write_text("a file")
    first = world.snapshot()
    (root / "d").unlink()
    (root / "d").mkdir()
    (root / "d" / "x.big").write_text("x")
    before = describe(root)
    with pytest.raises(RestoreRefused, match="'d' must become something else"):
        world.restore(first.id)
    assert not differences(before, describe(root))


def test_what_is_excluded_by_now_is_not_overwritten(root: Path, open_world: Open) -> None:
    (root / "a.big").write_text("tracked then")
    first = open_world().snapshot()
    world = open_world(rules=PathRules(excluded=("*.big",)))
    (root / "a.big").write_text("not saved any more")
    report = world.restore(first.id)
    assert (root / "a.big").read_text() == "not saved any more"
    assert [gap.path for gap in report.kept] == ["a.big"]


def test_volatile_files_made_or_changed_since_are_removed(root: Path, world: WorkspaceWorld) -> None:
    cache = root / "pkg" / "__pycache__"
    cache.mkdir(parents=True)
    (cache / "old.pyc").write_bytes(b"old")
    (cache / "same.pyc").write_bytes(b"same")
    first = world.snapshot()
    (cache / "old.pyc").write_bytes(b"stale")
    (cache / "new.pyc").write_bytes(b"new")
    (root / ".pytest_cache" / "v").mkdir(parents=True)
    (root / ".pytest_cache" / "v" / "x").write_text("x")
    world.restore(first.id)
    assert sorted(path.name for path in cache.iterdir()) == ["same.pyc"]
    assert not (root / ".pytest_cache").exists()


def test_what_a_person_put_into_a_cache_directory_is_kept(root: Path, world: WorkspaceWorld) -> None:
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "notes.txt").write_text("mine")
    (root / ".mypy_cache").mkdir()
    (root / ".mypy_cache" / "link").symlink_to("elsewhere")
    (root / ".mypy_cache" / "x.json").write_text("{}")
    before = describe(root)
    first = world.snapshot()
    for name in ("__pycache__", ".mypy_cache"):
        shutil.rmtree(root / name)
    world.restore(first.id)
    del before[".mypy_cache/x.json"]
    assert not differences(before, describe(root))


def test_a_lock_of_a_dead_git_is_not_brought_back(root: Path, world: WorkspaceWorld) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "index.lock").write_text("")
    (root / ".git" / "hooks" / "mine.lock").write_text("mine")
    (root / "poetry.lock").write_text("tracked")
    first = world.snapshot()
    shutil.rmtree(root / ".git")
    (root / "poetry.lock").unlink()
    report = world.restore(first.id)
    assert not (root / ".git" / "index.lock").exists()
    assert (root / ".git" / "hooks" / "mine.lock").read_text() == "mine"
    assert (root / "poetry.lock").read_text() == "tracked"
    assert [gap.path for gap in report.kept] == [".git/index.lock"]


def test_a_removed_workspace_comes_back(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    before = describe(root)
    first = world.snapshot()
    shutil.rmtree(root)
    with pytest.raises(StoreError, match="is gone"):
        world.snapshot()
    world.restore(first.id)
    assert not differences(before, describe(root))


# A user without privileges


def plain(act: Callable[[Path, WorkspaceWorld], None], prepare: Callable[[Path], None] = lambda root: None) -> None:
    with place_for_all() as place:
        root = place / "ws"

        def run() -> None:
            root.mkdir(exist_ok=True)
            with WorkspaceWorld.open(root, place / "store") as world:
                act(root, world)

        as_plain_user(root.mkdir)
        prepare(root)
        as_plain_user(run)


@pytest.mark.parametrize("mode", [0o555, 0o500, 0o111, 0])
def test_directories_without_rights_are_handled_for_a_plain_user(mode: int) -> None:
    def act(root: Path, world: WorkspaceWorld) -> None:
        (root / "d" / "e").mkdir(parents=True)
        (root / "d" / "e" / "a").write_text("target")
        open_state = world.snapshot(), describe(root)
        (root / "d" / "e" / "a").write_text("live")
        (root / "d" / "e" / "new").write_text("new")
        for name in ("d/e", "d"):
            (root / name).chmod(mode)
        report = world.restore(open_state[0].id)
        assert not differences(open_state[1], describe(root))
        world.restore(report.live)
        assert stat.S_IMODE((root / "d").stat().st_mode) == mode
        (root / "d").chmod(0o700)
        assert stat.S_IMODE((root / "d" / "e").stat().st_mode) == mode
        (root / "d" / "e").chmod(0o700)
        assert (root / "d" / "e" / "new").read_text() == "new"

    plain(act)


def test_a_file_made_unreadable_is_saved_and_brought_back_for_a_plain_user() -> None:
    def act(root: Path, world: WorkspaceWorld) -> None:
        (root / "a").write_text("target")
        before = describe(root)
        first = world.snapshot()
        (root / "a").write_text("live")
        (root / "a").chmod(0)
        assert world.snapshot().coverage.unreadable[0].path == "a"
        report = world.restore(first.id)
        assert not differences(before, describe(root))
        assert world.read(report.live, "a") == b"live"

    plain(act)


def test_an_unreadable_file_makes_the_snapshot_incomplete_and_is_left_alone() -> None:
    def prepare(root: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("making a file of another user needs root")
        (root / "theirs").write_text("theirs")
        (root / "theirs").chmod(0o600)
        (root / "closed").mkdir(mode=0o700)
        (root / "closed" / "inside").write_text("theirs too")

    def act(root: Path, world: WorkspaceWorld) -> None:
        (root / "a").write_text("target")
        first = world.snapshot()
        assert {gap.path for gap in first.coverage.unreadable} == {"theirs", "closed"}
        assert not first.coverage.complete
        (root / "a").write_text("live")
        with pytest.raises(SnapshotIncomplete, match="Nothing was touched"):
            world.restore(first.id)
        assert (root / "a").read_text() == "live"
        report = world.restore(first.id, accept_incomplete=True)
        assert (root / "a").read_text() == "target"
        assert report.verified
        assert (root / "theirs").exists()
        assert (root / "closed").exists()
        assert world.read(first.id, "theirs") is Absence.UNREADABLE
        assert world.read(first.id, "closed/inside") is Absence.UNREADABLE

    plain(act, prepare)


def test_what_became_unreadable_is_not_deleted() -> None:
    """A directory of somebody else that was readable: what is in it is unknown now, not gone."""
    with place_for_all() as place:
        root = place / "ws"

        def first() -> None:
            (root / "d").mkdir(parents=True)
            (root / "d" / "a").write_text("a")
            with WorkspaceWorld.open(root, place / "store") as world:
                world.snapshot()

        def second() -> None:
            with WorkspaceWorld.open(root, place / "store") as world:
                found = world.snapshot()
                assert [change.path for change in found.changes.items if change.status == "D"] == []
                assert found.coverage.unreadable[0].path == "d"
                with pytest.raises(RestoreRefused, match="can't be saved first"):
                    world.restore(world.snapshots()[0].id)
                report = world.restore(world.snapshots()[0].id, accept_incomplete=True)
                assert {gap.path for gap in report.kept} >= {"d"}

        as_plain_user(first)
        if os.geteuid() != 0:
            pytest.skip("giving a directory to another user needs root")
        os.chown(root / "d", 0, 0)
        (root / "d").chmod(0o700)
        as_plain_user(second)
        assert (root / "d" / "a").read_text() == "a"


@as_root
def test_owners_come_back_for_root_and_are_reported_lossy_for_others(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    os.chown(root / "a", 1234, 5678)
    os.chown(root, 1, 2)
    before = describe(root)
    first = world.snapshot()
    (root / "a").unlink()
    os.chown(root, 0, 0)
    world.restore(first.id)
    assert not differences(before, describe(root))


@as_root
def test_a_foreign_owner_is_lossy_for_a_plain_user() -> None:
    def prepare(root: Path) -> None:
        (root / "a").write_text("theirs")

    def act(root: Path, world: WorkspaceWorld) -> None:
        first = world.snapshot()
        (root / "a").unlink()
        report = world.restore(first.id)
        assert (root / "a").read_text() == "theirs"
        assert [(gap.path, gap.why) for gap in report.lossy] == [("a", "not brought back: owner")]
        assert report.verified
        assert world.restore(first.id).verified

    plain(act, prepare)


def test_a_full_store_in_the_second_pass_interrupts_and_can_be_resumed(
    root: Path, open_world: Open, at: Callable[..., None]
) -> None:
    room = [10**9]

    def write(fd: int, data: bytes) -> int:
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        return os.write(fd, data)

    world = open_world(write=write)
    (root / "a").write_text("target")
    (root / "b").write_text("target")
    first = world.snapshot()
    (root / "a").write_text("live")
    (root / "b").write_text("live")

    def edit_and_fill() -> None:
        (root / "b").write_bytes(EDIT)
        room[0] = 0

    at("snapshot.restore-intent-written", edit_and_fill)
    with pytest.raises(RestoreInterrupted, match="No room"):
        world.restore(first.id)
    assert (root / "b").read_bytes() == EDIT
    assert world.pending is not None
    room[0] = 10**9
    world.resume()
    assert (root / "b").read_text() == "target"
    assert EDIT in contents_of(world, "b")


def test_a_failing_workspace_disk_interrupts_and_can_be_resumed(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (root / name).write_text("target")
    before = describe(root)
    first = world.snapshot()
    for name in ("a", "b"):
        (root / name).write_text("live")

    def failing(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing)
        with pytest.raises(RestoreInterrupted, match=r"Input/output error.*resume"):
            world.restore(first.id)
    assert world.pending is not None
    world.resume()
    assert not differences(before, describe(root))


def test_power_durability_syncs_the_workspace_before_the_restore_is_done(
    root: Path, open_world: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = open_world(durability="power")
    (root / "a").write_text("target")
    first = world.snapshot()
    (root / "a").write_text("live")
    pending: list[bool] = []
    monkeypatch.setattr(
        "agentrewind.snapshots.restoring.sync_file_system", lambda _: pending.append(world.pending is not None)
    )
    world.restore(first.id)
    assert pending == [True]
