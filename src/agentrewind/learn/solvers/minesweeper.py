"""MineSweeper played by program, from the text of the board."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentrewind.environments.draws import Draws
from agentrewind.environments.minesweeper.board import neighbours
from agentrewind.environments.minesweeper.inference import Clue, Knowledge, concluded
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.remarks import STEPS, Remark
from agentrewind.learn.trial import Context

_MINE_AT = re.compile(r"mine at \((\d+),(\d+)\)")


def known(observation: str, mines: int) -> Knowledge:
    """What the text of a board tells a perfect reasoner who knows how many mines there are; a revealed one is known."""
    symbols = observation.split()
    around = neighbours(int(len(symbols) ** 0.5))
    hidden, seen = (_cells_with(symbol, symbols) for symbol in "?*")
    clues = [
        Clue(around[cell] & hidden, int(symbol) - (around[cell] & seen).bit_count())
        for cell, symbol in enumerate(symbols)
        if symbol.isdigit() and around[cell] & hidden
    ]
    return concluded(clues, hidden, mines - seen.bit_count())


def _cells_with(wanted: str, symbols: Sequence[str]) -> int:
    return sum(1 << cell for cell, symbol in enumerate(symbols) if symbol == wanted)


class Safest:
    """Reveals the cell with the lowest risk, as exact inference has it; of equal ones any."""

    def __init__(self, mines: int) -> None:
        self._mines = mines

    def best(self, view: View, avoided: frozenset[str], draws: Draws) -> str:
        risk = known(view.observation, self._mines).risk
        size = int(len(view.observation.split()) ** 0.5)
        named = {_name(cell, size): value for cell, value in risk.items() if _name(cell, size) not in avoided}
        lowest = min(named.values())
        return draws.one([name for name, value in named.items() if value == lowest])

    def worth_leaving(self, seen: Sequence[View]) -> int | None:
        """A safe reveal never hurts: there is nothing to go back for."""
        del seen
        return None

    def target(self, branch: BranchView) -> int:
        """The state just before the mine is as good as any."""
        return branch.source - 1

    def mistaken(self, branch: BranchView) -> bool:
        """A reveal that met no mine has done no harm, proven safe or not."""
        del branch
        return False

    def lesson(self, branch: BranchView) -> str:
        return f"mine at {branch.actions[-1]}" if branch.trigger == "failed" else "nothing was wrong here"

    def remark(self, branch: BranchView, target: int, draws: Draws) -> Remark:
        """The mine that was met, and reveals from the target on: what proved safe on the branch, then what is least
        risky.
        """
        before, after = (branch.states[at].split() for at in (target, branch.source))
        size = int(len(after) ** 0.5)
        opened = [
            cell for cell, pair in enumerate(zip(before, after, strict=True)) if pair[0] == "?" and pair[1] != "?"
        ]
        risk = known(branch.states[branch.source], self._mines).risk
        lowest = min(risk.values(), default=0)
        safe = [cell for cell, value in risk.items() if value == lowest]
        proven = [cell for cell in opened if after[cell] != "*"]
        plan = (proven + draws.some(safe, len(safe)))[:STEPS]
        avoid = branch.actions[-1:] if branch.trigger == "failed" else ()
        return Remark(tuple(avoid), tuple(_name(cell, size) for cell in plan))

    def carried_out(self, view: View, remark: Remark, since: int) -> str | None:
        """The first planned reveal of a cell that is still closed."""
        del since
        return next((action for action in remark.plan if action in view.actions), None)

    def avoided(self, context: Context) -> frozenset[str]:
        """Cells that a note in the context names as mined."""
        return frozenset(f"({row},{column})" for row, column in _MINE_AT.findall(" ".join(_notes(context))))


def _notes(context: Context) -> list[str]:
    return [message["content"] for message in context if message["role"] == "user"]


def _name(cell: int, size: int) -> str:
    return f"({cell // size + 1},{cell % size + 1})"
