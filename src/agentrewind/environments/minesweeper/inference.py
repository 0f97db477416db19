"""What a board tells for certain: exact inference over every layout of mines that is consistent with it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from agentrewind.environments.minesweeper.board import Board, cells, everything, neighbours


@dataclass(frozen=True, slots=True)
class Clue:
    """Of the hidden cells in `around`, `mines` hold a mine."""

    around: int
    mines: int


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Sets of hidden cells that are certain, and how likely each hidden cell holds a mine."""

    safe: int
    mined: int
    risk: dict[int, Fraction]
    layouts: int
    """How many layouts are consistent."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """Of a group of cells with `n` mines: how many assignments there are, and in how many each cell is mined."""

    ways: int
    mined: dict[int, int]


def deduce(board: Board, revealed: int) -> Knowledge:
    """What a perfect reasoner knows who sees `revealed` and the number of mines, and not where they are."""
    hidden = everything(board.size) & ~revealed
    left = board.mines.bit_count() - (board.mines & revealed).bit_count()
    return concluded(clues_of(board, revealed), hidden, left)


def concluded(clues: list[Clue], hidden: int, mines: int) -> Knowledge:
    """What these clues tell of the `hidden` cells, of which `mines` hold one."""
    groups = [_assignments(group) for group in _groups(clues)]
    edge = functools.reduce(int.__or__, (clue.around for clue in clues), 0)
    return _joined([*groups, _free(hidden & ~edge, mines)], hidden, mines)


def clues_of(board: Board, revealed: int) -> list[Clue]:
    """One clue for each open cell that has hidden neighbours; an open mine is counted as known."""
    around = neighbours(board.size)
    found = []
    for cell in cells(revealed & board.safe):
        unknown = around[cell] & ~revealed
        if unknown:
            known = (around[cell] & revealed & board.mines).bit_count()
            found.append(Clue(unknown, board.clue(cell) - known))
    return found


def _groups(clues: Iterable[Clue]) -> list[list[Clue]]:
    """Clues that share cells, directly or through others, stand together."""
    groups: list[tuple[int, list[Clue]]] = []
    for clue in clues:
        touching = [group for group in groups if group[0] & clue.around]
        groups = [group for group in groups if not group[0] & clue.around]
        extent = functools.reduce(int.__or__, (group[0] for group in touching), clue.around)
        groups.append((extent, [clue, *(item for group in touching for item in group[1])]))
    return [group[1] for group in groups]


def _assignments(clues: list[Clue]) -> dict[int, _Counts]:
    """Every way to lay mines on the cells of these clues, by how many mines it takes."""
    extent = functools.reduce(int.__or__, (clue.around for clue in clues), 0)
    order = list(cells(extent))
    found: dict[int, list[int]] = {}

    def lay(index: int, laid: int, undecided: int) -> None:
        if any(not _possible(clue, laid, undecided) for clue in clues):
            return
        if index == len(order):
            found.setdefault(laid.bit_count(), []).append(laid)
            return
        bit = 1 << order[index]
        lay(index + 1, laid, undecided & ~bit)
        lay(index + 1, laid | bit, undecided & ~bit)

    lay(0, 0, extent)
    return {
        count: _Counts(len(layouts), {cell: sum(layout >> cell & 1 for layout in layouts) for cell in order})
        for count, layouts in found.items()
    }


def _possible(clue: Clue, laid: int, undecided: int) -> bool:
    have = (clue.around & laid).bit_count()
    return have <= clue.mines <= have + (clue.around & undecided).bit_count()


def _free(members: int, most: int) -> dict[int, _Counts]:
    """Cells that no clue touches: any of them can hold the mines that are left over."""
    size = members.bit_count()
    found = {}
    for count in range(min(size, most) + 1):
        mined = math.comb(size - 1, count - 1) if count else 0
        found[count] = _Counts(math.comb(size, count), dict.fromkeys(cells(members), mined))
    return found


def _joined(groups: list[dict[int, _Counts]], hidden: int, mines: int) -> Knowledge:
    total = _convolved(_ways(group) for group in groups).get(mines, 0)
    mined: dict[int, int] = {}
    for index, group in enumerate(groups):
        rest = _convolved(_ways(other) for place, other in enumerate(groups) if place != index)
        for count, counts in group.items():
            others = rest.get(mines - count, 0)
            for cell, ways in counts.mined.items():
                mined[cell] = mined.get(cell, 0) + ways * others
    safe = sum(1 << cell for cell in cells(hidden) if mined.get(cell, 0) == 0)
    sure = sum(1 << cell for cell in cells(hidden) if mined.get(cell, 0) == total)
    return Knowledge(safe, sure, {cell: Fraction(mined.get(cell, 0), total) for cell in cells(hidden)}, total)


def _ways(group: dict[int, _Counts]) -> dict[int, int]:
    return {count: counts.ways for count, counts in group.items()}


def _convolved(groups: Iterable[dict[int, int]]) -> dict[int, int]:
    """In how many ways groups hold so many mines together."""
    joined = {0: 1}
    for group in groups:
        grown: dict[int, int] = {}
        for have, ways in joined.items():
            for count, more in group.items():
                grown[have + count] = grown.get(have + count, 0) + ways * more
        joined = grown
    return joined
