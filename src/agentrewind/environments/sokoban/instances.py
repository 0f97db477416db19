"""Rooms by number: carved at random, then played backwards from solved, so that every one can be solved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from agentrewind.core.environment import IllegalAction
from agentrewind.environments.draws import FRUITLESS, Draws, distinct
from agentrewind.environments.sokoban.distances import distances
from agentrewind.environments.sokoban.room import STEPS, Room, State

FLOOR_SHARE = 0.65
"""So much of the inside is carved out."""
TURNS_ROUND = 0.35
"""How often the carver changes its direction."""
SMALLEST = 5
ROOM_FOR_EACH, ROOM = 2, 3
"""Floor cells that a box and its target need, and that the player needs besides."""
NEAREST, FARTHEST = 4, 40
"""In moves from solved: a shorter one is no puzzle, a longer one doesn't fit into the paper's allowance of 20 turns."""


@dataclass(frozen=True, slots=True)
class Instance:
    room: Room
    start: State
    distance: int
    """The fewest moves that solve it."""


def instances(size: int = 6, boxes: int = 2, *, split: str = "test") -> Iterator[Instance]:
    """Distinct instances of one split; none of them in the other split.

    Raises:
        IllegalAction: no such room can be (before the first is drawn).
    """
    _check(size, boxes)
    return distinct(
        split,
        lambda seed: instance_of(size, boxes, seed),
        lambda found: (found.room, found.start),
        lambda found: f"{found.room.height}/{found.room.floor}/{found.room.targets}/{tuple(found.start)}",
    )


def _check(size: int, boxes: int) -> None:
    if size < SMALLEST or boxes < 1 or _floor_cells(size) < ROOM_FOR_EACH * boxes + ROOM:
        raise IllegalAction(f"A room of {size} by {size} cells with {boxes} boxes can't be.")


def _floor_cells(size: int) -> int:
    return math.ceil(FLOOR_SHARE * (size - 2) ** 2)


def instance_of(size: int, boxes: int, seed: str) -> Instance:
    """The instance of a seed: of the first room drawn that leaves something to do.

    Raises:
        IllegalAction: no such room can be, or none was found.
    """
    _check(size, boxes)
    draws = Draws(f"sokoban/{size}/{boxes}/{seed}")
    for _ in range(FRUITLESS):
        floor = _carved(draws, size)
        targets = sum(1 << cell for cell in draws.some(range(len(floor)), boxes))
        room = Room(size, size, floor, targets)
        found = _placed(draws, room)
        if found is not None:
            return found
    raise IllegalAction(f"No room of {size} by {size} cells with {boxes} boxes was found; take a larger one.")


def _placed(draws: Draws, room: Room) -> Instance | None:
    """Boxes and player pulled away from solved: a distance is drawn first, then a state that has it."""
    by_distance: dict[int, list[State]] = {}
    for state, distance in distances(room).items():
        if NEAREST <= distance <= FARTHEST and not state.boxes & room.targets:
            by_distance.setdefault(distance, []).append(state)
    if not by_distance:
        return None
    distance = draws.one(sorted(by_distance))
    return Instance(room, draws.one(sorted(by_distance[distance])), distance)


def _carved(draws: Draws, size: int) -> tuple[tuple[int, int], ...]:
    """A connected floor: where a walker went, who changes its direction now and then."""
    steps = tuple(STEPS.values())
    row, column = 1 + draws.below(size - 2), 1 + draws.below(size - 2)
    step = draws.one(steps)
    floor = {(row, column)}
    while len(floor) < _floor_cells(size):
        if draws.below(100) < TURNS_ROUND * 100:
            step = draws.one(steps)
        row, column = (min(max(value + move, 1), size - 2) for value, move in zip((row, column), step, strict=True))
        floor.add((row, column))
    return tuple(sorted(floor))
