"""The tasks that come with the package: in short form here, with every gate and screen in `make tasks`."""

from __future__ import annotations

import pytest

from agentrewind.compose.judging import rooms
from agentrewind.tasks.gates import GATES
from agentrewind.tasks.inspection import grounds, inspected
from agentrewind.tasks.screens import SCREENS
from agentrewind.tasks.shipped import suite, suites
from agentrewind.tasks.task import Task

TASKS = [task for name in suites() for task in suite(name)]
QUICK = [
    "structure",
    "imports",
    "feedback",
    "scripts",
    "policy",
    "frozen",
    "shipped",
    "reference",
    "violation",
    "irreversible",
    "S2",
    "S4",
]
by_name = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)


def problems(task: Task, gates: list[str]) -> list[str]:
    if task.skipped:
        pytest.skip(task.skipped)
    with grounds(task, rooms()) as at:
        found = inspected(at, {**GATES, **SCREENS}, gates)
        return [f"{finding.gate}: {problem}" for finding in found for problem in finding.problems]


@by_name
def test_a_task_passes_the_quick_gates(task):
    assert problems(task, QUICK) == []


@pytest.mark.slow
@by_name
@pytest.mark.timeout(900)
def test_a_task_passes_every_gate_and_screen(task):
    assert problems(task, []) == []
