"""The contract of a snapshot backend, to be run on any implementation: subclass `SnapshotContract` and name a factory.

Capabilities are tested both ways: what a backend declares must hold, and what it doesn't declare must be said where it
matters (an error, or a gap in the coverage), never be ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.errors import AgentRewindError, Busy, SnapshotDamaged, SnapshotNotFound
from agentrewind.core.world import Capabilities, Changes, RestoreReport, Snapshot, SnapshotId, World

Facts = dict[str, dict[str, object]]
_WHEN = 1_614_830_767_123_456_789


def describe(root: Path) -> Facts:
    """Every path below `root` with all that a restore must bring back: the kit's own eyes."""
    found: Facts = {}
    groups: dict[tuple[int, int], list[str]] = {}
    for parent, below, files in os.walk(os.fsencode(root)):
        for name in (b".", *below, *files) if parent == os.fsencode(root) else (*below, *files):
            path = os.path.join(parent, name)
            info = os.lstat(path)
            shown = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            found[shown] = _facts(path, info)
            if stat.S_ISREG(info.st_mode):
                groups.setdefault((info.st_dev, info.st_ino), []).append(shown)
    for names in groups.values():
        for shown in names:
            found[shown]["links"] = sorted(names)
    return found


def _facts(path: bytes, info: os.stat_result) -> dict[str, object]:
    facts: dict[str, object] = {
        "kind": stat.S_IFMT(info.st_mode), "owner": (info.st_uid, info.st_gid), "mtime": info.st_mtime_ns,
    }  # fmt: skip
    if stat.S_ISLNK(info.st_mode):
        return {**facts, "target": os.readlink(path)}
    facts["mode"] = stat.S_IMODE(info.st_mode)
    if stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file:
            facts["sha256"] = hashlib.sha256(file.read()).hexdigest()
        facts["sparse"] = info.st_blocks * 512 < info.st_size - 4096
    if stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode):
        names = sorted(name for name in os.listxattr(path) if name.startswith("user."))
        facts["xattrs"] = {name: os.getxattr(path, name) for name in names}
    return facts


def _only(facts: Facts, *names: str) -> Facts:
    return {path: {name: entry.get(name) for name in names} for path, entry in facts.items()}


