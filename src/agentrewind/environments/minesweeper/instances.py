"""Boards by number: the same ones everywhere, those of a test never among those of the training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentrewind.core.environment import IllegalAction
from agentrewind.environments.draws import Draws, distinct
from agentrewind.environments.minesweeper.board import Board
from agentrewind.environments.minesweeper.reference import solvable

TRIES = 200
"""So many boards are drawn in search of one that deduction alone solves."""


@dataclass(frozen=True, slots=True)
class Instance:
    board: Board
    deducible: bool
    """Whether correct deduction opens it without a guess."""


def instances(size: int = 6, mines: int = 3, *, split: str = "test") -> Iterator[Instance]:
    """Distinct boards of one split.

    Raises:
        IllegalAction: no such board can be (before the first is drawn).
    """
    if size <= 1 or not 1 <= mines < size * size:
        raise IllegalAction(f"A board of {size} by {size} cells with {mines} mines can't be.")
    return distinct(
        split,
        lambda seed: instance_of(size, mines, seed),
        lambda found: found.board,
        lambda found: f"{found.board.size}/{found.board.mines}/{found.board.first}",
    )


def instance_of(size: int, mines: int, seed: str) -> Instance:
    """The board of a seed: one that deduction solves, where `TRIES` draws hold one, else the first drawn."""
    draws = Draws(f"minesweeper/{size}/{mines}/{seed}")
    first: Board | None = None
    for _ in range(TRIES):
        board = _board(draws, size, mines)
        if board.reveal(0, board.first) == board.safe:
            continue  # solved before the player begins
        if solvable(board):
            return Instance(board, deducible=True)
        first = first or board
    if first is None:
        raise IllegalAction(f"No board of {size} by {size} cells with {mines} mines leaves anything to do.")
    return Instance(first, deducible=False)


def _board(draws: Draws, size: int, mines: int) -> Board:
    start, *mined = draws.some(range(size * size), mines + 1)
    return Board(size, sum(1 << cell for cell in mined), start)
