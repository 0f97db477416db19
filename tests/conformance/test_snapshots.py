"""The snapshot contract on our own backend, and on broken ones that it must reject."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agentrewind.core.errors import SnapshotNotFound, StoreError, UsageError
from agentrewind.core.world import Capabilities, Changes, RestoreReport, Snapshot, SnapshotId, Verification
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.testing.snapshots import SnapshotContract
from tests.unit.snapshots.crafting import craft
from tests.unit.snapshots.test_hostile_snapshots import HOSTILE


class TestWorkspaceWorld(SnapshotContract):
    crash_points = "snapshot."
    before_writing = "snapshot.restore-file-opened"
    reads_back = True

    def open_world(self, root: Path, store: Path) -> WorkspaceWorld:
        return WorkspaceWorld.open(root, store)

    def hostile(self, store: Path) -> list[SnapshotId]:
        return [craft(store, state) for state in HOSTILE.values()]


class Broken(WorkspaceWorld):
    """A backend with one fault."""

    meant: str
    """The check that must catch it."""


class ForgetsTimes(Broken):
    meant = "test_times_come_back_to_the_nanosecond"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = super().restore(snapshot, **options)
        for path in self.root.rglob("*"):
            os.utime(path, follow_symlinks=False)
        return report


class RoundsTimes(ForgetsTimes):
    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = WorkspaceWorld.restore(self, snapshot, **options)
        for path in self.root.rglob("*"):
            when = path.lstat().st_mtime_ns // 1000 * 1000
            os.utime(path, ns=(when, when), follow_symlinks=False)
        return report


class WritesThroughLinks(Broken):
    meant = "test_nothing_outside_is_written_through_a_link"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        for path in self.root.iterdir():
            data = self.read(snapshot, path.name)
            if isinstance(data, bytes):
                path.write_bytes(data)
        return super().restore(snapshot, **options)


class SavesNothingFirst(Broken):
    meant = "test_a_restore_saves_the_present_first"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        return replace(super().restore(snapshot, **options), live=snapshot)


class MakesUpSnapshots(Broken):
    meant = "test_an_unknown_snapshot_is_refused_and_nothing_is_touched"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        try:
            return super().restore(snapshot, **options)
        except SnapshotNotFound:
            return super().restore(self.snapshots()[-1].id, **options)


class RewritesEverything(Broken):
    meant = "test_a_second_restore_touches_nothing"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = super().restore(snapshot, **options)
        for path in self.root.iterdir():
            path.write_bytes(path.read_bytes())
        return report


class ReplacesEverything(RewritesEverything):
    meant = "test_untouched_files_keep_inode_and_times"


class KnowsOneState(Broken):
    meant = "test_equal_states_have_equal_fingerprints_and_others_do_not"

    def snapshot(self, label: str = "") -> Snapshot:
        return replace(super().snapshot(label), fingerprint="0" * 64)


class WidensModes(Broken):
    meant = "test_modes_come_back_and_are_never_wider"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = super().restore(snapshot, **options)
        for path in self.root.iterdir():
            path.chmod(path.stat().st_mode | 0o044)
        return report


class BreaksLinks(Broken):
    meant = "test_hard_links_come_back"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = super().restore(snapshot, **options)
        shutil.copy2(self.root / "a", self.root / "copy")
        (self.root / "copy").replace(self.root / "a")
        return report


class RehearsesInEarnest(Broken):
    meant = "test_a_rehearsal_touches_nothing"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        return replace(super().restore(snapshot), dry_run=options.get("dry_run", False))


class TreatsBytesAsText(Broken):
    meant = "test_bytes_come_back_exactly"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = super().restore(snapshot, **options)
        for path in self.root.iterdir():
            path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
        return report


class SharesTheWorkspace(Broken):
    meant = "test_a_second_writer_is_refused"

    @classmethod
    def open(cls, root: Path, store: Path, **options: Any) -> WorkspaceWorld:
        own = root.parent / f"own-{os.urandom(4).hex()}"
        return super().open(root, own / "store", lease_dir=own / "leases", **options)


class SeesNoDifference(Broken):
    meant = "test_a_difference_is_named"

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes:
        return Changes()


class TrustsItself(Broken):
    meant = "test_damage_is_found_and_nothing_is_touched"

    def verify(self, snapshot: SnapshotId) -> Verification:
        return Verification(ok=True, checked=1)


class SkipsNestedRepositories(Broken):
    meant = "test_nested_repositories_come_back"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = super().restore(snapshot, **options)
        shutil.rmtree(self.root / "nested" / ".git")
        return report


class DropsEmptyDirectories(Broken):
    meant = "test_empty_directories_come_back"

    def restore(self, snapshot: SnapshotId, **options: bool) -> RestoreReport:
        report = super().restore(snapshot, **options)
        (self.root / "empty").rmdir()
        return report


class KeepsQuietAboutAttributes(Broken):
    """Doesn't declare them, and doesn't say that it leaves them out."""

    meant = "test_extended_attributes_come_back"
    capabilities = Capabilities(xattrs=False)


class KeepsQuietAboutModes(Broken):
    meant = "test_modes_come_back_and_are_never_wider"
    capabilities = Capabilities(modes=False)


class CanDoNothing(Broken):
    meant = "test_some_capability_is_declared"
    capabilities = Capabilities(*(False,) * len(fields(Capabilities)))


class ForgetsToFinish(Broken):
    meant = "test_killed_at_any_point_it_can_be_finished"

    def resume(self) -> RestoreReport | None:
        for path in self._store.directory.glob("restore-intent"):
            path.unlink()
        return RestoreReport(SnapshotId(""), self.snapshot().id)


class ForgetsItsLabels(Broken):
    meant = "test_snapshots_outlive_their_process"

    def find(self, snapshot: SnapshotId) -> Snapshot:
        return replace(super().find(snapshot), label="")


class TrustsTheClock(Broken):
    """Looks at size and time only, as many tools do."""

    meant = "test_a_same_size_edit_with_its_time_put_back_is_seen"

    def snapshot(self, label: str = "") -> Snapshot:
        looks = {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in self.root.iterdir()}
        if getattr(self, "looks", None) == looks:
            return self.last
        self.looks, self.last = looks, super().snapshot(label)
        return self.last


class OverwritesDrift(Broken):
    """Knows the word and doesn't heed it, as tools do that put a checkpoint back with one command."""

    meant = "test_drift_is_kept_where_that_is_asked_for"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        return super().restore(snapshot, **{**options, "keep_drift": False})


