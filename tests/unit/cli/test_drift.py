"""`--keep-drift` and `--discard-drift`: from where drift counts, what happens by default, what is said."""

import json
from pathlib import Path

import pytest

from agentrewind.cli.drift import told_if_interrupted
from agentrewind.cli.entry import run as main
from agentrewind.compose.drifted import is_told_apart, last_look
from agentrewind.core import crashpoints
from agentrewind.core.records import FilesRestored, RunEnded, Snapshotted
from agentrewind.core.world import Pending, SnapshotId


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("AGENTREWIND_CRASH_AT", raising=False)
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return workspace


def cli(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def a_change_and_an_edit(place: Path, capsys) -> str:
    """Saved, changed, saved, and then edited: the id of the first."""
    (place / "a").write_text("first")
    (place / "b").write_text("b")
    assert cli("snap", "create", place, "--json") == 0
    first = json.loads(capsys.readouterr().out)["snapshot"]
    (place / "a").write_text("second")
    assert cli("snap", "create", place) == 0
    (place / "b").write_text("edited since")
    capsys.readouterr()
    return str(first)


def test_by_hand_drift_is_made_equal_and_told(place, capsys):
    first = a_change_and_an_edit(place, capsys)
    assert cli("snap", "restore", first, place, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "drift: b: changed since snapshot" in shown
    assert "saved, and made equal to the target" in shown
    assert cli("snap", "restore", first, place, "--yes", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [gap["path"] for gap in report["drift"]] == ["b"]
    assert (place / "b").read_text() == "b"
    assert cli("snap", "restore", report["live"], place, "--yes") == 0
    assert (place / "b").read_text() == "edited since"


def test_by_hand_drift_is_kept_where_that_is_asked_for(place, capsys):
    first = a_change_and_an_edit(place, capsys)
    assert cli("snap", "restore", first, place, "--yes", "--keep-drift", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [gap["path"] for gap in report["drift"]] == [gap["path"] for gap in report["kept"]] == ["b"]
    assert (place / "a").read_text() == "first"
    assert (place / "b").read_text() == "edited since"


def test_an_interrupted_restore_says_how_to_go_on(place, capsys):
    first = a_change_and_an_edit(place, capsys)

    def ctrl_c() -> None:
        raise KeyboardInterrupt

    crashpoints.arm("snapshot.restore-file-written", ctrl_c)
    assert cli("snap", "restore", first, place, "--yes") == 130
    crashpoints.disarm()
    said = capsys.readouterr().err
    assert "was cut off" in said
    assert "finishes it" in said
    assert cli("snap", "restore", first, place, "--yes") == 0
    assert (place / "a").read_text() == "first"


def test_nothing_half_done_is_said_where_nothing_is(capsys):
    class Calm:
        pending = None

    class Cut:
        pending = Pending(SnapshotId("t" * 32), SnapshotId("l" * 32))

    for world, said in ((Calm(), "nothing is left half-done"), (Cut(), "`agentrewind again` finishes it")):
        with pytest.raises(KeyboardInterrupt), told_if_interrupted(world, "agentrewind again"):
            raise KeyboardInterrupt
        assert said in capsys.readouterr().err.replace("\n", " ")


def test_the_last_look_is_the_newest_snapshot_or_where_a_move_brought_the_files(run):
    assert last_look(run.tree) is None
    one = run.node()
    run.add(Snapshotted(SnapshotId("second"), None, at_ns=20))
    assert last_look(run.tree) == "second"
    run.add(FilesRestored(SnapshotId("first"), SnapshotId("live"), at_ns=30, record=one))
    assert last_look(run.tree) == "first"
    run.add(FilesRestored(SnapshotId("live"), SnapshotId("live2"), at_ns=40, why="undo"))
    assert last_look(run.tree) == "live"
    run.add(Snapshotted(SnapshotId("third"), None, at_ns=50))
    run.add(Snapshotted(None, None, failed="no room", complete=False, at_ns=60))
    assert last_look(run.tree) == "third"


def test_only_in_a_run_that_has_ended_is_drift_told_apart(run):
    run.node()
    assert not is_told_apart(run.tree)
    run.add(RunEnded(90, ok=True, reason="submitted", snapshot=SnapshotId("at the end")))
    assert is_told_apart(run.tree)
    assert last_look(run.tree) == "at the end"
