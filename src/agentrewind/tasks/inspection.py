"""Admitting a task: states are made of it as often as they are needed, and gates and screens look at them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from agentrewind.core.errors import BadTask
from agentrewind.engine.commands import CommandResult
from agentrewind.tasks.building import build
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.rooms import Rooms
from agentrewind.tasks.task import Step, Task, text_of
from agentrewind.tasks.verdicts import Verdict, Verdicts

SCRIPT_S = 300.0
"""How long a script of a task may take."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one gate or screen found; no problems: the task passes it."""

    gate: str
    problems: tuple[str, ...]


@dataclass
class Grounds:
    """A task with the states of its workspace that gates look at, each in a directory of its own below `place`."""

    task: Task
    rooms: Rooms
    place: Path
    _made: int = field(default=0)

    def fresh(self) -> Path:
        """A first state that nobody else uses."""
        self._made += 1
        target = self.place / str(self._made) / "app"
        build(self.task, target)
        return target

    @cached_property
    def first(self) -> Path:
        """A first state, only to be looked at."""
        return self.fresh()

    @cached_property
    def solved(self) -> Path:
        """What the whole reference leaves, run as one script. Only to be looked at."""
        workspace = self.fresh()
        self.run(workspace, text_of(self.task.solution))
        return workspace

    @cached_property
    def violated(self) -> Path:
        """What the violation leaves. Only to be looked at."""
        workspace = self.fresh()
        self.run(workspace, text_of(self.task.violation))
        return workspace

    @cached_property
    def expected(self) -> Mapping[str, Any]:
        """The frozen values. Raises: BadTask: they can't be read."""
        file = self.task.tests / "expected.json"
        try:
            found: Mapping[str, Any] = json.loads(text_of(file))
        except ValueError as error:
            raise BadTask(f"{file} is no JSON: {error}.") from error
        if not isinstance(found, dict) or not isinstance(found.get("values"), dict) or not found.get("lost"):
            raise BadTask(f'{file} must be an object with an object "values" and a list "lost" that isn\'t empty.')
        return found

    def run(self, workspace: Path, script: str) -> CommandResult:
        with self.rooms(workspace, at=self.task.workdir) as room:
            return room.run(script, SCRIPT_S)

    def without(self, left_out: Iterable[str], until: str = "") -> Path:
        """What the reference leaves without some of its steps, or before the step `until`."""
        workspace, skipped = self.fresh(), set(left_out)
        with self.rooms(workspace, at=self.task.workdir) as room:
            for step in self.task.steps:
                if step.name == until:
                    break
                if step.name not in skipped:
                    room.run(step.script, SCRIPT_S)
        return workspace

    def step(self, name: str) -> Step:
        """Raises: BadTask: the reference has no such step."""
        for step in self.task.steps:
            if step.name == name:
                return step
        raise BadTask(f"{self.task.solution} has no step {name!r}.")

    def verdicts(self, workspace: Path) -> Verdicts:
        return Evaluator(self.task, self.rooms).evaluate(workspace)


Gate = Callable[[Grounds], Iterator[str]]
"""Yields what is wrong with the task, each in a sentence."""


@contextmanager
def grounds(task: Task, rooms: Rooms) -> Iterator[Grounds]:
    """Grounds that are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="agentrewind-task-", ignore_cleanup_errors=True) as place:
        yield Grounds(task, rooms, Path(place))


def inspected(at: Grounds, gates: Mapping[str, Gate], only: Sequence[str] = ()) -> Iterator[Finding]:
    """What each gate finds, or those that are named; a task that can't be read or built doesn't pass."""
    for name, gate in gates.items():
        if only and name not in only:
            continue
        try:
            problems = tuple(gate(at))
        except BadTask as error:
            problems = (str(error),)
        yield Finding(name, problems)


def told(verdict: Verdict | None) -> str:
    """A verdict in words for the author of a task."""
    if verdict is None:
        return "every criterion is satisfied"
    return f"{verdict.criterion.id} ({verdict.outcome}): {verdict.detail[-600:]}"
