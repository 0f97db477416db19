"""The evaluation of weights, by the one that everything else is evaluated with."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agentrewind.learn.evaluation import Part, Plan, evaluate, sampler
from agentrewind.learn.play import Batch
from agentrewind.learn.scores import Score
from agentrewind.learn.suites import Suite
from agentrewind.learn.training.policy import Engine
from agentrewind.learn.training.recipe import Recipe

POLICY = "trained"


def plans(recipe: Recipe) -> list[Plan]:
    """What a recipe measures: the protocols, then the controls under the last of them."""
    wanted = recipe.evaluation
    whole = Plan(
        (recipe.environment,),
        policies=(POLICY,),
        protocols=wanted.protocols,
        seeds=wanted.seeds,
        instances=wanted.instances,
        style=recipe.style,
        rules=recipe.rules,
    )
    if not wanted.controls:
        return [whole]
    return [
        whole,
        Plan(
            whole.environments,
            wanted.controls,
            whole.policies,
            wanted.protocols[-1:],
            whole.seeds,
            whole.instances,
            whole.style,
            rules=whole.rules,
        ),
    ]


def measured(engine: Engine, recipe: Recipe) -> list[Score]:
    """Play the held-out instances with the weights as they are."""

    @contextmanager
    def policy(part: Part, chosen: Suite) -> Iterator[Batch]:
        del chosen
        yield sampler(engine, part)

    return [score for plan in plans(recipe) for score in evaluate(plan, policy=policy)]


def gate_of(scores: Iterable[Score]) -> float:
    """The share solved with an oracle's remarks minus that without memory."""
    found = list(scores)
    return _share(found, "oracle-remark") - _share(found, "no-memory")


def _share(scores: Iterable[Score], method: str) -> float:
    return statistics.fmean(item.solved for item in scores if item.method == method)
