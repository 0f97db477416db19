"""Judging a workspace: every criterion of a task, in order, on a view that can't be written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.errors import UsageError
from agentrewind.core.records import Judged, RecordUid
from agentrewind.engine.commands import CommandResult
from agentrewind.tasks.building import KIT
from agentrewind.tasks.harbor import evaluate_harbor
from agentrewind.tasks.kit.driver import MARK
from agentrewind.tasks.rooms import Rooms, python, unconfined
from agentrewind.tasks.task import Criterion, Task
from agentrewind.tasks.verdicts import Verdict, Verdicts

DRIVER = KIT / "driver.py"
_STARTING_S = 60.0
"""How much longer than all checks together the process that runs them may take."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The checks of `task`. Equal workspaces get equal verdicts and equal feedback; none is ever changed."""

    task: Task
    rooms: Rooms = unconfined

    def evaluate(self, workspace: Path) -> Verdicts:
        """The verdicts on a workspace as it is now.

        A check that crashes, or takes longer than the task allows, gives `error` and never `failed`. Never raises for
        what the workspace holds or a check does.

        Raises:
            UsageError: the task can't be run here (`Task.skipped`).
        """
        if self.task.skipped:
            raise UsageError(f"{self.task.id} can't be judged here: {self.task.skipped}.")
        if self.task.kind == "harbor":
            return evaluate_harbor(self.task, workspace, self.rooms)
        task, tests = self.task, self.task.tests.resolve()
        ids = [item.id for item in task.checklist]
        with self.rooms(workspace, at=task.workdir, read_only=True, readable=(tests, KIT)) as room:
            words = [python(), "-I", "-B", DRIVER, KIT, tests, room.at, task.check_timeout_s, *ids]
            result = room.run(shlex.join(map(str, words)), len(ids) * task.check_timeout_s + _STARTING_S)
        found, why = _found(result)
        return Verdicts(tuple(_verdict(item, found, why) for item in task.checklist), task.checklist.ordered)

    def judge(self, workspace: Path, after: RecordUid | None = None) -> Judged:
        """`evaluate` as the record of a submission."""
        return self.evaluate(workspace).judged(after)


def _found(result: CommandResult) -> tuple[Mapping[str, list[str]], str]:
    """What the driver said, and why it said nothing."""
    last = result.output.rstrip().rpartition("\n")[2]
    if last.startswith(MARK):
        found: Mapping[str, list[str]] = json.loads(last.removeprefix(MARK))
        return found, ""
    tail = result.output.strip()[-500:]
    return {}, f"the checks could not be run (exit code {result.exit_code}): {tail}"


def _verdict(criterion: Criterion, found: Mapping[str, list[str]], why: str) -> Verdict:
    match found.get(criterion.id):
        case ["satisfied", _]:
            return Verdict(criterion, "satisfied")
        case ["failed", str(detail)]:
            return Verdict(criterion, "failed", detail)
        case ["error", str(detail)]:
            return Verdict(criterion, "error", detail)
        case _:
            return Verdict(criterion, "error", why or "the check gave no verdict")
