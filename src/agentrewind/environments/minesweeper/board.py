"""The rules: cells are bits of an integer, row by row; a set of cells is an integer."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Board:
    """A size, where the mines are, and the cell that is revealed before the player begins."""

    size: int
    mines: int
    first: int
    """A number, not a set."""

    @property
    def safe(self) -> int:
        return everything(self.size) & ~self.mines

    def clue(self, cell: int) -> int:
        """How many neighbours of `cell` hold a mine."""
        return (neighbours(self.size)[cell] & self.mines).bit_count()

    def reveal(self, revealed: int, cell: int) -> int:
        """The set revealed after `cell` is: with a clue of 0 its neighbours follow, and theirs."""
        around = neighbours(self.size)
        waiting = 1 << cell
        while waiting:
            bit = waiting & -waiting
            waiting ^= bit
            revealed |= bit
            here = bit.bit_length() - 1
            if not bit & self.mines and not around[here] & self.mines:
                waiting |= around[here] & ~revealed
        return revealed


@functools.cache
def everything(size: int) -> int:
    return (1 << size * size) - 1


@functools.cache
def neighbours(size: int) -> tuple[int, ...]:
    """For each cell the set of the up to eight around it."""
    return tuple(_around(size, *divmod(cell, size)) for cell in range(size * size))


def _around(size: int, row: int, column: int) -> int:
    rows = range(max(row - 1, 0), min(row + 2, size))
    columns = range(max(column - 1, 0), min(column + 2, size))
    return sum(1 << r * size + c for r in rows for c in columns if (r, c) != (row, column))


def cells(members: int) -> Iterator[int]:
    """The numbers of the cells of a set, lowest first."""
    while members:
        bit = members & -members
        members ^= bit
        yield bit.bit_length() - 1
