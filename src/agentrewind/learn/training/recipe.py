"""A recipe: everything that a training run depends on. A TOML file, or a Python file that defines `recipe`."""

from __future__ import annotations

import dataclasses
import runpy
import tomllib
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentrewind.core.codec import Json, digest, from_plain, to_plain
from agentrewind.core.errors import UsageError
from agentrewind.learn.rules import Rules
from agentrewind.learn.solvers.demonstrations import Habits
from agentrewind.learn.training.backend import Decoding
from agentrewind.learn.training.methods import training_of
from agentrewind.learn.training.policy import Engine
from agentrewind.learn.worlds import Style

TINY = "tiny"


@dataclass(frozen=True, slots=True)
class Cloning:
    """Imitation of solvers, before anything else."""

    instances: int = 1000
    """Of the training split."""
    trials: int = 4000
    """Demonstrated, on one instance after another, and again from the first."""
    steps: int = 1500
    rows: int = 128
    """Of a step."""
    rate: float = 3e-3
    """The highest: it rises over the first twentieth of the steps and falls to a tenth, along a cosine."""
    habits: Habits = field(default_factory=Habits)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is measured on held-out instances."""

    instances: int = 100
    seeds: tuple[int, ...] = (0, 1, 2)
    protocols: tuple[str, ...] = ("P@1", "T@1", "T@3")
    controls: tuple[str, ...] = ("no-memory", "oracle-remark", "random-remark")
    """Methods whose remarks aren't the policy's own, under the last protocol."""
    gate: float = 0.0
    """So much more has to be solved with an oracle's remarks than with none, before any update is made: a policy that
    ignores its notes learns nothing about writing them.
    """


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    environment: str = "minesweeper:6:3"
    method: str = "retrail"
    model: str = TINY
    """`tiny`, or a directory with weights and tokenizer in the form of transformers."""
    style: Style = "compact"
    seed: int = 0
    device: str = "cpu"
    cloning: Cloning | None = None
    updates: int = 40
    tasks: int = 16
    """Of an update."""
    pool: int = 256
    """So many instances of the training split the tasks are drawn from."""
    attempts: int = 24
    """A task: 24 trials of one attempt, or 8 of up to three."""
    rows: int = 0
    """Of an optimiser step; 0: all of an update in one step."""
    rate: float = 3e-4
    clip: float = 0.2
    weight_decay: float = 0.01
    gradient_clip: float = 1.0
    decoding: Decoding = field(default_factory=Decoding)
    rules: Rules = field(default_factory=Rules)
    evaluation: Evaluation = field(default_factory=Evaluation)
    keep_every: int = 10
    """Updates between two checkpoints."""
    engine: Callable[[Recipe], Engine] | None = None
    """Of recipes in Python: where weights and tokenizer come from, and what trains them."""

    def up_to(self, updates: int) -> Recipe:
        return replace(self, updates=updates)

    @property
    def identity(self) -> str:
        """Equal where two recipes lead to equal weights; how long to train and what to measure are no part of it."""
        plain = to_plain(replace(self, engine=None, updates=0, evaluation=Evaluation(), keep_every=1))
        return digest([plain, self.engine is None])


def read_recipe(path: Path) -> Recipe:
    """Raises: UsageError: it can't be read, or something in it isn't known. Nothing was trained."""
    try:
        recipe = _of_python(path) if path.suffix == ".py" else _of_toml(path)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}. Nothing was trained.") from error
    except ImportError as error:
        raise UsageError(f"{path} needs what isn't installed: {error}. Nothing was trained.") from error
    training_of(recipe.method).trials(recipe.attempts)
    if recipe.updates < 0 or recipe.tasks < 1 or recipe.pool < recipe.tasks or recipe.keep_every < 1:
        raise UsageError(f"{path}: tasks and keep_every are at least 1, pool at least tasks, updates at least 0.")
    return recipe


def _of_python(path: Path) -> Recipe:
    found = runpy.run_path(str(path)).get("recipe")
    if not isinstance(found, Recipe):
        raise UsageError(f"{path} defines no `recipe` (agentrewind.learn.training.recipe.Recipe). Nothing was trained.")
    return found


def _of_toml(path: Path) -> Recipe:
    try:
        plain = {"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))}
        unknown = _unknown(Recipe, plain)
        if unknown:
            raise UsageError(f"{path}: {unknown} is nothing that a recipe has. Nothing was trained.")
        return from_plain(Recipe, plain)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError) as error:
        raise UsageError(f"{path} is no recipe: {error}. Nothing was trained.") from error


def _unknown(cls: type, plain: Json) -> str | None:
    """The first key that no field has."""
    fields = {item.name: item for item in dataclasses.fields(cls) if item.name != "engine"}
    hints = typing.get_type_hints(cls)
    for name, value in plain.items():
        if name not in fields:
            return str(name)
        kinds = (hints[name], *typing.get_args(hints[name]))
        inner = next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
        below = _unknown(inner, value) if isinstance(inner, type) and isinstance(value, dict) else None
        if below:
            return f"{name}.{below}"
    return None
