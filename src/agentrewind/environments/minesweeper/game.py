"""MineSweeper as an environment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from agentrewind.core.codec import digest
from agentrewind.core.environment import Branch, IllegalAction, Outcome, Transition
from agentrewind.environments.minesweeper.board import Board, cells, everything
from agentrewind.environments.minesweeper.reference import reference

Cell = tuple[int, int]
"""Row and column, counted from 1."""


@dataclass(frozen=True, slots=True)
class Rewards:
    """`δ` of one reveal (retrospective.md, section 6)."""

    nothing: float = -1.0
    """The cell was open already."""
    single: float = 0.5
    cascade: float = 2.0
    won: float = 10.0
    mine: float = -0.1


class MineSweeper:
    """One board. The state is the set of revealed cells; the mines stay where they are."""

    name = "minesweeper"

    def __init__(self, board: Board, *, rewards: Rewards = Rewards()) -> None:
        if board.mines >> board.first & 1:
            raise IllegalAction("The first cell of this board holds a mine; a board begins with a safe reveal.")
        self.board = board
        self._rewards = rewards
        self._revealed = board.reveal(0, board.first)

    def reset(self) -> str:
        self._revealed = self.board.reveal(0, self.board.first)
        return self.observe()

    def checkpoint(self) -> int:
        return self._revealed

    def restore(self, checkpoint: int) -> None:
        self._revealed = checkpoint

    def fingerprint(self) -> str:
        return digest(["minesweeper", self.board.size, self.board.mines, self._revealed])

    def observe(self) -> str:
        """One row a line: `?` closed, `.` no mine around, a clue, `*` a mine."""
        rows = range(self.board.size)
        return "\n".join(" ".join(self._symbol(row * self.board.size + column) for column in rows) for row in rows)

    def actions(self) -> list[Cell]:
        if self.outcome is not None:
            return []
        return [self._cell(number) for number in cells(everything(self.board.size) & ~self._revealed)]

    def step(self, action: Cell) -> Transition:
        number = self._number(action)
        before = self._revealed
        self._revealed = self.board.reveal(before, number)
        return Transition(self.observe(), self._reward(before), self.outcome, moved=self._revealed != before)

    @property
    def outcome(self) -> Outcome | None:
        if self._revealed & self.board.mines:
            return "failed"
        return "solved" if self._revealed == self.board.safe else None

    def progress(self) -> float:
        """The share of the safe cells that is open; 0 at the beginning of the attempt, 1 when solved."""
        start = self.board.reveal(0, self.board.first)
        closed = (self.board.safe & ~start).bit_count()
        return (self._revealed & self.board.safe & ~start).bit_count() / closed if closed else 1.0

    def endpoint_score(self, path: Branch[int]) -> float:
        """The rewards along the retained path."""
        return sum(path.rewards)

    def branch_score(self, branch: Branch[int]) -> float:
        """The rewards after the anchor."""
        return sum(branch.rewards)

    @cached_property
    def reference_length(self) -> int | None:
        """The fewest reveals under correct deduction; None where the board needs a guess."""
        best = reference(self.board)
        return None if best is None else len(best.reveals)

    def _number(self, action: Cell) -> int:
        row, column = action
        if self.outcome is not None:
            raise IllegalAction(f"The attempt has ended ({self.outcome}); only going back leads on.")
        if not (1 <= row <= self.board.size and 1 <= column <= self.board.size):
            raise IllegalAction(
                f"({row}, {column}) is not on the board; rows and columns go from 1 to {self.board.size}."
            )
        return (row - 1) * self.board.size + column - 1

    def _cell(self, number: int) -> Cell:
        return number // self.board.size + 1, number % self.board.size + 1

    def _reward(self, before: int) -> float:
        opened = (self._revealed & ~before).bit_count()
        if not opened:
            return self._rewards.nothing
        if self.outcome is not None:
            return self._rewards.won if self.outcome == "solved" else self._rewards.mine
        return self._rewards.single if opened == 1 else self._rewards.cascade

    def _symbol(self, number: int) -> str:
        if not self._revealed >> number & 1:
            return "?"
        if self.board.mines >> number & 1:
            return "*"
        return str(self.board.clue(number) or ".")
