"""The snapshot contract on our own backend, and on broken ones that it must reject."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrewind.core.errors import SnapshotNotFound
from agentrewind.core.world import Capabilities, Changes, RestoreReport, Snapshot, SnapshotId, Verification
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.testing.snapshots import SnapshotContract


class TestWorkspaceWorld(SnapshotContract):
    crash_points = "snapshot."

    def open_world(self, root: Path, store: Path) -> WorkspaceWorld:
        return WorkspaceWorld.open(root, store)


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
        return super().open(root, store, lease_dir=root.parent / f"leases-{os.urandom(4).hex()}", **options)


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


class CanDoNothing(Broken):
    meant = "test_some_capability_is_declared"
    capabilities = Capabilities(*(False,) * 9)


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


BROKEN = [
    ForgetsTimes, RoundsTimes, WritesThroughLinks, SavesNothingFirst, MakesUpSnapshots, RewritesEverything,
    ReplacesEverything, KnowsOneState, WidensModes, BreaksLinks, RehearsesInEarnest, TreatsBytesAsText,
    SharesTheWorkspace, SeesNoDifference, TrustsItself, SkipsNestedRepositories, DropsEmptyDirectories,
    KeepsQuietAboutAttributes, CanDoNothing, ForgetsToFinish, ForgetsItsLabels, TrustsTheClock,
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_backend_is_caught_by_the_check_meant_for_it(tmp_path: Path, broken: type[Broken]) -> None:
    class Contract(SnapshotContract):
        crash_points = "snapshot.restore-file"

        def open_world(self, root: Path, store: Path) -> WorkspaceWorld:
            return broken.open(root, store)

    root = tmp_path / "workspace"
    root.mkdir()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(Contract(), broken.meant)(root)
