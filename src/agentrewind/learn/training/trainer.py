"""A training run from its recipe: cloning, the gate, updates; kept so that it goes on exactly where it was stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from agentrewind.core.codec import Json, to_plain
from agentrewind.core.errors import TrainingStopped
from agentrewind.learn.scores import Score
from agentrewind.learn.training.backend import Loss
from agentrewind.learn.training.boards import board
from agentrewind.learn.training.cloning import demonstrated, rate_at, rows_of_step, rows_to_imitate
from agentrewind.learn.training.engines import opened
from agentrewind.learn.training.kept import Place, TrainingDirectory
from agentrewind.learn.training.measuring import gate_of, measured
from agentrewind.learn.training.policy import Engine
from agentrewind.learn.training.recipe import Recipe
from agentrewind.learn.training.steps import NotFinite, learn
from agentrewind.learn.training.updates import updated

T = TypeVar("T")
Told = Callable[[Json], None]
CLONE_REPORT, CLONE_KEEP = 50, 500
"""Steps of cloning between two lines of metrics, and between two checkpoints."""


@dataclass(frozen=True)
class Trained:
    weights: Path
    before: list[Score] | None
    """None where nothing was measured."""
    after: list[Score] | None


class Trainer:
    """One training run in one directory."""

    def __init__(self, recipe: Recipe, directory: Path, told: Told) -> None:
        """Raises: UsageError: the recipe or the directory can't be used; nothing was touched."""
        self.recipe = recipe
        self.told = told
        self.engine: Engine = opened(recipe)
        self.directory = TrainingDirectory(directory, recipe)
        self.place = self.directory.resume(self.engine)
        self.directory.keep_metrics(self.place)

    def train(self, *, measure: bool = True) -> Trained:
        """Go on to the end of the recipe; held-out instances are played before the first update and after the last.

        Raises:
            TrainingStopped: a loss that isn't finite, or the gate; the text says what is kept.
        """
        with ExitStack() as stack:
            self._board = stack.enter_context(board(self.directory.path))
            self._clone()
            begun = Place(self.place.cloned, 0)
            if self.place == begun and (measure or self.recipe.evaluation.gate):
                self.measure()
                self._pass_the_gate()
            while self.place.updated < self.recipe.updates:
                self._update()
            self.directory.save(self.engine, self.place)
            after = self.measure() if measure else None
        return Trained(self.directory.weights(self.place), self.directory.scores(begun), after)

    def measure(self) -> list[Score]:
        """The evaluation of the recipe at the present place; made once and kept."""
        known = self.directory.scores(self.place)
        if known is not None:
            return known
        self.told({"phase": "evaluation", "cloned": self.place.cloned, "updated": self.place.updated})
        self.directory.save(self.engine, self.place)
        found = measured(self.engine, self.recipe)
        self.directory.keep_scores(self.place, found)
        return found

    def _clone(self) -> None:
        cloning = self.recipe.cloning
        if cloning is None or self.place.cloned >= cloning.steps:
            return
        self.told({"phase": "demonstrations", "trials": cloning.trials})
        rows = rows_to_imitate(demonstrated(self.recipe, cloning), self.engine.chat)
        for step in range(self.place.cloned, cloning.steps):
            chosen = rows_of_step(rows, cloning, self.recipe.seed, step)
            rate = rate_at(cloning, step)
            seen = self._guarded(partial(learn, self.engine.backend, chosen, Loss("imitation"), rate))
            self.place = Place(step + 1, 0)
            if (step + 1) % CLONE_REPORT == 0 or step + 1 == cloning.steps:
                self._report("clone", to_plain(seen))
            if (step + 1) % CLONE_KEEP == 0:
                self.directory.save(self.engine, self.place)
        self.directory.save(self.engine, self.place)

    def _pass_the_gate(self) -> None:
        if not self.recipe.evaluation.gate:
            return
        gap, least = gate_of(self.measure()), self.recipe.evaluation.gate
        self.told({"phase": "gate", "gap": gap, "least": least})
        if gap < least:
            raise TrainingStopped(
                f"The gate isn't passed: an oracle's remarks solve {100 * gap:+.1f} points more than none, and"
                f" {100 * least:.1f} are wanted, since a policy that ignores its notes can't learn to write them."
                f" No update was made; the cloned weights are in {self.directory.weights(self.place)}."
            )

    def _update(self) -> None:
        number = self.place.updated
        seen = self._guarded(partial(updated, self.engine, self.recipe, number))
        self.place = Place(self.place.cloned, number + 1)
        self._report("update", to_plain(seen))
        if self.place.updated % self.recipe.keep_every == 0:
            self.directory.save(self.engine, self.place)

    def _report(self, phase: str, seen: Json) -> None:
        line = {"phase": phase, "cloned": self.place.cloned, "updated": self.place.updated, **seen}
        self.directory.add_metrics(line)
        self._board.add(phase, self.place.updated or self.place.cloned, seen)
        self.told(line)

    def _guarded(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except NotFinite as error:
            facts = {"stopped": str(error), **to_plain(self.place)}
            batch = self.directory.keep_batch(error.rows, facts)
            newest = max(self.directory.checkpoints(), default=None)
            kept = f"The newest checkpoint is {self.directory.weights(newest)}" if newest else "There is no checkpoint"
            raise TrainingStopped(
                f"Training stopped at {self.place.name}: {error}. The {len(error.rows)} rows of the step are in"
                f" {batch}. {kept}; try a lower rate."
            ) from error