class KeepsWhatItWasToldNotTo(Broken):
    meant = "test_drift_is_made_equal_where_it_is_not_to_be_kept"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        return super().restore(snapshot, **{**options, "keep_drift": True})


class LosesDrift(Broken):
    """Names a live snapshot that hasn't what the person wrote."""

    meant = "test_drift_is_kept_where_that_is_asked_for"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        return replace(super().restore(snapshot, **options), live=self.snapshots()[0].id)


class SaysNothingOfDrift(Broken):
    meant = "test_drift_is_told_either_way"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        return replace(super().restore(snapshot, **options), drift=())


class RefusesToKeepDrift(Broken):
    """Declares what it can't do."""

    meant = "test_drift_is_kept_where_that_is_asked_for"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        if options.get("keep_drift"):
            raise UsageError("not here")
        return super().restore(snapshot, **options)


class BelievesEverything(Broken):
    """Makes what a snapshot says, whoever wrote it."""

    meant = "test_a_hostile_snapshot_is_refused_whole"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        try:
            return super().restore(snapshot, **options)
        except StoreError:
            (self.root.parent / "outside" / "planted").write_text("planted")
            raise


class SkipsWhatItDoesNotLike(Broken):
    """Takes of a hostile snapshot what looks fine."""

    meant = "test_a_hostile_snapshot_is_refused_whole"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        try:
            return super().restore(snapshot, **options)
        except StoreError:
            return RestoreReport(snapshot, self.snapshot().id)


