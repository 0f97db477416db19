"""Which instances an evaluation plays: `sokoban:7:3`, `minesweeper:6:8`, `alfworld`, `scienceworld:boil`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from agentrewind.core.errors import UsageError
from agentrewind.environments.alfworld import files
from agentrewind.environments.alfworld.game import AlfWorld
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.scienceworld.game import ScienceWorld
from agentrewind.environments.scienceworld.simulator import Task
from agentrewind.environments.sokoban import instances as rooms
from agentrewind.environments.sokoban.game import Sokoban
from agentrewind.integrations.scienceworld import JavaStage
from agentrewind.learn.methods import Method
from agentrewind.learn.rules import Rules
from agentrewind.learn.solvers.alfworld import Walkthrough
from agentrewind.learn.solvers.minesweeper import Safest
from agentrewind.learn.solvers.policies import Solver
from agentrewind.learn.solvers.scienceworld import Gold
from agentrewind.learn.solvers.sokoban import Shortest
from agentrewind.learn.worlds import Style, World, alfworld, minesweeper, scienceworld, sokoban


class Made(Protocol):
    def __call__(self, rules: Rules, style: Style, method: Method) -> World: ...


@dataclass(frozen=True)
class Suite:
    """Instances of one environment. Each is made anew for each trial, since a world has a present state."""

    name: str
    worlds: tuple[Made, ...]
    solver: Callable[[], Solver]
    """One that can play any of them; where there is none, one that plays the first."""
    solvers: tuple[Callable[[], Solver], ...] = ()
    """For each instance its own, where a solver has to know the instance."""
    together: int | None = None
    """So many trials may be under way at once, where a world takes much; None: any number."""
    restores_allowance: bool = True
    """False: the allowance of a path begins anew after a way back (retrospective.md, section 1)."""

    def rules(self, rules: Rules) -> Rules:
        """Rules as this environment has them."""
        return replace(rules, restores_allowance=rules.restores_allowance and self.restores_allowance)

    def solver_of(self, number: int) -> Solver:
        return self.solvers[number]() if self.solvers else self.solver()


def suite(spec: str, count: int, split: str = "test", data: Path | None = None) -> Suite:
    """The first `count` instances that a specification names; `data` is where the games of ALFWorld are.

    Raises:
        UsageError: there is no such environment, or it has no such size.
    """
    if spec.strip().lower().partition(":")[0] == "alfworld":
        return _alfworld(spec.strip().lower(), count, split, data)
    if spec.strip().lower().partition(":")[0] == "scienceworld":
        return _scienceworld(spec.strip().lower(), count, split)
    name, *numbers = spec.strip().lower().split(":")
    if name not in _KINDS or len(numbers) > 2 or not all(number.isdigit() for number in numbers):  # noqa: PLR2004
        raise UsageError(f"{spec!r} names no environment; there are {_KNOWN}.")
    found = _KINDS[name](*map(int, numbers), count=count, split=split)
    if not found.worlds:
        raise UsageError(f"{spec!r} has no instance of the split {split!r}.")
    return found


def _sokoban(size: int = 6, boxes: int = 2, *, count: int, split: str) -> Suite:
    name = f"sokoban:{size}:{boxes}"

    drawn = itertools.islice(rooms.instances(size, boxes, split=split), count)
    games = [functools.partial(Sokoban, instance.room, instance.start) for instance in drawn]
    return Suite(name, _made(sokoban, _numbered(name, split), games), Shortest)


def _minesweeper(size: int = 6, mines: int = 3, *, count: int, split: str) -> Suite:
    name = f"minesweeper:{size}:{mines}"

    drawn = itertools.islice(boards.instances(size, mines, split=split), count)
    games = [functools.partial(MineSweeper, instance.board) for instance in drawn]
    return Suite(name, _made(minesweeper, _numbered(name, split), games), lambda: Safest(mines))


def _alfworld(spec: str, count: int, split: str, data: Path | None) -> Suite:
    _, _, part = spec.partition(":")
    if data is None:
        raise UsageError(
            f"{spec} needs the games of ALFWorld: name their directory by --alfworld-data or ALFWORLD_DATA."
        )
    directory = files.directory_of(part or {"test": "valid_unseen"}.get(split, split), data)
    found = list(itertools.islice(files.games(directory), count))
    if not found:
        raise UsageError(f"There is no {files.FILE} below {directory}.")
    read = [files.read(path) for path in found]
    tasks = [f"alfworld/{directory.name}/{path.parent.relative_to(directory)}" for path in found]

    games = [functools.partial(AlfWorld, game) for game in read]
    solvers = tuple(functools.partial(Walkthrough, game) for game in read)
    worlds = _made(alfworld, tasks, games)
    return Suite(f"alfworld:{directory.name}", worlds, solvers[0], solvers, restores_allowance=False)


def _scienceworld(spec: str, count: int, split: str) -> Suite:
    """One variation of each task, then the next of each; or those of the task that is named."""
    _, _, name = spec.partition(":")
    stage = _stage()
    names = stage.tasks()
    if name and name not in names:
        raise UsageError(f"{name!r} is no task of ScienceWorld; there are {', '.join(names)}.")
    chosen = [name] if name else names[:count]
    parts = [[Task(task, number) for number in stage.variations(task, split)] for task in chosen]
    rounds = itertools.zip_longest(*parts)
    found = list(itertools.islice((task for each in rounds for task in each if task is not None), count))
    games = [functools.partial(ScienceWorld, task, stage) for task in found]
    solvers = tuple(functools.partial(Gold, functools.partial(stage.gold, task)) for task in found)
    worlds = _made(scienceworld, (f"scienceworld/{task.name}/{task.variation}" for task in found), games)
    return Suite(spec, worlds, solvers[0], solvers, together=SIMULATORS)


@functools.cache
def _stage() -> JavaStage:
    """One for this process: it keeps its simulators, and the gold sequences that it has found."""
    return JavaStage(SIMULATORS)


def _numbered(name: str, split: str) -> Iterator[str]:
    return (f"{name}/{split}/{number}" for number in itertools.count())


def _made(play: Callable[..., World], tasks: Iterable[str], games: Iterable[Callable[[], Any]]) -> tuple[Made, ...]:
    """For each task its world, with a game of its own each time."""

    def of(task: str, game: Callable[[], Any]) -> Made:
        def make(rules: Rules, style: Style, method: Method) -> World:
            return play(task, game(), rules, style, method)

        return make

    return tuple(of(task, game) for game, task in zip(games, tasks, strict=False))


_KINDS: dict[str, Callable[..., Suite]] = {"sokoban": _sokoban, "minesweeper": _minesweeper}
_KNOWN = "minesweeper[:SIZE[:MINES]], sokoban[:SIZE[:BOXES]], alfworld[:SPLIT] and scienceworld[:TASK]"
SIMULATORS = 2
"""Of ScienceWorld, in one process; each takes up to half a gigabyte."""
