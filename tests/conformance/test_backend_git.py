"""The snapshot contract on plain git, but for what git can't hold, which must be said."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.backends.git import GitWorld
from agentrewind.snapshots.backends.repository import why_not
from agentrewind.testing.snapshots import SnapshotContract
from tests.unit.snapshots.crafting import craft
from tests.unit.snapshots.test_hostile_snapshots import HOSTILE


@pytest.mark.skipif(bool(why_not()), reason=why_not())
class TestGitWorld(SnapshotContract):
    crash_points = "snapshot.restore-"
    before_writing = "snapshot.restore-file-opened"
    reads_back = True

    def open_world(self, root: Path, store: Path) -> GitWorld:
        return GitWorld.open(root, store)

    def hostile(self, store: Path) -> list[SnapshotId]:
        return [craft(store / "ledger", state) for state in HOSTILE.values()]

    def damage(self, store: Path) -> None:
        for path in (store / "repository.git" / "objects").rglob("*"):
            path.chmod(0o700)  # git makes its objects read-only
        super().damage(store)

    def test_of_a_mode_git_keeps_one_bit(self, root: Path) -> None:
        """Of a mode git keeps one bit: the rest is said to be lost, and what is made anew is closed to others."""
        modes = {"secret": 0o600, "tool": 0o4755, "script": 0o755, "text": 0o644}
        for name, mode in modes.items():
            (root / name).write_text("x")
            (root / name).chmod(mode)

        def damage() -> None:
            for name in modes:
                (root / name).unlink()

        _, _, target = self.round_trip(root, damage)
        assert {gap.path for gap in target.coverage.lossy if "mode" in gap.why} == {"secret", "tool"}
        now = {name: stat.S_IMODE((root / name).stat().st_mode) for name in modes}
        assert now == {"secret": 0o600, "tool": 0o700, "script": 0o755, "text": 0o644}


def test_killed_between_its_own_steps_it_can_be_finished(tmp_path: Path) -> None:
    class Own(TestGitWorld):
        crash_points = "backend."

    root = tmp_path / "workspace"
    root.mkdir()
    Own().test_killed_at_any_point_it_can_be_finished(root)
