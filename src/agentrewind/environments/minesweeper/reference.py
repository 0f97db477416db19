"""The reference length: the fewest reveals with which correct deduction, never a guess, opens the whole board."""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.environments.minesweeper.board import Board, cells, neighbours
from agentrewind.environments.minesweeper.inference import deduce


@dataclass(frozen=True, slots=True)
class Reference:
    """One shortest order of reveals, each provably safe when it is made."""

    reveals: tuple[int, ...]


def reference(board: Board) -> Reference | None:
    """None where the board can't be opened without a guess.

    A cell inside an opening, or a clue at the edge of none, has to be revealed some time, and knowing more never hurts:
    it is revealed as soon as it is safe. Only clues at the edge of a closed opening can be a waste, for the opening
    brings them along; so the search is over those alone, fewest first.
    """
    start = board.reveal(0, board.first)
    if not solvable(board):
        return None
    seen: set[int] = set()
    level: list[tuple[int, tuple[int, ...]]] = [(start, ())]
    while True:
        following: list[tuple[int, tuple[int, ...]]] = []
        for revealed, reveals in level:
            opened, made, optional = _needed(board, revealed, reveals)
            if not board.safe & ~opened:
                return Reference(made)
            for cell in cells(optional):
                grown = board.reveal(opened, cell)
                if grown not in seen:
                    seen.add(grown)
                    following.append((grown, (*made, cell)))
        level = following


def solvable(board: Board) -> bool:
    """Whether revealing whatever is safe, again and again, opens the board."""
    revealed = board.reveal(0, board.first)
    while safe := deduce(board, revealed).safe:
        for cell in cells(safe & ~revealed):
            revealed = board.reveal(revealed, cell)
    return revealed & board.safe == board.safe


def _needed(board: Board, revealed: int, reveals: tuple[int, ...]) -> tuple[int, tuple[int, ...], int]:
    """Reveal what is safe and has to be revealed anyway; the last value is what else would be safe."""
    while True:
        safe = deduce(board, revealed).safe & board.safe
        needed = safe & ~_brought_along(board, revealed)
        if not needed:
            return revealed, reveals, safe
        cell = next(cells(needed))
        revealed, reveals = board.reveal(revealed, cell), (*reveals, cell)


def _brought_along(board: Board, revealed: int) -> int:
    """Clues that a closed opening would reveal."""
    around = neighbours(board.size)
    zeros = [cell for cell in cells(board.safe & ~revealed) if not board.clue(cell)]
    edge = 0
    for cell in zeros:
        edge |= around[cell]
    return edge & ~sum(1 << cell for cell in zeros)
