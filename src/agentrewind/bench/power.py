"""How large a difference so many tasks and runs can see, by simulation under assumptions that are said."""

from __future__ import annotations

import random
from functools import cache

from agentrewind.bench.statistics import approximate_p, ranked

GAIN = 0.4
"""By how much the better arm is better, on half of the tasks: 0.2 on average."""
LEAST, MOST = 0.1, 0.6
"""Between these, evenly, lie the chances of success that the worse arm has on each task."""
LEVEL = 0.05
ASSUMED = (
    f"Assumed: the worse arm succeeds on a task with a chance between {LEAST} and {MOST}, evenly spread over tasks; the"
    f" better one has {GAIN} more on half of the tasks, and nothing more on the others (0.2 on average); runs are"
    f" independent. The share of {{draws}} simulated benchmarks in which the two-sided signed-rank test on task means"
    f" gives p < {LEVEL}."
)
DRAWS = 1000


@cache
def power(tasks: int, runs: int, *, draws: int = DRAWS, seed: int = 0) -> float:
    """The share of simulated benchmarks in which the difference is seen. Equal arguments give equal answers."""
    chance = random.Random(f"{seed} {tasks} {runs}")  # noqa: S311 (a draw, no secret)
    return sum(_seen(tasks, runs, chance) for _ in range(draws)) / draws


def _seen(tasks: int, runs: int, chance: random.Random) -> bool:
    differences = []
    for task in range(tasks):
        worse = LEAST + (MOST - LEAST) * chance.random()
        better = worse + GAIN * (task % 2)
        differences.append(sum((chance.random() < better) - (chance.random() < worse) for _ in range(runs)))
    return approximate_p(ranked(differences)) < LEVEL
