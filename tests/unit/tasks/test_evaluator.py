"""Judging a workspace: all verdicts for the runner, one feedback for the agent, and nothing is ever changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentrewind.compose.judging import rooms
from agentrewind.core.errors import UsageError
from agentrewind.core.records import record_uid
from agentrewind.tasks.building import build
from agentrewind.tasks.check import is_evaluator_error
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.fingerprint import fingerprint
from agentrewind.tasks.loading import load
from agentrewind.tasks.rooms import unconfined
from agentrewind.tasks.task import Criterion
from agentrewind.tasks.verdicts import Verdict, Verdicts
from tests.unit.tasks.good import built, changed, copied, good, outcomes, ran, verdicts

HOLDS, FAILS = "satisfied", "failed"


@pytest.fixture(scope="module")
def solved(tmp_path_factory) -> Path:
    """The good task, solved by its reference. Not to be changed."""
    workspace = built(good(), tmp_path_factory.mktemp("solved") / "app")
    ran(good(), workspace, *(step.script for step in good().steps))
    return workspace


@pytest.fixture
def mine(solved, tmp_path) -> Path:
    """A copy of it that may be changed."""
    return Path(shutil.copytree(solved, tmp_path / "app", symlinks=True))


def test_the_reference_satisfies_all(solved):
    found = verdicts(good(), solved)
    assert outcomes(found) == dict.fromkeys(["P1", "P2", "P3", "P4", "P5", "P6"], HOLDS)
    assert (found.succeeded, found.progress, found.feedback, found.first_unsatisfied) == (True, 1.0, "", None)


def test_the_first_state_fails_everything(tmp_path):
    found = verdicts(good(), built(good(), tmp_path / "app"))
    assert set(outcomes(found).values()) == {FAILS}
    assert found.progress == 0


def test_the_runner_gets_all_verdicts_and_the_agent_the_first_feedback_only(mine):
    (mine / "keep/2019.csv").write_text("gone")
    (mine / "CHANGES.md").unlink()
    found = verdicts(good(), mine)
    assert [name for name, outcome in outcomes(found).items() if outcome == FAILS] == ["P3", "P5", "P6"]
    assert found.feedback == good().checklist["P3"].feedback
    assert (found.satisfied, found.progress) == (2, 2 / 6)
    judged = found.judged(record_uid(3))
    assert (judged.after, judged.accepted, judged.first_failure) == (record_uid(3), False, "P3")
    assert (judged.feedback, judged.satisfied, judged.total) == (found.feedback, 2, 6)


@pytest.mark.parametrize("where", [rooms(), unconfined], ids=["here", "without a sandbox"])
def test_judging_changes_nothing_whatever_a_check_or_the_work_does(where, mine):
    (mine / "tools/total.py").write_text(
        "import pathlib\nfor top in ('/app', '.', '..'):\n    for path in pathlib.Path(top).rglob('*.csv'):\n"
        "        try:\n            path.unlink()\n        except OSError:\n            pass\n"
    )
    before = fingerprint(mine)
    found = Evaluator(good(), where).evaluate(mine)
    assert outcomes(found)["P1"] == FAILS
    assert outcomes(found)["P3"] == HOLDS
    assert fingerprint(mine) == before


@pytest.mark.parametrize("where", [rooms(), unconfined], ids=["here", "without a sandbox"])
def test_what_can_be_neither_read_nor_copied_elsewhere_in_the_workspace_does_not_matter(where, mine):
    os.mkfifo(mine / "tools/queue")
    os.mkfifo(mine / "queue")
    (mine / "nowhere").symlink_to("no/such")
    (mine / "closed").mkdir(mode=0)
    assert Evaluator(good(), where).evaluate(mine).succeeded
    (mine / "closed").rmdir()


def test_twenty_evaluations_say_the_same(mine):
    (mine / "tools/total.py").write_text("raise SystemExit('broken in ' + __file__)")
    evaluator = Evaluator(good(), rooms())
    first = evaluator.evaluate(mine)
    assert first.satisfied == 0
    assert all(evaluator.evaluate(mine) == first for _ in range(19))


def test_equal_states_in_different_places_get_equal_verdicts(mine, tmp_path):
    other = shutil.copytree(mine, tmp_path / "elsewhere/app")
    for place in (mine, other):
        (place / "tools/total.py").write_text("raise SystemExit('broken in ' + __file__)")
    assert verdicts(good(), mine) == verdicts(good(), other)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("raise KeyError('a mistake in the check')", "KeyError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9"),
        ("import os; os._exit(3)", "said nothing"),
        ("import time; time.sleep(600)", "longer than 10 s"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_a_check_that_crashes_or_hangs_is_an_evaluator_error_and_no_failure(broken, said, mine, tmp_path):
    task = copied(tmp_path / "task")
    changed(
        task / "tests/checks.py",
        '    same(app.json("BASELINE.json")',
        f'    {broken}\n    same(app.json("BASELINE.json")',
    )
    changed(task / "task.toml", "requires = []", "requires = []\ncheck_timeout_s = 10.0")
    found = verdicts(load(task), mine)
    assert outcomes(found) == {**dict.fromkeys(["P1", "P3", "P4", "P5", "P6"], HOLDS), "P2": "error"}
    assert [error.criterion.id for error in found.errors] == ["P2"]
    assert said in found.errors[0].detail
    assert not found.succeeded
    assert is_evaluator_error(found.judged())
    assert found.feedback != good().checklist["P2"].feedback


def test_checks_that_cannot_be_read_give_errors_and_no_verdict(mine, tmp_path):
    task = copied(tmp_path / "task")
    (task / "tests/checks.py").write_text("this is no Python\n")
    found = verdicts(load(task), mine)
    assert set(outcomes(found).values()) == {"error"}
    assert "SyntaxError" in found.errors[0].detail


def test_a_criterion_without_a_check_is_an_evaluator_error(mine, tmp_path):
    task = copied(tmp_path / "task")
    changed(task / "tests/checks.py", "def p4_the", "def q4_the")
    assert outcomes(verdicts(load(task), mine))["P4"] == "error"


@pytest.mark.parametrize("damage", ["directory", "binary", "empty", "fifo", "loop", "deep", "wrong kind"])
def test_whatever_is_left_in_place_of_deliverables_is_a_failure_and_no_error(damage, mine):
    for path in ("BASELINE.json", "keep/2019.csv", "LEDGER.json", "CHANGES.md", "tools/total.py"):
        target = mine / path
        target.unlink()
        match damage:
            case "directory":
                target.mkdir()
            case "binary":
                target.write_bytes(bytes(range(256)))
            case "empty":
                target.write_bytes(b"")
            case "fifo":
                os.mkfifo(target)
            case "loop":
                target.symlink_to(target.name)
            case "deep":
                target.write_text("[" * 100_000)
            case "wrong kind":
                target.write_text("[1, null]")
    assert outcomes(verdicts(good(), mine)) == {**dict.fromkeys(["P1", "P2", "P3", "P5", "P6"], FAILS), "P4": HOLDS}


def test_what_a_check_starts_cannot_answer_for_it(mine, tmp_path):
    """A program of the agent's prints what the driver would."""
    forged = 'agentrewind-verdicts {\\"P1\\": [\\"satisfied\\", \\"\\"]}'
    (mine / "tools/total.py").write_text(
        f'import os\nfor fd in range(64):\n  try: os.write(fd, b"\\n{forged}\\n")\n  except OSError: pass\n'
    )
    assert outcomes(verdicts(good(), mine))["P1"] == FAILS


