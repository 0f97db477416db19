"""One update of reinforcement learning: trials, credit, rows, steps."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agentrewind.environments.draws import Draws
from agentrewind.learn.credit.samples import DecisionSample
from agentrewind.learn.play import play_together
from agentrewind.learn.rollout import trial
from agentrewind.learn.suites import suite
from agentrewind.learn.training.backend import Loss
from agentrewind.learn.training.methods import training_of
from agentrewind.learn.training.policy import Engine, Sampler
from agentrewind.learn.training.recipe import Recipe
from agentrewind.learn.training.rows import rows_of
from agentrewind.learn.training.steps import learn
from agentrewind.learn.trial import Trial


@dataclass(frozen=True, slots=True)
class Update:
    """What is seen of an update while it runs; all but times are the same in every run of a recipe."""

    solved: float
    """The share of trials."""
    first: float
    """The share of trials that were solved without a way back."""
    asked: float
    """Rewinds that the policy asked for, a trial."""
    recoveries: float
    """Ways back of both kinds, a trial."""
    spread: float
    """The standard deviation of the advantages."""
    calls: int
    rows: int
    """With an advantage."""
    sampled: int
    """Tokens."""
    loss: float
    divergence: float
    clipped: float
    norm: float
    tokens_s: float
    """Tokens that were trained on, by the second of the whole update."""
    seconds: float


def updated(engine: Engine, recipe: Recipe, number: int) -> Update:
    """Play, learn, and say what was seen. Depends on the weights, the recipe and the number alone.

    Raises:
        NotFinite: the weights are those before the step that failed.
    """
    begun = time.perf_counter()
    trials = played(engine, recipe, number)
    samples = training_of(recipe.method).credit(trials)
    rows = rows_of(samples)
    learned = learn(
        engine.backend, rows, Loss(clip=recipe.clip), recipe.rate, size=recipe.rows, seed=f"{recipe.seed}/{number}"
    )
    seconds = time.perf_counter() - begun
    return Update(
        *_seen(trials),
        _spread(samples),
        sum(len(trial.calls) for trial in trials),
        len(rows),
        sum(len(call.output.tokens) for trial in trials for call in trial.calls),
        learned.loss,
        learned.divergence,
        learned.clipped,
        learned.norm,
        learned.tokens / seconds,
        seconds,
    )


def played(engine: Engine, recipe: Recipe, number: int) -> list[Trial]:
    """The trials of an update, those of one task one after another."""
    method = training_of(recipe.method)
    chosen = suite(recipe.environment, recipe.pool, "train")
    rules = chosen.rules(method.rules(recipe.rules))
    tasks = Draws(f"tasks/{recipe.seed}/{number}").some(chosen.worlds, recipe.tasks)
    worlds = [make(rules, recipe.style, method.play) for make in tasks for _ in range(method.trials(recipe.attempts))]
    sampler = Sampler(engine, recipe.decoding.for_style(recipe.style), f"{recipe.seed}/update {number}")
    return play_together([trial(world, rules, method.play) for world in worlds], sampler)


def _seen(trials: Sequence[Trial]) -> tuple[float, float, float, float]:
    count = len(trials)
    return (
        sum(trial.solved for trial in trials) / count,
        sum(trial.solved and not trial.recoveries for trial in trials) / count,
        sum(trial.proactive for trial in trials) / count,
        sum(len(trial.recoveries) for trial in trials) / count,
    )


def _spread(samples: Sequence[DecisionSample]) -> float:
    return statistics.pstdev(sample.advantage for sample in samples) if samples else 0.0
