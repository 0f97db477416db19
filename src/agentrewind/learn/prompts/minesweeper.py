"""MineSweeper in words."""

from __future__ import annotations

from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.methods import THINK
from agentrewind.learn.prompts.shared import (
    budgets,
    compact_numbers,
    compact_reflection,
    full_reflection,
    numbers,
)
from agentrewind.learn.rules import Rules
from agentrewind.learn.trial import Context


class MineSweeperWords:
    """Rows and columns are counted from 1."""

    def __init__(self, size: int, mines: int, rules: Rules, style: str, answer: str = THINK) -> None:
        self._size = size
        self._mines = mines
        self._rules = rules
        self._full = style == "full"
        self._answer = answer

    def system(self) -> str:
        if not self._full:
            return f"minesweeper {self._size} mines {self._mines}"
        return f"{self._game()}\n\n{budgets(self._rules)}\n\n{EXAMPLE} {self._answer}"

    def observation(self, view: View) -> str:
        if not self._full:
            return f"{compact_numbers(view)}\n{view.observation}"
        return f"{view.observation}\n{numbers(view)}\nReveal one closed cell."

    def feedback(self, why: str, view: View) -> str:
        return f"{why}\n{numbers(view)}" if self._full else f"invalid {compact_numbers(view)}"

    def memory(self, note: str, target: int) -> str:
        return f"Note from a branch that left C_{target} and was abandoned:\n{note}" if self._full else f"note {note}"

    def reflection(self, branch: BranchView) -> Context:
        about = "mines found, cells proven safe or mined by the clues"
        system = f"{self._game()}\n\nYou look back on a branch of your own play." if self._full else "reflect"
        user = full_reflection(branch, about) if self._full else compact_reflection(branch)
        return ({"role": "system", "content": system}, {"role": "user", "content": user})

    def _game(self) -> str:
        return (
            f"You play MineSweeper on {self._size} by {self._size} cells with {self._mines} hidden mines. Cells are"
            f" written (row, column), both from 1 to {self._size}.\n"
            "On the board ? is a closed cell, . an open one with no mine around it, a digit an open one with so many"
            " mines among its up to eight neighbours, * a mine that was revealed.\n"
            "The board is solved when every cell without a mine is open. Revealing a cell with no mine around it opens"
            " its neighbours too. Revealing a mine ends the attempt. Revealing an open cell does nothing and counts."
        )


EXAMPLE = (
    "What the clues prove safe or mined decides. An action looks like <action>(2,3)</action>; only the last action tag"
    " of an answer counts."
)
