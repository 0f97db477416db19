"""The tasks that come with the package, played by the real mini-SWE-agent with a model that says known commands.

One of them in the lane, all of them by `make test-mini-tasks`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from agentrewind.bench.results import Result, result_at
from agentrewind.bench.sim.policy import policy_of
from agentrewind.bench.sim.proof import IRREVERSIBLE
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.tasks.shipped import suite, suites
from agentrewind.tasks.task import Task, text_of
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call
from tests.lanes import needs

pytestmark = needs("minisweagent", "mini")
TASKS = [task for name in suites() for task in suite(name)]
SHORT = "core/wal-handoff"
by_name = pytest.mark.parametrize(
    "task", [pytest.param(task, id=task.id, marks=() if task.id == SHORT else pytest.mark.slow) for task in TASKS]
)
long = pytest.mark.timeout(900)
"""A machine with much other work takes a minute for a run."""
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

Say = Callable[[Request], Step]


def bash(command: str) -> Say:
    return lambda _: call("bash", {"command": command})


def marked(name: str, script: str) -> Say:
    """A command that begins with a line by which it is found in a list of candidates."""
    return bash(f"# {name}\n{script}")


def back_to(name: str) -> list[Say]:
    """Go back to just before the newest command that is marked so."""

    def commit(request: Request) -> Step:
        found = re.findall(rf"^(rec_\d+)  .*\(# {re.escape(name)}\b", request.results[-1], re.MULTILINE)
        assert found, request.results[-1]
        return call(COMMIT, {"record_uid": found[0], "memory_summary": f"Not {name} again."})

    return [lambda _: call(CANDIDATES, {"reason": f"{name} was too early"}), commit]


def reference(task: Task, first: int = 0) -> list[Say]:
    """The steps of the reference from one on, each a call of its own, and the submission."""
    return [*(marked(f"step {step.name}", step.script) for step in task.steps[first:]), bash(SUBMIT)]


def played(task: Task, says: Iterable[Say], tmp_path: Path) -> Result:
    """The run in which the model says this, from the command line, with the task's own sandbox and checks."""
    if task.skipped:
        pytest.skip(task.skipped)
    left = iter(says)

    def script(request: Request) -> Step:
        return next(left)(request)

    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTREWIND", "OPENAI"))}
    environ |= {"HOME": str(tmp_path), "AGENTREWIND_HOME": str(tmp_path / "home")}
    with ScriptedModel(script) as model:
        done = subprocess.run(
            [sys.executable, "-m", "agentrewind", "bench", "run", "--suite", task.suite, "--tasks", task.name,
             "--strategies", "rewind", "--harness", "mini-swe-agent", "--models", "scripted",
             "--base-url", model.base_url, "--out", str(tmp_path / "out"), "--json"],
            env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=850, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert model.refused == []
    (directory,) = (tmp_path / "out/runs").glob("*/*/*/*/*")
    result = result_at(directory)
    assert result is not None
    assert result.counts, result.abnormal
    assert next(left, None) is None, "all of it was said"
    assert json.loads(done.stdout)["tally"]["made"] == 1
    return result


@by_name
@long
def test_the_reference_satisfies_every_criterion(task: Task, tmp_path: Path) -> None:
    result = played(task, reference(task), tmp_path)
    (only,) = result.submissions
    assert (result.success, only.satisfied, only.total) == (True, len(task.checklist), len(task.checklist))
    assert set(only.criteria.values()) == {"satisfied"}


@by_name
@long
def test_the_violation_stops_where_it_says_and_the_reference_succeeds_after_going_back(
    task: Task, tmp_path: Path
) -> None:
    says = [marked("violation", text_of(task.violation)), bash(SUBMIT), *back_to("violation"), *reference(task)]
    result = played(task, says, tmp_path)
    first, last = result.submissions
    assert (first.first_failure, last.satisfied) == (task.fails_at.id, len(task.checklist))
    assert result.success
    assert len(result.moves) == 1


@by_name
@long
def test_after_each_trap_going_back_to_just_before_it_and_on_from_there_succeeds(task: Task, tmp_path: Path) -> None:
    """Up to a trap as the reference, over it, on to the end, and back to the step that it took the place of."""
    policy = policy_of(task)
    traps = [(at, slip) for at, step in enumerate(policy.steps) for slip in step.errors if slip.kind in IRREVERSIBLE]
    assert traps
    says: list[Say] = []
    done = 0
    for at, slip in traps:
        says += reference(task)[done:at]
        says += [marked(f"trap {slip.id}", slip.run), *reference(task, at + 1), *back_to(f"trap {slip.id}")]
        done = at
    result = played(task, [*says, *reference(task, done)], tmp_path)
    *failed, last = result.submissions
    assert [item.first_failure for item in failed] == [slip.breaks for _, slip in traps]
    assert (result.success, last.satisfied, len(result.moves)) == (True, len(task.checklist), len(traps))
