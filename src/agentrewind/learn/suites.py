"""Which instances an evaluation plays: `sokoban`, `sokoban:7:3`, `minesweeper:6:8`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentrewind.core.errors import UsageError
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.sokoban import instances as rooms
from agentrewind.environments.sokoban.game import Sokoban
from agentrewind.learn.methods import Method
from agentrewind.learn.rules import Rules
from agentrewind.learn.solvers.minesweeper import Safest
from agentrewind.learn.solvers.policies import Solver
from agentrewind.learn.solvers.sokoban import Shortest
from agentrewind.learn.worlds import Style, World, minesweeper, sokoban


class Made(Protocol):
    def __call__(self, rules: Rules, style: Style, method: Method) -> World: ...


@dataclass(frozen=True)
class Suite:
    """Instances of one environment. Each is made anew for each trial, since a world has a present state."""

    name: str
    worlds: tuple[Made, ...]
    solver: Callable[[], Solver]


def suite(spec: str, count: int, split: str = "test") -> Suite:
    """The first `count` instances that a specification names.

    Raises:
        UsageError: there is no such environment, or it has no such size.
    """
    name, *numbers = spec.strip().lower().split(":")
    if name not in _KINDS or len(numbers) > 2 or not all(number.isdigit() for number in numbers):  # noqa: PLR2004
        raise UsageError(f"{spec!r} names no environment; there are {_KNOWN}.")
    found = _KINDS[name](*map(int, numbers), count=count, split=split)
    if not found.worlds:
        raise UsageError(f"{spec!r} has no instance of the split {split!r}.")
    return found


def _sokoban(size: int = 6, boxes: int = 2, *, count: int, split: str) -> Suite:
    name = f"sokoban:{size}:{boxes}"

    def made(number: int, instance: rooms.Instance) -> Made:
        task = f"{name}/{split}/{number}"

        def make(rules: Rules, style: Style, method: Method) -> World:
            return sokoban(task, Sokoban(instance.room, instance.start), rules, style, method)

        return make

    drawn = itertools.islice(rooms.instances(size, boxes, split=split), count)
    return Suite(name, tuple(itertools.starmap(made, enumerate(drawn))), Shortest)


def _minesweeper(size: int = 6, mines: int = 3, *, count: int, split: str) -> Suite:
    name = f"minesweeper:{size}:{mines}"

    def made(number: int, instance: boards.Instance) -> Made:
        task = f"{name}/{split}/{number}"

        def make(rules: Rules, style: Style, method: Method) -> World:
            return minesweeper(task, MineSweeper(instance.board), rules, style, method)

        return make

    drawn = itertools.islice(boards.instances(size, mines, split=split), count)
    return Suite(name, tuple(itertools.starmap(made, enumerate(drawn))), lambda: Safest(mines))


_KINDS: dict[str, Callable[..., Suite]] = {"sokoban": _sokoban, "minesweeper": _minesweeper}
_KNOWN = "minesweeper[:SIZE[:MINES]] and sokoban[:SIZE[:BOXES]]"
