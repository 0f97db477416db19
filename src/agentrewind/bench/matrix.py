"""Which runs a benchmark consists of, and the directory that holds them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentrewind.bench.arms import arm_named
from agentrewind.bench.one import SIMULATED, Conditions
from agentrewind.bench.results import RESULT, Spec
from agentrewind.bench.sim.profiles import profile_named
from agentrewind.compose.harnesses import harness_by_name
from agentrewind.core.codec import from_plain, to_plain
from agentrewind.core.errors import UsageError
from agentrewind.journal.lease import LEASE

PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every task under every arm, harness and model, `runs` times."""

    suite: str
    arms: tuple[str, ...]
    harnesses: tuple[str, ...]
    models: tuple[str, ...]
    runs: int
    conditions: Conditions

    def checked(self) -> Matrix:
        """The matrix itself. Raises: UsageError: something that it names isn't there."""
        if not (self.conditions.tasks and self.arms and self.harnesses and self.models):
            raise UsageError("There is nothing to run: a benchmark needs a task, a strategy, a harness and a model.")
        for arm in self.arms:
            if arm_named(arm).has_oracle and not all(model.startswith(SIMULATED) for model in self.models):
                raise UsageError(
                    "The selector oracle knows what a simulated model did wrong, and no real one's errors."
                )
        for harness in self.harnesses:
            harness_by_name(harness)
        for model in self.models:
            if model.startswith(SIMULATED):
                profile_named(model.removeprefix(SIMULATED))
        return self

    def specs(self) -> list[Spec]:
        """All runs. Those with the same number come together, so that a benchmark that is cut off is balanced."""
        parts = itertools.product(range(self.runs), self.conditions.tasks, self.arms, self.harnesses, self.models)
        return [Spec(task, arm, harness, model, seed) for seed, task, arm, harness, model in parts]


@dataclass(frozen=True, slots=True)
class Place:
    """The directory of a benchmark."""

    root: Path

    def run_dir(self, spec: Spec) -> Path:
        return self.root / "runs" / spec.key

    def is_done(self, spec: Spec) -> bool:
        return (self.run_dir(spec) / RESULT).exists()

    @property
    def abnormal(self) -> Path:
        """A line for each run that came to no result, or to one that doesn't count."""
        return self.root / "abnormal.jsonl"

    def settle(self, matrix: Matrix) -> None:
        """Write down what is to be run here, or find that it is what has been begun. More runs, arms, harnesses, models
        and tasks may be added to what is there.

        Raises:
            UsageError: something else was begun here; nothing was touched.
        """
        path = self.root / PLAN
        if path.exists():
            before = self.begun()
            if not _goes_on(before, matrix):
                raise UsageError(
                    f"{self.root} holds a benchmark under other conditions. Name another directory with --out, or give"
                    " the same options as before; nothing was run."
                )
            matrix = _together(before, matrix)
        elif self.root.exists() and any(path.name != LEASE for path in self.root.iterdir()):
            raise UsageError(f"{self.root} isn't empty, and no benchmark was begun there. Name another directory.")
        self.root.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(to_plain(matrix), indent=1, ensure_ascii=False) + "\n", "utf-8")

    def begun(self) -> Matrix:
        """What is to be run here. Raises: UsageError: nobody said."""
        try:
            return from_plain(Matrix, json.loads((self.root / PLAN).read_text("utf-8")))
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise UsageError(f"{self.root / PLAN} doesn't say what is to be run here: {error}.") from None


def _goes_on(before: Matrix, matrix: Matrix) -> bool:
    """Whether runs of both can stand beside each other."""
    old, new = to_plain(before.conditions), to_plain(matrix.conditions)
    tasks, more = old.pop("tasks"), new.pop("tasks")
    return (
        before.suite == matrix.suite
        and old == new
        and all(tasks.get(name, path) == path for name, path in more.items())
    )


def _together(before: Matrix, matrix: Matrix) -> Matrix:
    """What was to be run, and what is now."""

    def union(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*one, *other)))

    return replace(
        matrix,
        arms=union(before.arms, matrix.arms),
        harnesses=union(before.harnesses, matrix.harnesses),
        models=union(before.models, matrix.models),
        runs=max(before.runs, matrix.runs),
        conditions=replace(matrix.conditions, tasks={**before.conditions.tasks, **matrix.conditions.tasks}),
    )
