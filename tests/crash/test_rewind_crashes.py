"""Kill -9 at each named crash point of snapshot, journal, restore and rewind: nothing is lost, and what comes back is a
conversation and files that belong together."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.engine import offline, rewinder  # noqa: F401 (registers its crash points)
from agentrewind.journal.check import check
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.crash.rewinding_child import open_run

ROOT = Path(__file__).parents[2]
BY_PEOPLE = {"restore.files done": "restore", "undo.intent written": "undo", "resume.world ready": "resume"}
"""Points on the way of what people do to a run, and the act that comes past them."""
ELSEWHERE = {
    **BY_PEOPLE,
    "journal.content-tail-dropped": "when a torn journal is opened: the journal's contract",
    "snapshot.side restored": "of a workspace with a sandbox beside it: test_sided, test_settling_sides",
    "journal.line-cut-short": "when a write comes out short: the journal's contract",
}
HERE = ("snapshot.", "journal.", "rewind.")
"""Other modules that happen to be imported have points and tests of their own (a collection, fresh mode, backends)."""
POINTS = [name for name in crashpoints.names() if name.startswith(HERE) and name not in ELSEWHERE]


def lay_out(base: Path) -> dict[str, bytes]:
    work = base / "work"
    work.mkdir(parents=True)
    (work / "kept.txt").write_text("as it was\n")
    (work / "other.txt").write_text("other, as it was\n")
    (work / "original/sub").mkdir(parents=True)
    (work / "original/sub/file").write_text("in a directory that goes away\n")
    (work / ".env").write_text("TOKEN=as-it-was\n")
    (work / "link").symlink_to("kept.txt")
    os.link(work / "kept.txt", work / "hard")
    os.mkfifo(work / "pipe")
    (base / "outside").write_text("outside, as it was\n")
    os.link(base / "outside", work / "linked-outside")
    (work / "big.bin").write_bytes(os.urandom(9 << 20))
    return contents(work)


def contents(root: Path) -> dict[str, bytes]:
    """Every file and link by name; what is open in several names stands under each."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = b"-> " + os.fsencode(os.readlink(path))
        elif path.is_file():
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def run_child(base: Path, point: str, after: int, act: str = "run") -> bool:
    """Whether it died at the point (else it must have come to its end)."""
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    child = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/crash/rewinding_child.py"), str(base), point, str(after), act],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
    )
    armed = child.stdout.readline()
    _, err = child.communicate(timeout=60)
    assert armed == b"armed\n", err.decode()
    if child.returncode == -signal.SIGKILL:
        return True
    assert child.returncode == 0, err.decode()
    return False


def consistent(base: Path, before: dict[str, bytes]) -> None:
    """Resume, then: the files are those of the checkpoint, the journal is sound, and all that was there is saved."""
    found = contents(base / "work")
    if not (base / "run" / "journal.jsonl").exists():
        assert found == before
        return
    log, world = open_run(base, new=False)
    try:
        point, _ = offline.resume(log, world)
        assert world.pending is None
        assert log.tree.intent is None
        undone = (base / "undone").read_text().split() if (base / "undone").exists() else []
        assert len(set(undone)) == len(undone), "a compensation was run twice"
        now = contents(base / "work")
        states = []
        for number, snapshot in enumerate(world.snapshots()):
            out = base / f"out-{number}"
            world.export(snapshot.id, out, include_private=True)
            states.append(contents(out))
            if snapshot.id == point.snapshot:
                assert states[-1] == now
            shutil.rmtree(out)
        if not states:
            assert found == before
        else:
            saved = {(name, text) for state in states for name, text in state.items()}
            assert {*found.items()} <= saved
            assert {*before.items()} <= saved
        assert check(base / "run") == []
    finally:
        world.close()
        log.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_each_point_leaves_a_pair_that_belongs_together(point: str, tmp_path: Path) -> None:
    died = 0
    for after in (0, 2, 9):
        base = tmp_path / str(after)
        before = lay_out(base)
        if run_child(base, point, after):
            died += 1
            consistent(base, before)
    assert died, f"{point} was never reached"


def test_the_points_of_rewind_restore_snapshot_and_journal_are_all_there() -> None:
    parts = {name.split(".")[0] for name in POINTS}
    assert {"snapshot", "journal", "rewind"} <= parts
    assert sum(name.startswith("snapshot.restore") for name in POINTS) >= 8
    assert len(POINTS) >= 12


def test_an_unkilled_run_ends_with_the_files_of_its_path(tmp_path: Path) -> None:
    lay_out(tmp_path)
    assert not run_child(tmp_path, "no such point", 0)
    names = set(contents(tmp_path / "work"))
    assert names == {
        ".env",
        "big.bin",
        "hard",
        "kept.txt",
        "link",
        "linked-outside",
        "made-6",
        "original/sub/file",
        "other.txt",
        "sub/moved",
    }
    assert (tmp_path / "work/kept.txt").read_text() == "changed by step 6\n"
    world = WorkspaceWorld.open(tmp_path / "work", tmp_path / "store", lease=False)
    assert all(world.verify(snapshot.id).ok for snapshot in world.snapshots())
    world.close()


@pytest.mark.parametrize("act", ["undo", "restore", "resume"])
def test_a_kill_in_what_a_person_does_to_a_run_loses_nothing(act: str, tmp_path: Path) -> None:
    points = [name for name in crashpoints.names() if BY_PEOPLE.get(name) == act or name.startswith("snapshot.restore")]
    died = set()
    for point in points:
        base = tmp_path / point
        lay_out(base)
        assert run_child(base, "rewind.committed", 1)
        (base / "work" / "by-hand.txt").write_text("a person's own\n")
        before = contents(base / "work")
        if run_child(base, point, 0, act):
            died.add(point)
        consistent(base, before)
    assert died >= {name for name, way in BY_PEOPLE.items() if way == act}
    assert len(died) >= 5
