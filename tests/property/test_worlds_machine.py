"""Random checkpoints, steps and restores of the native worlds beside models of them; 10,000 a world by `make worlds`.

The models of MineSweeper and Sokoban know the rules from here: sets of cells, flooding by recursion, and what can still
be solved by playing every state of a room forwards. That of ALFWorld is a second game, played from its beginning by the
actions of the path; `make alfworld` compares the official engine. `AGENTREWIND_SEQUENCES` says how many sequences.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest

from agentrewind.core.environment import IllegalAction
from agentrewind.environments.alfworld import files
from agentrewind.environments.alfworld.game import AlfWorld
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.sokoban import instances as rooms
from agentrewind.environments.sokoban.game import Sokoban
from tests.households import TASKS, household

SEQUENCES = int(os.environ.get("AGENTREWIND_SEQUENCES", "150"))
INSTANCES = 40
LENGTH = 24
Cell = tuple[int, int]
Seen = tuple[str, str | None, list[Any]]


class Model(Protocol):
    def seen(self, path: Sequence[Any]) -> Seen:
        """Observation, outcome and legal actions after a path from the beginning."""


@dataclass
class Mines:
    size: int
    mines: frozenset[Cell]
    first: Cell

    def seen(self, path: Sequence[Cell]) -> Seen:
        opened: set[Cell] = set()
        for cell in (self.first, *path):
            self.open(cell, opened)
        cells = [(row, column) for row in range(1, self.size + 1) for column in range(1, self.size + 1)]
        outcome = self.outcome(opened, len(cells))
        return self.drawn(opened), outcome, [] if outcome else [cell for cell in cells if cell not in opened]

    def open(self, cell: Cell, opened: set[Cell]) -> None:
        if cell in opened:
            return
        opened.add(cell)
        if cell not in self.mines and not self.clue(cell):
            for other in self.around(cell):
                self.open(other, opened)

    def around(self, cell: Cell) -> list[Cell]:
        near = [(cell[0] + r, cell[1] + c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]
        return [(r, c) for r, c in near if 1 <= r <= self.size and 1 <= c <= self.size]

    def clue(self, cell: Cell) -> int:
        return sum(other in self.mines for other in self.around(cell))

    def outcome(self, opened: set[Cell], cells: int) -> str | None:
        if opened & self.mines:
            return "failed"
        return "solved" if len(opened) == cells - len(self.mines) else None

    def drawn(self, opened: set[Cell]) -> str:
        def symbol(cell: Cell) -> str:
            if cell not in opened:
                return "?"
            return "*" if cell in self.mines else str(self.clue(cell)).replace("0", ".")

        rows = range(1, self.size + 1)
        return "\n".join(" ".join(symbol((row, column)) for column in rows) for row in rows)


WAYS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
Spot = tuple[Cell, frozenset[Cell]]


@dataclass
class Boxes:
    height: int
    width: int
    floor: frozenset[Cell]
    targets: frozenset[Cell]
    start: Spot
    solvable: set[Spot] = field(default_factory=set)

    def __post_init__(self) -> None:
        """All states that the start leads to, and of them those from which a move leads to one that can be solved."""
        reached, waiting = {self.start}, [self.start]
        while waiting:
            new = {self.moved(waiting[-1], way) for way in WAYS} - reached
            waiting.pop()
            reached |= new
            waiting += new
        self.solvable = {spot for spot in reached if spot[1] == self.targets}
        while more := {s for s in reached - self.solvable if any(self.moved(s, w) in self.solvable for w in WAYS)}:
            self.solvable |= more

    def moved(self, spot: Spot, way: str) -> Spot:
        (row, column), boxes = spot
        down, right = WAYS[way]
        ahead, beyond = (row + down, column + right), (row + 2 * down, column + 2 * right)
        if ahead not in self.floor:
            return spot
        if ahead not in boxes:
            return ahead, boxes
        return spot if beyond not in self.floor or beyond in boxes else (ahead, boxes - {ahead} | {beyond})

    def seen(self, path: Sequence[tuple[str, ...]]) -> Seen:
        spot = self.start
        for turn in path:
            for way in turn:
                if self.outcome(spot) is None:
                    spot = self.moved(spot, way)
        outcome = self.outcome(spot)
        legal = [(way,) for way in WAYS if self.moved(spot, way) != spot]
        return self.drawn(spot), outcome, [] if outcome else legal

    def outcome(self, spot: Spot) -> str | None:
        if spot[1] == self.targets:
            return "solved"
        return None if spot in self.solvable else "failed"

    def drawn(self, spot: Spot) -> str:
        def symbol(cell: Cell) -> str:
            if cell not in self.floor:
                return "#"
            inside = "P" if cell == spot[0] else "X" if cell in spot[1] else "_"
            return {"P": "S", "X": "√", "_": "O"}[inside] if cell in self.targets else inside

        rows = ([symbol((row, column)) for column in range(self.width)] for row in range(self.height))
        return "\n".join(map(" ".join, rows))


@dataclass
class Again:
    """Another game of the same file."""

    twin: AlfWorld

    def seen(self, path: Sequence[str]) -> Seen:
        self.twin.reset()
        for command in path:
            self.twin.step(command)
        return self.twin.observe(), self.twin.outcome, self.twin.admissible()


@cache
def mines(number: int) -> tuple[Callable[[], Any], Model, list[Any]]:
    board = boards.instance_of(4 + number % 3, 3 + number % 4, f"machine/{number}").board
    cells = [(cell // board.size + 1, cell % board.size + 1) for cell in range(board.size**2)]
    hidden = frozenset(place for cell, place in enumerate(cells) if board.mines >> cell & 1)
    return lambda: MineSweeper(board), Mines(board.size, hidden, cells[board.first]), [(0, 1), (1, board.size + 1)]


@cache
def boxes(number: int) -> tuple[Callable[[], Any], Model, list[Any]]:
    found = rooms.instance_of(6, 1 + number % 2, f"machine/{number}")
    room, floor = found.room, found.room.floor
    held = [
        frozenset(cell for at, cell in enumerate(floor) if of >> at & 1) for of in (room.targets, found.start.boxes)
    ]
    start = (floor[found.start.player], held[1])
    model = Boxes(room.height, room.width, frozenset(floor), held[0], start)
    return lambda: Sokoban(room, found.start), model, [(), ("north",), ("up",) * 4]


@cache
def homes(number: int) -> tuple[Callable[[], Any], Model, list[Any]]:
    game = files.read(_real()[number % len(_real())]) if _real() else _small(number)
    return lambda: AlfWorld(game), Again(AlfWorld(game)), ["", "fly", "go to moon 1"]


@cache
def _real() -> list[Path]:
    root = os.environ.get("ALFWORLD_DATA")
    return list(files.games(files.directory_of("valid_seen", Path(root))))[:INSTANCES] if root else []


def _small(number: int) -> files.Game:
    parts = household(list(TASKS)[number % len(TASKS)])
    return files.game(*(parts[name] for name in ("pddl_domain", "grammar", "pddl_problem", "walkthrough")))


def shown(environment: Any) -> Seen:
    legal = environment.admissible() if isinstance(environment, AlfWorld) else environment.actions()
    return environment.observe(), environment.outcome, list(legal)


def turn_of(environment: Any, legal: Sequence[Any], draws: random.Random) -> Any:
    """A legal action; in Sokoban also several moves at once, walls and all."""
    if isinstance(environment, Sokoban) and draws.random() < 0.4:
        return tuple(draws.choice(list(WAYS)) for _ in range(draws.randint(1, 3)))
    return draws.choice(legal)


@pytest.mark.timeout(36000)
@pytest.mark.parametrize("world", [mines, boxes, homes], ids=["minesweeper", "sokoban", "alfworld"])
def test_random_checkpoints_steps_and_restores_equal_the_model(world: Any) -> None:
    ended = restored = refused = 0
    for sequence in range(SEQUENCES):
        make, model, nonsense = world(sequence % INSTANCES)
        environment, draws = make(), random.Random(sequence)
        path: list[Any] = []
        kept = [(environment.checkpoint(), ())]
        fingerprints = {(): environment.fingerprint()}
        for _ in range(LENGTH):
            seen = shown(environment)
            assert seen == model.seen(path), (sequence, path)
            ended += seen[1] is not None
            act = draws.uniform(0 if seen[2] else 0.65, 1)
            if act < 0.65:
                action = turn_of(environment, seen[2], draws)
                done = environment.step(action)
                path.append(action)
                assert (done.observation, done.outcome) == shown(environment)[:2]
                assert fingerprints.setdefault(tuple(path), environment.fingerprint()) == environment.fingerprint()
            elif act < 0.75:
                kept.append((environment.checkpoint(), tuple(path)))
            elif act < 0.85:
                refused += 1
                with pytest.raises(IllegalAction):
                    environment.step(draws.choice(nonsense))
            else:
                restored += 1
                checkpoint, reached = draws.choice(kept)
                environment.restore(checkpoint)
                path = list(reached)
                assert environment.fingerprint() == fingerprints[reached]
    assert restored > SEQUENCES
    assert refused > SEQUENCES
    assert ended or world is homes
    print(f"{SEQUENCES} sequences, {restored} restores, {refused} refusals, {ended} states in which it had ended")
