"""A room, its states, and one move: floor cells are numbered, a set of them is an integer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from agentrewind.core.environment import IllegalAction

MOVES = ("up", "down", "left", "right")
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
BACK = (1, 0, 3, 2)
"""For each move the number of the one in the other direction."""
WALL, FLOOR, TARGET, BOX, PLAYER, BOX_HOME, PLAYER_HOME = "#_OXP√S"


class State(NamedTuple):
    """Where the player stands, and the set of cells with a box."""

    player: int
    boxes: int


@dataclass(frozen=True)
class Room:
    """What never changes: the floor cells as (row, column) from the top left, 0-based, and which are targets."""

    height: int
    width: int
    floor: tuple[tuple[int, int], ...]
    targets: int

    @cached_property
    def beside(self) -> tuple[tuple[int, int, int, int], ...]:
        """For each cell and move the cell there, or -1 for a wall."""
        number = {place: index for index, place in enumerate(self.floor)}
        rows = []
        for row, column in self.floor:
            up, down, left, right = (number.get((row + r, column + c), -1) for r, c in STEPS.values())
            rows.append((up, down, left, right))
        return tuple(rows)

    def moved(self, state: State, move: int) -> State:
        """The state after one move; the same where a wall, or a box that can't be pushed, is in the way."""
        ahead = self.beside[state.player][move]
        if ahead < 0:
            return state
        if not state.boxes >> ahead & 1:
            return State(ahead, state.boxes)
        beyond = self.beside[ahead][move]
        if beyond < 0 or state.boxes >> beyond & 1:
            return state
        return State(ahead, state.boxes ^ (1 << ahead) ^ (1 << beyond))

    def render(self, state: State) -> str:
        """One row a line, in the symbols of the paper's appendix E.2."""
        grid = [[WALL] * self.width for _ in range(self.height)]
        for number, (row, column) in enumerate(self.floor):
            home = bool(self.targets >> number & 1)
            if number == state.player:
                grid[row][column] = PLAYER_HOME if home else PLAYER
            elif state.boxes >> number & 1:
                grid[row][column] = BOX_HOME if home else BOX
            else:
                grid[row][column] = TARGET if home else FLOOR
        return "\n".join(" ".join(row) for row in grid)


def read(text: str) -> tuple[Room, State]:
    """The inverse of `Room.render`.

    Raises:
        IllegalAction: an unknown symbol, ragged rows, not one player, or not as many boxes as targets.
    """
    rows = [line.replace(" ", "") for line in text.strip().splitlines()]
    if len({len(row) for row in rows}) != 1 or not set("".join(rows)) <= set("#_OXP√S"):
        raise IllegalAction("A room is a rectangle of the symbols # _ O X P √ S.")
    places = [(r, c, symbol) for r, row in enumerate(rows) for c, symbol in enumerate(row) if symbol != WALL]
    floor = tuple((r, c) for r, c, _ in places)
    targets, boxes, players = (_holding(places, symbols) for symbols in ("O√S", "X√", "PS"))
    if players.bit_count() != 1 or targets.bit_count() != boxes.bit_count() or not boxes:
        raise IllegalAction("A room has one player, and as many boxes as targets.")
    return Room(len(rows), len(rows[0]), floor, targets), State(players.bit_length() - 1, boxes)


def _holding(places: list[tuple[int, int, str]], symbols: str) -> int:
    return sum(1 << number for number, (_, _, symbol) in enumerate(places) if symbol in symbols)
