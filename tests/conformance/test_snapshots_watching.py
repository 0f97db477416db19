"""The snapshot contract with each detector; what a watcher could miss; and broken watchers that must be caught."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentrewind.core.errors import StorageFull
from agentrewind.snapshots import inotify, scan, site, watch
from agentrewind.snapshots.clock import Clock
from agentrewind.snapshots.detector import Nominated
from agentrewind.snapshots.finder import Finder
from agentrewind.snapshots.watch import Watch
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.snapshots.writers import Writers
from agentrewind.testing.snapshots import SnapshotContract, describe

_WHEN = 1_614_830_767_123_456_789


class NothingIsMissed:
    """Changes that no event, or no time, or no name tells of in the usual way."""

    @abstractmethod
    def open_world(self, root: Path) -> WorkspaceWorld: ...

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        path = tmp_path / "workspace"
        path.mkdir()
        return path

    @contextlib.contextmanager
    def settled(self, root: Path) -> Iterator[WorkspaceWorld]:
        """A world that has looked at everything once, when it was no longer fresh."""
        with self.open_world(root) as world:
            world.snapshot()
            _wait()
            world.snapshot()
            yield world

    def sees(self, world: WorkspaceWorld) -> None:
        """What is saved now is what is there now; and whoever was told that all is quiet has missed nothing."""
        last, quiet = world._site.current, world.quiet()
        snapshot = world.snapshot()
        assert not quiet or snapshot.id == last
        before = describe(world.root)
        for path in world.root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                data = world.read(snapshot.id, str(path.relative_to(world.root)))
                assert data == path.read_bytes(), path
        state = world._store.state(snapshot.id)
        assert {path or "." for path in state} == before.keys()

    def test_a_moved_directory(self, root: Path) -> None:
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "f").write_text("before")
        with self.settled(root) as world:
            (root / "a").rename(root / "c")
            self.sees(world)
            (root / "c" / "b" / "f").write_text("after")
            self.sees(world)

    def test_a_directory_moved_away_changed_and_moved_back(self, root: Path) -> None:
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "f").write_text("before")
        away = root.parent / "away"
        with self.settled(root) as world:
            (root / "a").rename(away)
            self.sees(world)
            (away / "b" / "f").write_text("while away")
            (away / "b" / "g").write_text("new")
            away.rename(root / "a")
            self.sees(world)

    def test_a_directory_moved_away_changed_and_moved_back_at_once(self, root: Path) -> None:
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "f").write_text("before")
        away = root.parent / "away"
        with self.settled(root) as world:
            (root / "a").rename(away)
            (away / "b" / "f").write_text("while away")
            (away / "b" / "g").write_text("new")
            away.rename(root / "a")
            self.sees(world)
            (root / "a" / "b" / "g").write_text("watched again")
            self.sees(world)

    def test_more_than_the_kernel_queues(self, root: Path) -> None:
        for name in ("a", "b", "last"):
            (root / name).write_text("x")
        with self.settled(root) as world:
            for number in range(int(inotify.limit("max_queued_events")) + 100):
                os.utime(root / "ab"[number % 2])
            (root / "last").write_text("after the queue was full")
            self.sees(world)
            (root / "last").write_text("and watching goes on")
            self.sees(world)

    def test_directories_made_and_filled_at_once(self, root: Path) -> None:
        with self.settled(root) as world:
            (root / "a" / "b" / "c").mkdir(parents=True)
            (root / "a" / "b" / "c" / "f").write_text("one")
            self.sees(world)
            (root / "a" / "b" / "c" / "f").write_text("two")
            (root / "a" / "b" / "g").write_text("new")
            self.sees(world)

    def test_the_same_size_and_the_time_put_back(self, root: Path) -> None:
        with self.open_world(root) as world:
            for number in range(20):
                (root / "a").write_text(f"{number:03}")
                os.utime(root / "a", ns=(_WHEN, _WHEN))
                self.sees(world)

    def test_what_is_fresh_is_read_again(self, root: Path) -> None:
        """Its time proves nothing where the file system's clock stands still for some milliseconds."""
        (root / "a").write_text("x")
        read: list[str] = []
        real = scan.take_file

        def reading(fd: int, *rest: Any, **options: Any) -> Any:
            read.append(os.readlink(f"/proc/self/fd/{fd}"))
            return real(fd, *rest, **options)

        with pytest.MonkeyPatch.context() as patch, self.open_world(root) as world:
            patch.setattr(scan, "take_file", reading)
            patch.setattr(Clock, "now_ns", lambda *_: (root / "a").stat().st_mtime_ns)
            world.snapshot()
            world.snapshot()
            world.snapshot()
        assert len(read) == 3

    def test_a_write_through_a_link_from_outside(self, root: Path) -> None:
        outside = root.parent / "outside"
        outside.write_text("before")
        os.link(outside, root / "a")
        with self.settled(root) as world:
            outside.write_text("after")
            self.sees(world)

    def test_a_file_that_gets_a_second_name(self, root: Path) -> None:
        (root / "b").write_text("x")
        with self.settled(root) as world:
            os.link(root / "b", root / "a")
            self.sees(world)
            assert world.entry(world.snapshot().id, "b").leader == "a"

    def test_a_write_through_a_name_that_was_gone_before_anybody_watched_its_directory(self, root: Path) -> None:
        with self.settled(root) as world:
            (root / "fresh").mkdir()
            with (root / "fresh" / "again").open("wb", buffering=0) as held:
                os.link(root / "fresh" / "again", root / "fresh" / "other")
                (root / "fresh" / "again").unlink()
                self.sees(world)
                _wait()
                world.snapshot()
                held.write(b"later")
                self.sees(world)

    def test_a_store_to_a_mapped_page_that_is_dirty_already(self, root: Path) -> None:
        (root / "a").write_bytes(bytes(4096))
        with (
            (root / "a").open("r+b") as file,
            mmap.mmap(file.fileno(), 4096) as mapped,
            self.settled(root) as world,
        ):
            mapped[0] = 1
            world.snapshot()
            _wait()
            world.snapshot()
            mapped[0] = 2
            self.sees(world)

    def test_a_store_before_its_process_dies(self, root: Path) -> None:
        (root / "a").write_bytes(bytes(4096))
        with (
            self.settled(root) as world,
            subprocess.Popen(
                [sys.executable, "-c", _MAPPER, root / "a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as child,
        ):
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdout.readline()
            world.snapshot()
            _wait()
            world.snapshot()
            child.stdin.close()
            child.wait()
            self.sees(world)

    def test_a_store_by_a_process_with_mounts_of_its_own(self, root: Path) -> None:
        """A sandbox has the workspace elsewhere, and so the kernel tells another name of what is mapped there."""
        (root / "a").write_bytes(bytes(4096))
        elsewhere = root.parent / "elsewhere"
        elsewhere.mkdir()
        with (
            self.settled(root) as world,
            subprocess.Popen(
                [sys.executable, "-c", _SANDBOXED_MAPPER, root, elsewhere],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as child,
        ):
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                if child.stdout.readline() != b"mapped\n":
                    pytest.skip("may not have mounts of its own")
                world.snapshot()
                _wait()
                world.snapshot()
                child.stdin.write(b"store\n")
                child.stdin.flush()
                assert child.stdout.readline() == b"stored\n"
                self.sees(world)
            finally:
                child.kill()

    def test_a_write_under_a_name_that_is_gone(self, root: Path) -> None:
        (root / "a").write_text("before")
        with (root / "a").open("r+b", buffering=0) as file, self.settled(root) as world:
            os.link(root / "a", root / "b")
            (root / "a").unlink()
            _wait()
            self.sees(world)
            file.write(b"after!")
            self.sees(world)
            _wait()
            self.sees(world)
            file.write(b"again!")
            self.sees(world)

    def test_what_could_not_be_read(self, root: Path) -> None:
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        (root / "d").mkdir()
        (root / "d" / "f").write_text("x")
        with self.settled(root) as world:
            (root / "d").chmod(0)
            assert not world.snapshot().coverage.complete
            (root / "d").chmod(0o700)
            self.sees(world)

    def test_a_forked_child_takes_nothing(self, root: Path) -> None:
        (root / "a").write_text("before")
        with self.settled(root) as world:
            (root / "a").write_text("after")
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    world._site._finder.detector.nominate()
                os._exit(0)
            os.waitpid(child, 0)
            self.sees(world)

    def test_a_root_that_was_removed_and_brought_back(self, root: Path) -> None:
        (root / "a").write_text("before")
        with self.settled(root) as world:
            target = world.snapshot()
            shutil.rmtree(root)
            world.restore(target.id)
            self.sees(world)
            (root / "b").write_text("watched as well")
            self.sees(world)

    def test_volatile_directories_that_come_to_hold_something(self, root: Path) -> None:
        (root / ".mypy_cache" / "3.11").mkdir(parents=True)
        (root / ".mypy_cache" / "3.11" / "x.json").write_text("{}")
        with self.settled(root) as world:
            (root / ".mypy_cache" / "3.11" / ".env").write_text("KEY=1")
            kinds = world._store.state(world.snapshot().id)
            assert kinds[".mypy_cache"][1:2] == kinds[".mypy_cache/3.11"][1:2] == b"d"
            (root / ".mypy_cache" / "3.11" / ".env").unlink()
            kinds = world._store.state(world.snapshot().id)
            assert kinds[".mypy_cache"][1:2] == kinds[".mypy_cache/3.11"][1:2] == b"v"


_MAPPER = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 4096)
mapped[0] = 1
print(flush=True)
sys.stdin.read()
mapped[0] = 2
"""

_SANDBOXED_MAPPER = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
NEWNS, NEWUSER, BIND, REC, PRIVATE = 0x20000, 0x10000000, 0x1000, 0x4000, 0x40000
if libc.unshare(NEWNS if os.geteuid() == 0 else NEWNS | NEWUSER):
    sys.exit()
if libc.mount(b"none", b"/", None, REC | PRIVATE, None):
    sys.exit()
if libc.mount(os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), None, BIND, None):
    sys.exit()
with open(sys.argv[2] + "/a", "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 4096)
mapped[0] = 1
print("mapped", flush=True)
sys.stdin.readline()
mapped[0] = 2
print("stored", flush=True)
sys.stdin.readline()
"""


def _wait() -> None:
    """Longer than a tick of the file system's clock."""
    time.sleep(0.03)


class TestWatched(NothingIsMissed):
    def open_world(self, root: Path) -> WorkspaceWorld:
        return WorkspaceWorld.open(root, root.parent / "store", detector="watch")


class TestScanned(NothingIsMissed):
    def open_world(self, root: Path) -> WorkspaceWorld:
        return WorkspaceWorld.open(root, root.parent / "store", detector="scan")


class TestContractWatched(SnapshotContract):
    crash_points = "snapshot."

    def open_world(self, root: Path, store: Path) -> WorkspaceWorld:
        return WorkspaceWorld.open(root, store, detector="watch")


class TestContractScanned(SnapshotContract):
    crash_points = "snapshot."

    def open_world(self, root: Path, store: Path) -> WorkspaceWorld:
        return WorkspaceWorld.open(root, store, detector="scan")


# Broken watchers


class MissesMovedDirectories(Watch):
    def _take(self, event: Any, directory: str) -> None:
        if not (event.mask & inotify.MOVED_TO and event.mask & inotify.IS_DIRECTORY):
            super()._take(event, directory)


class KnowsMovedDirectories(Watch):
    """Takes a directory that comes back for the one that went, as it went."""

    def nominate(self) -> Any:
        found = super().nominate()
        if isinstance(found, Nominated):
            found.trees -= found.paths & self._known
        return found

    def settled(self) -> None:
        self._known: set[str] = getattr(self, "_known", set()) | set(self._watches)
        super().settled()


class IgnoresOverflow(Watch):
    def _drain(self, queue: Any) -> None:
        before = self._unknown
        super()._drain(queue)
        self._unknown = before


class WatchesNoNewDirectories(Watch):
    def entering(self, directory: int, path: str) -> None:
        if self._unknown is not None:
            super().entering(directory, path)


class TakesItsParentsEvents(Watch):
    def nominate(self) -> Any:
        self._process = os.getpid()
        return super().nominate()


class ForgetsWhatIsRacy(Finder):
    def _look(self, *arguments: Any) -> Any:
        self.seen.racy.clear()
        return super()._look(*arguments)


class TrustsLinks(Finder):
    def _look(self, *arguments: Any) -> Any:
        self.seen.links.clear()
        return super()._look(*arguments)


class TrustsNames(Finder):
    def _suspect(self, ground: Any) -> None:
        pass


class TrustsNamesOfMappings(Finder):
    def _distrust_mapped(self, mapped: Any) -> None:
        mapped.inodes.clear()
        super()._distrust_mapped(mapped)


class AsksNobody(Writers):
    def nominate(self, *_: Any) -> Nominated:
        return Nominated()


class ForgetsTheDead(Writers):
    """Asks only those that are alive."""

    def nominate(self, *arguments: Any) -> Nominated:
        self._processes.clear()
        return _NOMINATE(self, *arguments)


_NOMINATE = Writers.nominate


class TrustsCloses(Watch):
    """With the dead forgotten, the event at a close is the last that tells of a store."""

    def nominate(self) -> Any:
        found = super().nominate()
        if isinstance(found, Nominated):
            found.forced.clear()
        return found


BROKEN: list[tuple[str, tuple[type, ...]]] = [
    ("test_a_moved_directory", (MissesMovedDirectories,)),
    ("test_a_directory_moved_away_changed_and_moved_back", (MissesMovedDirectories,)),
    ("test_a_directory_moved_away_changed_and_moved_back_at_once", (KnowsMovedDirectories,)),
    ("test_more_than_the_kernel_queues", (IgnoresOverflow,)),
    ("test_directories_made_and_filled_at_once", (WatchesNoNewDirectories,)),
    ("test_a_forked_child_takes_nothing", (TakesItsParentsEvents,)),
    ("test_what_is_fresh_is_read_again", (ForgetsWhatIsRacy,)),
    ("test_a_write_through_a_link_from_outside", (TrustsLinks,)),
    ("test_a_write_under_a_name_that_is_gone", (TrustsNames,)),
    ("test_a_store_to_a_mapped_page_that_is_dirty_already", (AsksNobody,)),
    ("test_a_store_before_its_process_dies", (ForgetsTheDead, TrustsCloses)),
    ("test_a_store_by_a_process_with_mounts_of_its_own", (TrustsNamesOfMappings,)),
]


MAPPED = (
    "test_a_store_to_a_mapped_page_that_is_dirty_already",
    "test_a_store_before_its_process_dies",
    "test_a_store_by_a_process_with_mounts_of_its_own",
)
MEMORY = Path("/dev/shm")
TMPFS = 0x01021994


def _is_in_memory(place: Path) -> bool:
    if not place.is_dir():
        return False
    fd = os.open(place, os.O_RDONLY)
    try:
        return inotify.file_system_type(fd) == TMPFS
    finally:
        os.close(fd)


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A place where no page is ever written out: on a disk that may happen at any moment, and the next store to the
    page then moves the file's time, which even a broken watcher sees.
    """
    if not _is_in_memory(MEMORY):
        pytest.skip("there is no file system in memory here")
    place = Path(tempfile.mkdtemp(prefix="agentrewind-", dir=MEMORY))
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize(
    ("meant", "broken"), BROKEN, ids=["+".join(cls.__name__ for cls in broken) for _, broken in BROKEN]
)
def test_a_broken_watcher_is_caught_by_the_check_meant_for_it(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, meant: str, broken: tuple[type, ...]
) -> None:
    place = request.getfixturevalue("in_memory" if meant in MAPPED else "tmp_path")
    for cls in broken:
        if issubclass(cls, Watch):
            monkeypatch.setattr(site, "Watch", cls)
        elif issubclass(cls, Finder):
            monkeypatch.setattr(site, "Finder", cls)
        else:
            monkeypatch.setattr(Writers, "nominate", cls.nominate)
    root = place / "workspace"
    root.mkdir()
    with pytest.raises(AssertionError):
        getattr(TestWatched(), meant)(root)


# Scanning instead, visibly


def _given_up(root: Path, why: str) -> None:
    with WorkspaceWorld.open(root, root.parent / "store") as world:
        (root / "a").write_text("one")
        first = world.snapshot()
        (root / "a").write_text("two")
        second = world.snapshot()
    assert (second.coverage.found_by, second.coverage.complete) == ("scan", True)
    assert why in second.coverage.why_scanned
    assert why in first.coverage.why_scanned or "nothing has been watched yet" in first.coverage.why_scanned


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def _failing(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def test_without_watches_left_it_scans_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify.Inotify, "add", _failing(28))
    _given_up(root, "max_user_watches")


def test_without_instances_left_it_scans_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify.Inotify, "__init__", _failing(24))
    _given_up(root, "max_user_instances")


def test_on_a_remote_file_system_it_scans_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "file_system_type", lambda _: 0x6969)
    _given_up(root, "without this kernel's knowing")


def test_with_a_mount_inside_it_scans_and_says_so(root: Path) -> None:
    (root / "inside").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", root / "inside"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount")
    try:
        _given_up(root, "mounted inside")
    finally:
        subprocess.run(["umount", root / "inside"], check=True)


def test_an_overflow_is_said(root: Path) -> None:
    for name in "ab":
        (root / name).write_text("x")
    with WorkspaceWorld.open(root, root.parent / "store") as world:
        world.snapshot()
        for number in range(int(inotify.limit("max_queued_events")) + 100):
            os.utime(root / "ab"[number % 2])
        found = world.snapshot()
        assert found.coverage.found_by == "scan"
        assert "max_queued_events" in found.coverage.why_scanned
        (root / "a").write_text("y")
        assert world.snapshot().coverage.found_by == "watch"


def test_a_restore_makes_room_in_the_queue_while_it_fills_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a restore does itself is told of as well: it must not overflow the queue, and be followed by a scan."""
    for number in range(300):
        (root / f"f{number}").write_text("one")
    longest = [0]
    real = inotify.Inotify.read

    def reading(self: inotify.Inotify) -> Any:
        events = real(self)
        longest[0] = max(longest[0], len(events))
        return events

    with WorkspaceWorld.open(root, root.parent / "store") as world:
        target = world.snapshot()
        for number in range(300):
            (root / f"f{number}").write_text("two")
        world.snapshot()
        monkeypatch.setattr(inotify.Inotify, "read", reading)
        report = world.restore(target.id)
        assert len([act for act in report.acts if act.what == "write"]) == 300
        assert 64 < longest[0] < 600
        world.snapshot()
        assert world._site.manner.found_by == "watch"
        assert world.audit() == 0


def test_asking_to_watch_what_can_not_be_watched_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "file_system_type", lambda _: 0x6969)
    with pytest.raises(Exception, match="can't be watched"):
        WorkspaceWorld.open(root, root.parent / "store", detector="watch")
    WorkspaceWorld.open(root, root.parent / "store").close()


def test_readers_never_watch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WorkspaceWorld.open(root, root.parent / "store").close()
    monkeypatch.setattr(watch, "Inotify", None)
    with WorkspaceWorld.open(root, root.parent / "store", lease=False) as world:
        assert world._site.look().entries
        assert world._site.look().entries


def test_a_directory_is_watched_before_it_is_listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What appears in between is told of."""
    (root / "d").mkdir()
    real = Watch.entering

    def slowly(self: Watch, directory: int, path: str) -> None:
        real(self, directory, path)
        (root / "d" / f"made-{len(path)}").write_text("x")

    monkeypatch.setattr(Watch, "entering", slowly)
    with WorkspaceWorld.open(root, root.parent / "store") as world:
        world.snapshot()
        monkeypatch.undo()
        state = world._store.state(world.snapshot().id)
        assert {"d/made-0", "d/made-1"} <= state.keys()
        assert world.audit() == 0


def test_a_watched_workspace_is_quiet_until_something_happens_in_it(root: Path) -> None:
    (root / "file").write_text("one")
    with WorkspaceWorld.open(root, root.parent / "store", detector="watch") as world:
        assert not world.quiet(), "nothing was saved yet"
        world.snapshot()
        assert world.quiet()
        (root / "file").write_text("two")
        assert not world.quiet()
        assert not world.quiet(), "asking is no look"
        world.snapshot()
        assert world.quiet()


def test_a_workspace_with_a_file_that_has_another_name_is_never_known_to_be_quiet(root: Path) -> None:
    (root / "file").write_text("one")
    os.link(root / "file", root.parent / "outside")
    with WorkspaceWorld.open(root, root.parent / "store", detector="watch") as world:
        world.snapshot()
        assert not world.quiet()


def test_where_nothing_tells_of_changes_nothing_is_known_to_be_quiet(root: Path) -> None:
    with WorkspaceWorld.open(root, root.parent / "store", detector="scan") as world:
        world.snapshot()
        assert not world.quiet()


def test_an_audit_heals_what_nobody_told_of(root: Path) -> None:
    """A link made outside to a file that had none, and written through: no event tells of either."""
    (root / "a").write_text("before")
    outside = root.parent / "outside"
    with WorkspaceWorld.open(root, root.parent / "store") as world:
        world.snapshot()
        _wait()
        first = world.snapshot()
        os.link(root / "a", outside)
        outside.write_text("after!")
        assert world.snapshot() == first
        assert world.audit() == 1
        found = world.snapshot()
        assert world.read(found.id, "a") == b"after!"
        assert world.verify(found.id).ok
        assert world.audit() == 0


def test_a_first_snapshot_that_is_interrupted_leaves_all_as_it_was(root: Path) -> None:
    for number in range(30):
        (root / f"d{number}").mkdir()
        (root / f"d{number}" / "f").write_text(str(number))
    before = describe(root)

    def interrupt(done: int, _: int | None) -> None:
        if done > 20:
            raise KeyboardInterrupt

    with WorkspaceWorld.open(root, root.parent / "store", progress=interrupt) as world:
        with pytest.raises(KeyboardInterrupt):
            world.snapshot()
        assert world.snapshots() == ()
        world._site.progress = None
        found = world.snapshot()
        assert world.verify(found.id).ok
        (root / "d1" / "f").write_text("watched by now")
        assert world.snapshot().coverage.found_by == "watch"
        world.restore(found.id)
    assert _without_times(describe(root)) == _without_times(before)


def _without_times(facts: Any) -> Any:
    return {path: {name: value for name, value in fact.items() if name != "mtime"} for path, fact in facts.items()}


def test_what_a_failed_snapshot_looked_at_is_looked_at_again(root: Path) -> None:
    """The disk is full when it is written: what the kernel told of is not forgotten, and what was read is stored."""
    full = [False]

    def write(fd: int, data: bytes) -> int:
        if full[0]:
            raise OSError(28, os.strerror(28))
        return os.write(fd, data)

    (root / "a").write_text("one")
    with WorkspaceWorld.open(root, root.parent / "store", write=write) as world:
        world.snapshot()
        _wait()
        world.snapshot()
        (root / "a").write_text("two")
        _wait()
        full[0] = True
        with pytest.raises(StorageFull):
            world.snapshot()
        full[0] = False
        found = world.snapshot()
        assert found.coverage.found_by == "watch"
        assert world.verify(found.id).ok
        assert world.read(found.id, "a") == b"two"