class KeepsQuietAboutSockets(Broken):
    meant = "test_a_socket_is_named_and_left_alone"

    def snapshot(self, label: str = "") -> Snapshot:
        found = super().snapshot(label)
        return replace(found, coverage=replace(found.coverage, excluded=()))


class RemovesSockets(Broken):
    meant = "test_a_socket_is_named_and_left_alone"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        report = super().restore(snapshot, **options)
        for path in self.root.iterdir():
            if path.is_socket():
                path.unlink()
        return report


class CountsNothing(Broken):
    meant = "test_what_is_counted_is_there"

    def snapshot(self, label: str = "") -> Snapshot:
        found = super().snapshot(label)
        return replace(found, coverage=replace(found.coverage, bytes=0))


class MakesFilesOfPipes(Broken):
    meant = "test_pipes_come_back_or_are_named"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        report = super().restore(snapshot, **options)
        for path in self.root.iterdir():
            if path.is_fifo():
                path.unlink()
                path.touch()
        return report


class FollowsLinks(Broken):
    meant = "test_links_come_back_whatever_they_name"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        report = super().restore(snapshot, **options)
        for path in self.root.iterdir():
            if path.is_symlink() and path.exists():
                where = path.resolve()
                path.unlink()
                path.symlink_to(where)
        return report


class TakesItsWordForIt(Broken):
    """What it once saved counts as saved, whether the store still has it or not."""

    meant = "test_what_is_removed_can_be_read_back"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        with patch("agentrewind.snapshots.restoring.unreadable", lambda *_: {}):
            return super().restore(snapshot, **options)


class WritesUnderOpenFiles(Broken):
    meant = "test_what_a_process_stores_that_has_the_file_open_is_kept"

    def restore(self, snapshot: SnapshotId, **options: Any) -> RestoreReport:
        with patch("agentrewind.snapshots.beneath.alone", nullcontext):
            return super().restore(snapshot, **options)


BROKEN = [
    ForgetsTimes, RoundsTimes, WritesThroughLinks, SavesNothingFirst, MakesUpSnapshots, RewritesEverything,
    ReplacesEverything, KnowsOneState, WidensModes, BreaksLinks, RehearsesInEarnest, TreatsBytesAsText,
    SharesTheWorkspace, SeesNoDifference, TrustsItself, SkipsNestedRepositories, DropsEmptyDirectories,
    KeepsQuietAboutAttributes, KeepsQuietAboutModes, CanDoNothing, ForgetsToFinish, ForgetsItsLabels, TrustsTheClock,
    OverwritesDrift, KeepsWhatItWasToldNotTo, LosesDrift, SaysNothingOfDrift, RefusesToKeepDrift, BelievesEverything,
    SkipsWhatItDoesNotLike, KeepsQuietAboutSockets, RemovesSockets, CountsNothing, MakesFilesOfPipes, FollowsLinks,
    TakesItsWordForIt, WritesUnderOpenFiles,
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_backend_is_caught_by_the_check_meant_for_it(tmp_path: Path, broken: type[Broken]) -> None:
    class Contract(SnapshotContract):
        crash_points = "snapshot.restore-file"
        before_writing = "snapshot.restore-file-opened"
        reads_back = True

        def open_world(self, root: Path, store: Path) -> WorkspaceWorld:
            return broken.open(root, store)

        def hostile(self, store: Path) -> list[SnapshotId]:
            return [craft(store, HOSTILE["a file below a link"])]

    root = tmp_path / "workspace"
    root.mkdir()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(Contract(), broken.meant)(root, **({"keep": True} if broken.meant.endswith("either_way") else {}))