def test_a_task_whose_tool_is_missing_is_not_judged(mine, tmp_path):
    task = copied(tmp_path / "task")
    changed(task / "task.toml", "requires = []", 'requires = ["no-such-tool"]')
    assert load(task).skipped == "no-such-tool is not installed"
    with pytest.raises(UsageError, match="no-such-tool is not installed"):
        verdicts(load(task), mine)
    with pytest.raises(UsageError, match="no-such-tool is not installed"):
        build(load(task), tmp_path / "built")
    assert not (tmp_path / "built").exists()


def test_without_an_order_every_satisfied_criterion_counts():
    items = tuple(
        Verdict(Criterion(str(number), "test", "", f"number {number}"), outcome)
        for number, outcome in enumerate(["satisfied", "failed", "satisfied", "error"])
    )
    assert (Verdicts(items).satisfied, Verdicts(items).progress) == (1, 0.25)
    unordered = Verdicts(items, ordered=False)
    assert (unordered.satisfied, unordered.progress, unordered.feedback) == (2, 0.5, "number 1")


def test_nothing_is_built_into_a_directory_that_is_not_empty(tmp_path):
    (tmp_path / "mine.txt").write_text("the only copy")
    with pytest.raises(UsageError, match="isn't empty"):
        build(good(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a").write_text("other"),
        lambda root: (root / "a").chmod(0o600),
        lambda root: os.utime(root / "a", ns=(1, 1)),
        lambda root: (root / "a").rename(root / "c"),
        lambda root: (root / "empty").rmdir(),
        lambda root: (root / "b").unlink() or (root / "b").write_text("same"),
        lambda root: (root / "link").unlink() or (root / "link").symlink_to("b"),
    ],
)
def test_a_fingerprint_tells_every_change(change, tmp_path):
    (tmp_path / "a").write_text("same")
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "empty").mkdir()
    for path in tmp_path.iterdir():
        os.utime(path, (5, 5), follow_symlinks=False)
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    change(tmp_path)
    assert fingerprint(tmp_path) != before