class SnapshotContract:
    """What every snapshot backend promises. Checks are named as promises."""

    crash_points: ClassVar[str | None] = None
    """The beginning of the names of the crash points that the backend passes; None if it has none."""
    before_writing: ClassVar[str | None] = None
    """The crash point that is passed when a file was looked at for the last time and its new bytes are about to be
    written; None where the backend has none, and says nothing about processes that have files open.
    """
    reads_back: ClassVar[bool] = False
    """Whether the backend reads back what it saved of what it is about to overwrite or remove."""

    @abstractmethod
    def open_world(self, root: Path, store: Path) -> World:
        """Open the workspace `root` with its snapshots in `store`, making the store if it isn't there."""

    def damage(self, store: Path) -> None:
        """Damage the stored bytes of the largest file; by default in the middle of the largest file of the store."""
        largest = max((path for path in store.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
        with largest.open("r+b") as file:
            file.seek(largest.stat().st_size // 2)
            file.write(b"\0damaged\0")

    def hostile(self, store: Path) -> Iterable[SnapshotId]:
        """Plant snapshots into the closed store that nobody's workspace can have looked like; none by default."""
        del store
        return ()

    # Means

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        path = tmp_path / "workspace"
        path.mkdir()
        return path

    @contextlib.contextmanager
    def opened(self, root: Path) -> Iterator[World]:
        world = self.open_world(root, root.parent / "store")
        try:
            yield world
        finally:
            world.close()

    def round_trip(self, root: Path, damage: Callable[[], object]) -> tuple[Facts, Facts, Snapshot]:
        """What was there when the snapshot was taken, and after damage and restore."""
        with self.opened(root) as world:
            before = describe(root)
            target = world.snapshot()
            damage()
            world.restore(target.id)
            return before, describe(root), target

    def holds(self, root: Path, capability: str, damage: Callable[[], object], *facts: str) -> None:
        """The capability holds where it is declared; where it isn't, the backend says so about this tree."""
        with self.opened(root) as world:
            declared = getattr(world.capabilities, capability)
        if declared:
            before, after, _ = self.round_trip(root, damage)
            assert _only(before, *facts) == _only(after, *facts)
            return
        with self.opened(root) as world:
            try:
                coverage = world.snapshot().coverage
            except AgentRewindError:
                return
        assert coverage.lossy or coverage.excluded or coverage.unreadable, f"{capability} is ignored without a word"

    # Saving and bringing back

    def test_some_capability_is_declared(self, root: Path) -> None:
        with self.opened(root) as world:
            declared = [field.name for field in fields(Capabilities) if getattr(world.capabilities, field.name)]
        assert declared, "a backend that can do nothing has nothing to be checked"

    def test_bytes_come_back_exactly(self, root: Path) -> None:
        contents = {"crlf": b"a\r\nb\r\n", "nul": b"\0\xff\n", "empty": b"", "large": os.urandom(5 << 20), "lf": b"x\n"}
        for name, data in contents.items():
            (root / name).write_bytes(data)

        def damage() -> None:
            for name in contents:
                (root / name).write_bytes(b"damaged")

        before, after, _ = self.round_trip(root, damage)
        assert _only(before, "sha256") == _only(after, "sha256")

    def test_types_come_back(self, root: Path) -> None:
        (root / "file").write_text("file")
        (root / "link").symlink_to("/nonexistent")
        (root / "to directory").symlink_to("directory")
        (root / "directory").mkdir()
        (root / "directory" / "inside").write_text("inside")

        def damage() -> None:
            (root / "file").unlink()
            (root / "file").mkdir()
            (root / "link").unlink()
            (root / "link").write_text("a file")
            (root / "to directory").unlink()
            (root / "to directory").symlink_to("/etc")
            (root / "directory" / "inside").unlink()
            (root / "directory").rmdir()
            (root / "directory").symlink_to(".")

        before, after, _ = self.round_trip(root, damage)
        assert _only(before, "kind", "target", "sha256") == _only(after, "kind", "target", "sha256")

    def test_modes_come_back_and_are_never_wider(self, root: Path) -> None:
        """Where they aren't declared, each that is lost is named, and what is made anew is open to nobody else."""
        modes = {"secret": 0o600, "tool": 0o4755, "text": 0o644}
        for name, mode in modes.items():
            (root / name).write_text("x")
            (root / name).chmod(mode)
        (root / "d").mkdir()
        (root / "d" / "inside").write_text("x")
        (root / "d").chmod(0o1750)

        def damage() -> None:
            (root / "secret").unlink()
            (root / "tool").chmod(0o644)
            (root / "d").chmod(0o777)

        before, after, target = self.round_trip(root, damage)
        with self.opened(root) as world:
            declared = world.capabilities.modes
        if declared:
            assert _only(before, "mode") == _only(after, "mode")
            return
        named = {gap.path for gap in target.coverage.lossy}
        assert {"secret", "tool", "d"} <= named
        assert "text" not in named
        assert stat.S_IMODE((root / "secret").stat().st_mode) & 0o077 == 0

    def test_what_was_made_since_is_gone_and_what_was_removed_is_back(self, root: Path) -> None:
        (root / ".gitignore").write_text("ignored\n")
        (root / "ignored").write_text("ignored, and yet kept")
        (root / "deep" / "er").mkdir(parents=True)
        (root / "deep" / "er" / "file").write_text("x")

        def damage() -> None:
            (root / "ignored").unlink()
            (root / "deep" / "er" / "file").unlink()
            (root / "deep" / "er").rmdir()
            (root / "new" / "tree").mkdir(parents=True)
            (root / "new" / "tree" / "file").write_text("x")

        before, after, _ = self.round_trip(root, damage)
        assert before.keys() == after.keys()

    # Capabilities, both ways

    def test_times_come_back_to_the_nanosecond(self, root: Path) -> None:
        (root / "d").mkdir()
        (root / "d" / "file").write_text("x")
        (root / "link").symlink_to("d")
        for number, name in enumerate(("d/file", "d", "link")):
            os.utime(root / name, ns=(_WHEN, _WHEN + number), follow_symlinks=False)

        def damage() -> None:
            (root / "d" / "file").write_text("y")
            (root / "link").unlink()

        self.holds(root, "times_ns", damage, "mtime")

    def test_hard_links_come_back(self, root: Path) -> None:
        (root / "a").write_text("shared")
        (root / "d").mkdir()
        os.link(root / "a", root / "d" / "b")

        def damage() -> None:
            (root / "a").unlink()
            (root / "a").write_text("apart")

        self.holds(root, "hard_links", damage, "links", "sha256")

    def test_extended_attributes_come_back(self, root: Path) -> None:
        (root / "a").write_text("x")
        (root / "d").mkdir()
        try:
            for name in ("a", "d"):
                os.setxattr(root / name, "user.note", b"\0kept")
        except OSError as error:
            pytest.skip(f"this file system keeps no attributes: {error}")

        def damage() -> None:
            os.removexattr(root / "a", "user.note")
            os.setxattr(root / "d", "user.note", b"other")

        self.holds(root, "xattrs", damage, "xattrs")

    def test_sparse_files_stay_sparse(self, root: Path) -> None:
        with (root / "image").open("wb") as file:
            file.seek(8 << 20)
            file.write(b"end")
        if (root / "image").stat().st_blocks * 512 > 1 << 20:
            pytest.skip("this file system keeps no holes")
        self.holds(root, "sparse", lambda: (root / "image").write_bytes(b"x" * (9 << 20)), "sparse", "sha256")

    def test_owners_come_back(self, root: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root may give files away")
        (root / "a").write_text("x")
        os.chown(root / "a", 1234, 4321)
        self.holds(root, "owners", lambda: os.chown(root / "a", 0, 0), "owner")

    def test_empty_directories_come_back(self, root: Path) -> None:
        (root / "empty").mkdir()
        (root / "empty").chmod(0o750)
        self.holds(root, "empty_directories", (root / "empty").rmdir, "kind", "mode")

    def test_nested_repositories_come_back(self, root: Path) -> None:
        for name in (".git/HEAD", ".git/refs/heads/main", "nested/.git/HEAD", "nested/file", "worktree/.git"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"ref: {name}\n")

        def damage() -> None:
            for name in ("nested/.git/HEAD", "nested/file", "worktree/.git"):
                (root / name).unlink()

        self.holds(root, "nested_repositories", damage, "kind", "sha256")

    def test_names_of_any_bytes_come_back(self, root: Path) -> None:
        names = [b"bad\xff\xfe", b"line\nbreak", b" space ", b"-rf", b"*", b"e\xcc\x81", b"\xc3\xa9", b"n" * 255]
        for name in names:
            (root / os.fsdecode(name)).write_bytes(name)

        def damage() -> None:
            for name in names:
                (root / os.fsdecode(name)).unlink()

        self.holds(root, "any_byte_names", damage, "sha256")

    def test_private_files_come_back_and_lie_sealed(self, root: Path) -> None:
        (root / ".env").write_bytes(b"TOKEN=quite-secret\n")
        self.holds(root, "private_paths", (root / ".env").unlink, "sha256", "mode")
        with self.opened(root) as world:
            declared = world.capabilities.private_paths
        stored = b"".join(path.read_bytes() for path in (root.parent / "store").rglob("*") if path.is_file())
        assert not declared or b"quite-secret" not in stored

    def test_pipes_come_back_or_are_named(self, root: Path) -> None:
        os.mkfifo(root / "pipe", 0o640)
        self.comes_back_or_is_named(root, "pipe", (root / "pipe").unlink, "kind", "mode")

    def test_links_come_back_whatever_they_name(self, root: Path) -> None:
        for name, text in (("dangling", "nowhere"), ("absolute", "/"), ("up", "../.."), ("itself", "itself")):
            (root / name).symlink_to(text)

        def damage() -> None:
            for path in list(root.iterdir()):
                path.unlink()

        before, after, _ = self.round_trip(root, damage)
        assert _only(before, "kind", "target") == _only(after, "kind", "target")

    def comes_back_or_is_named(self, root: Path, path: str, damage: Callable[[], object], *facts: str) -> None:
        before, after, target = self.round_trip(root, damage)
        coverage = target.coverage
        named = {gap.path for gap in (*coverage.excluded, *coverage.unreadable, *coverage.lossy)}
        assert path in named or _only(before, *facts)[path] == _only(after, *facts).get(path)

    # Saying what isn't held

    def test_a_socket_is_named_and_left_alone(self, root: Path) -> None:
        (root / "a").write_text("before")
        with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(root):
            listening.bind("socket")
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "a").write_text("after")
            world.restore(target.id)
        assert "socket" in {gap.path for gap in target.coverage.excluded}
        assert (root / "socket").is_socket()

    def test_what_is_counted_is_there(self, root: Path) -> None:
        for name in ("a", "b"):
            (root / name).write_text("12345")
        (root / "d").mkdir()
        with self.opened(root) as world:
            coverage = world.snapshot().coverage
        assert coverage.complete
        assert coverage.entries >= 3
        assert coverage.bytes == 10

    # What somebody else wrote

    def drifted(self, root: Path, *, keep: bool) -> tuple[RestoreReport | None, dict[str, str]]:
        """After an agent's change a person edits one file, makes and removes one, and the agent's change goes back: the
        report, and what is there then. No report where the backend refuses to be asked.
        """
        for name in ("code", "notes", "removed"):
            (root / name).write_text("before")
        with self.opened(root) as world:
            target = world.snapshot().id
            (root / "code").write_text("by the agent")
            since = world.snapshot().id
            (root / "notes").write_text("by a person")
            (root / "made").write_text("by a person")
            (root / "removed").unlink()
            present = describe(root)
            asked = {"keep_drift": keep, "since": since} if keep or world.capabilities.drift else {}
            try:
                report: RestoreReport = cast("Any", world).restore(target, **asked)
            except (TypeError, AgentRewindError):
                assert not world.capabilities.drift, "declared, and refused"
                assert describe(root) == present, "refused, and touched"
                return None, {}
            reached = {path.name: path.read_text() for path in root.iterdir()}
            assert report.live is not None
            world.restore(report.live)
            assert _only(describe(root), "sha256") == _only(present, "sha256"), "what a person wrote is lost"
        return report, reached

    def test_drift_is_kept_where_that_is_asked_for(self, root: Path) -> None:
        report, reached = self.drifted(root, keep=True)
        if report is not None:
            assert reached == {"code": "before", "notes": "by a person", "made": "by a person"}
            assert {"notes", "removed"} <= {gap.path for gap in report.kept}
            assert {act.path for act in report.acts if act.path} == {"code"}

    def test_drift_is_made_equal_where_it_is_not_to_be_kept(self, root: Path) -> None:
        _, reached = self.drifted(root, keep=False)
        assert reached == dict.fromkeys(("code", "notes", "removed"), "before")

    @pytest.mark.parametrize("keep", [True, False])
    def test_drift_is_told_either_way(self, root: Path, keep: bool) -> None:
        report, _ = self.drifted(root, keep=keep)
        with self.opened(root) as world:
            declared = world.capabilities.drift
        assert not declared or report is not None
        if declared and report is not None:
            assert {gap.path for gap in report.drift} == {"notes", "made", "removed"}
            assert all(gap.why for gap in report.drift)

    # What somebody else planted

    def test_a_hostile_snapshot_is_refused_whole(self, root: Path) -> None:
        (root / "mine").write_text("mine")
        outside = root.parent / "outside"
        outside.mkdir()
        (outside / "theirs").write_text("theirs")
        with self.opened(root) as world:
            world.snapshot()
        planted = list(self.hostile(root.parent / "store"))
        if not planted:
            pytest.skip("this backend can't be given a hostile snapshot")
        before = describe(root), describe(outside), sorted(root.parent.iterdir())
        with self.opened(root) as world:
            for name in planted:
                with pytest.raises(AgentRewindError):
                    world.restore(name)
                assert (describe(root), describe(outside), sorted(root.parent.iterdir())) == before
                assert world.pending is None

    # Never losing anything

    def test_a_restore_saves_the_present_first(self, root: Path) -> None:
        (root / "a").write_text("before")
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "a").write_text("the work of a day")
            (root / "new").write_text("never saved")
            present = describe(root)
            report = world.restore(target.id)
            assert report.live is not None
            world.restore(report.live)
            assert _only(describe(root), "sha256") == _only(present, "sha256")

    def test_an_unknown_snapshot_is_refused_and_nothing_is_touched(self, root: Path) -> None:
        (root / "a").write_text("a")
        with self.opened(root) as world:
            world.snapshot()
            before = describe(root)
            with pytest.raises(SnapshotNotFound):
                world.restore(SnapshotId("f" * 32))
            assert describe(root) == before

    def test_nothing_outside_is_written_through_a_link(self, root: Path) -> None:
        outside = root.parent / "outside"
        outside.write_text("outside")
        (root.parent / "elsewhere").mkdir()
        try:
            os.link(outside, root / "linked")
        except OSError:  # a workspace on a file system of its own: no link reaches into it
            (root / "linked").write_text("outside")
        (root / "d").mkdir()
        (root / "d" / "f").write_text("inside")
        with self.opened(root) as world:
            target = world.snapshot()
            outside.write_text("outside, changed")
            (root / "d" / "f").unlink()
            (root / "d").rmdir()
            (root / "d").symlink_to("../elsewhere")
            world.restore(target.id)
        assert outside.read_text() == "outside, changed"
        assert list((root.parent / "elsewhere").iterdir()) == []
        assert (root / "linked").read_text() == "outside"

    def test_a_rehearsal_touches_nothing(self, root: Path) -> None:
        (root / "a").write_text("before")
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "a").write_text("after")
            before = describe(root)
            report = world.restore(target.id, dry_run=True)
            assert describe(root) == before
        assert report.dry_run
        assert [act.path for act in report.acts] == ["a"]

    def test_untouched_files_keep_inode_and_times(self, root: Path) -> None:
        (root / "kept").write_text("kept")
        (root / "a").write_text("before")
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "a").write_text("after")
            before = (root / "kept").stat()
            world.restore(target.id)
        now = (root / "kept").stat()
        assert (now.st_ino, now.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)

    def test_a_second_restore_touches_nothing(self, root: Path) -> None:
        (root / "a").write_text("before")
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "a").write_text("after")
            world.restore(target.id)
            before = (root / "a").stat()
            report = world.restore(target.id)
            now = (root / "a").stat()
        assert report.acts == ()
        assert (now.st_ino, now.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)

    def test_a_restore_is_verified_and_leaves_nothing_pending(self, root: Path) -> None:
        (root / "a").write_text("before")
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "a").write_text("after")
            report = world.restore(target.id)
            assert report.verified
            assert report.target == target.id
            assert [act.path for act in report.acts if act.path] == ["a"]
            assert world.pending is None
            assert world.resume() is None

    # Telling states apart

    def test_equal_states_have_equal_fingerprints_and_others_do_not(self, root: Path) -> None:
        (root / "a").write_text("one")
        with self.opened(root) as world:
            first = world.snapshot()
            (root / "a").write_text("two")
            second = world.snapshot()
            world.restore(first.id)
            again = world.snapshot()
        assert first.fingerprint != second.fingerprint
        assert first.fingerprint == again.fingerprint

    def test_a_same_size_edit_with_its_time_put_back_is_seen(self, root: Path) -> None:
        (root / "a").write_text("one")
        os.utime(root / "a", ns=(_WHEN, _WHEN))
        with self.opened(root) as world:
            first = world.snapshot()
            (root / "a").write_text("two")
            os.utime(root / "a", ns=(_WHEN, _WHEN))
            assert world.snapshot().fingerprint != first.fingerprint

    def test_a_difference_is_named(self, root: Path) -> None:
        for name in ("same", "edited", "removed"):
            (root / name).write_text("x")
        with self.opened(root) as world:
            first = world.snapshot()
            (root / "edited").write_text("y")
            (root / "removed").unlink()
            (root / "added").write_text("z")
            second = world.snapshot()
            expected = [("A", "added"), ("M", "edited"), ("D", "removed")]
            assert self._statuses(second.changes) == self._statuses(world.diff(first.id, second.id)) == expected
            assert self._statuses(world.diff(second.id, first.id)) == [
                ("D", "added"), ("M", "edited"), ("A", "removed"),
            ]  # fmt: skip
            assert not world.diff(first.id, first.id)

    @staticmethod
    def _statuses(changes: Changes) -> list[tuple[str, str]]:
        return [(change.status, change.path) for change in changes.items if change.path]

    # The store

    def test_snapshots_outlive_their_process(self, root: Path) -> None:
        (root / "a").write_text("before")
        with self.opened(root) as world:
            target = world.snapshot("a label")
            world.sync()
        (root / "a").write_text("after")
        with self.opened(root) as world:
            assert world.find(target.id) == target
            assert world.snapshots() == (target,)
            world.restore(target.id)
        assert (root / "a").read_text() == "before"

    def test_damage_is_found_and_nothing_is_touched(self, root: Path) -> None:
        (root / "large").write_bytes(os.urandom(3 << 20))
        (root / "small").write_text("x")
        with self.opened(root) as world:
            target = world.snapshot()
            assert world.verify(target.id).ok
        self.damage(root.parent / "store")
        (root / "large").unlink()
        before = describe(root)
        with self.opened(root) as world:
            assert not world.verify(target.id).ok
            with pytest.raises(SnapshotDamaged):
                world.restore(target.id)
        assert describe(root) == before

    def test_what_is_removed_can_be_read_back(self, root: Path) -> None:
        if not self.reads_back:
            pytest.skip("this backend doesn't promise that")
        data = os.urandom(3 << 20)
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "large").write_bytes(data)
            world.snapshot()
        self.damage(root.parent / "store")
        with self.opened(root) as world:
            try:
                live = world.restore(target.id).live
            except AgentRewindError:
                live = None
            if not (root / "large").exists():
                assert live is not None
                with contextlib.suppress(AgentRewindError):
                    world.restore(live)
        assert (root / "large").exists(), "it was removed, and can't be brought back"
        assert (root / "large").read_bytes() == data

    def test_what_a_process_stores_that_has_the_file_open_is_kept(self, root: Path) -> None:
        if self.before_writing is None:
            pytest.skip("this backend doesn't promise that")
        (root / "a").write_text("before the step")
        with self.opened(root) as world:
            target = world.snapshot()
            (root / "a").write_text("after the step.")
            stored: list[bool] = []
            with (root / "a").open("r+b", buffering=0) as file:

                def somebody_stores() -> None:
                    crashpoints.disarm()
                    file.write(b"the only copy..")
                    stored.append(True)

                crashpoints.arm(self.before_writing, somebody_stores)
                try:
                    world.restore(target.id)
                    refused = False
                except AgentRewindError:
                    refused = True
                finally:
                    crashpoints.disarm()
            if not stored:
                assert refused, "it went past no such point"
                assert (root / "a").read_text() == "after the step."
                return
            found = [(root / "a").read_bytes()]
            for snapshot in world.snapshots():
                world.restore(snapshot.id)
                found.append((root / "a").read_bytes())
        assert b"the only copy.." in found

    def test_a_second_writer_is_refused(self, root: Path) -> None:
        with self.opened(root), pytest.raises(Busy):
            self.open_world(root, root.parent / "store")
        self.open_world(root, root.parent / "store").close()

    def test_killed_at_any_point_it_can_be_finished(self, root: Path) -> None:
        if self.crash_points is None:
            pytest.skip("this backend names no crash points")
        points = [name for name in crashpoints.names() if name.startswith(self.crash_points)]
        deaths = sum(self._killed_and_finished(root, point) for point in points)
        assert deaths, "no crash point was reached"

    def _killed_and_finished(self, root: Path, point: str) -> bool:
        for path in root.iterdir():
            path.unlink()
        for name in ("a", "gone"):
            (root / name).write_text("before")
        with self.opened(root) as world:
            target = world.snapshot()
        (root / "a").write_text("after")
        (root / "gone").unlink()
        (root / "new").write_text(point)
        died = self._killed(point, lambda: self._restore(root, target.id))
        (root / "a").write_text(f"an edit after {point}")
        present = describe(root)
        with self.opened(root) as world:
            report = world.resume() if world.pending is not None else world.restore(target.id)
            assert {path.name: path.read_text() for path in root.iterdir()} == {"a": "before", "gone": "before"}
            assert report is not None
            assert report.live is not None
            world.restore(report.live)
            assert _only(describe(root), "sha256") == _only(present, "sha256"), point
        return died

    def _restore(self, root: Path, target: SnapshotId) -> None:
        with self.opened(root) as world:
            world.restore(target)

    @staticmethod
    def _killed(point: str, act: Callable[[], None]) -> bool:
        """Whether a child that ran `act` was alive and died at `point` of the signal it sent itself."""
        child = os.fork()
        if child == 0:
            try:
                crashpoints.arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL))
                act()
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return True
        assert os.waitstatus_to_exitcode(status) == 0, f"the child failed before {point}"
        return False
