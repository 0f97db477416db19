"""Imitation of solvers that make mistakes and use remarks, until a tiny model plays somewhat."""

from __future__ import annotations

import math

from agentrewind.core.errors import UsageError
from agentrewind.environments.draws import Draws
from agentrewind.learn.methods import RETROSPECTIVE
from agentrewind.learn.play import play
from agentrewind.learn.rollout import trial
from agentrewind.learn.solvers.demonstrations import Demonstration, Demonstrator
from agentrewind.learn.solvers.minesweeper import Safest
from agentrewind.learn.solvers.sokoban import Shortest
from agentrewind.learn.suites import suite
from agentrewind.learn.training.chat import Chat
from agentrewind.learn.training.recipe import Cloning, Recipe
from agentrewind.learn.training.rows import Row

WARMUP, FLOOR = 0.05, 0.1
"""Shares: of the steps in which the rate rises, and of the highest rate that the last step has."""


def demonstrated(recipe: Recipe, cloning: Cloning) -> list[Demonstration]:
    """What is to be imitated. The same for the same seed, environment and settings.

    Raises:
        UsageError: nobody teaches this environment.
    """
    chosen = suite(recipe.environment, cloning.instances, "train")
    rules, found = chosen.rules(recipe.rules), []
    for number in range(cloning.trials):
        instance = number % len(chosen.worlds)
        teacher = chosen.solver_of(instance)
        if not isinstance(teacher, Safest | Shortest):
            raise UsageError(f"Nobody demonstrates {recipe.environment}; there are minesweeper and sokoban.")
        pupil = Demonstrator(teacher, cloning.habits, f"{recipe.seed}/{number}")
        play(trial(chosen.worlds[instance](rules, recipe.style, RETROSPECTIVE), rules), pupil)
        found += pupil.kept
    return found


def rows_to_imitate(demonstrations: list[Demonstration], chat: Chat) -> list[Row]:
    return [Row(chat.prompt(each.context), chat.answer(each.answer), ()) for each in demonstrations]


def rows_of_step(rows: list[Row], cloning: Cloning, seed: int, step: int) -> list[Row]:
    """Drawn with replacement, for each step anew."""
    draws = Draws(f"clone/{seed}/{step}")
    return [draws.one(rows) for _ in range(cloning.rows)]


def rate_at(cloning: Cloning, step: int) -> float:
    """It rises linearly, and falls along a cosine."""
    warm = max(1, round(WARMUP * cloning.steps))
    if step < warm:
        return cloning.rate * (step + 1) / warm
    done = (step - warm) / max(1, cloning.steps - warm)
    return cloning.rate * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)
