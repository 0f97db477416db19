"""MineSweeper in words."""

from __future__ import annotations

from agentrewind.learn.prompts.shared import Saying


def saying(size: int, mines: int) -> Saying:
    """Rows and columns are counted from 1."""
    game = (
        f"You play MineSweeper on {size} by {size} cells with {mines} hidden mines. Cells are"
        f" written (row, column), both from 1 to {size}.\n"
        "On the board ? is a closed cell, . an open one with no mine around it, a digit an open one with so many"
        " mines among its up to eight neighbours, * a mine that was revealed.\n"
        "The board is solved when every cell without a mine is open. Revealing a cell with no mine around it opens"
        " its neighbours too. Revealing a mine ends the attempt. Revealing an open cell does nothing and counts."
    )
    about = "mines found, cells proven safe or mined by the clues"
    return Saying(game, f"minesweeper {size} mines {mines}", EXAMPLE, about, "Reveal one closed cell.", drawn)


def drawn(board: str) -> str:
    """The board, and once more with its closed cells by name: to a small model that reads from left to right each
    choice then comes after all clues around it, and has a word of its own.
    """
    symbols = board.split()
    size = int(len(symbols) ** 0.5)
    named = [
        f"({cell // size + 1},{cell % size + 1})" if symbol == "?" else symbol for cell, symbol in enumerate(symbols)
    ]
    rows = (" ".join(named[first:][:size]) for first in range(0, len(named), size))
    return "\n".join((board, *rows))


EXAMPLE = (
    "What the clues prove safe or mined decides. An action looks like <action>(2,3)</action>; only the last action tag"
    " of an answer counts."
)
