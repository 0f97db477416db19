"""Sokoban played by program, from the text of the room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentrewind.environments.draws import Draws
from agentrewind.environments.sokoban.distances import distances, solution
from agentrewind.environments.sokoban.game import TURN
from agentrewind.environments.sokoban.room import MOVES, Room, State, read
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.remarks import STEPS, Remark
from agentrewind.learn.trial import Context

WORTH = 4
"""Moves that an earlier checkpoint must be nearer, to be worth going back to."""


class Shortest:
    """Makes the next moves of a shortest solution. For one trial at a time: it keeps the distances of its room."""

    def __init__(self) -> None:
        self._room: Room | None = None
        self._table: Mapping[State, int] = {}

    def best(self, view: View, avoided: frozenset[str], draws: Draws) -> str:
        del avoided, draws
        return self._turns(view.observation)[0]

    def worth_leaving(self, seen: Sequence[View]) -> int | None:
        """An earlier state that is so much nearer that going on costs more of the allowance than was spent since."""
        left = [self._left(view.observation) for view in seen]
        nearest = min(range(len(left)), key=lambda index: left[index])
        return seen[nearest].checkpoint if left[-1] - left[nearest] >= WORTH else None

    def mistaken(self, branch: BranchView) -> bool:
        before, after = map(self._left, branch.states[-2:])
        return after > before

    def target(self, branch: BranchView) -> int:
        """The state nearest to solved."""
        left = [self._left(state) for state in branch.states[: branch.source]]
        return min(range(len(left)), key=lambda index: left[index])

    def lesson(self, branch: BranchView) -> str:
        return f"never again {branch.actions[-1]} there"

    def remark(self, branch: BranchView, target: int, draws: Draws) -> Remark:
        """The turn that made it unsolvable, and the next ones of a shortest solution from the target."""
        del draws
        avoid = branch.actions[-1:] if branch.trigger == "failed" else ()
        return Remark(tuple(avoid), tuple(self._turns(branch.states[target])[:STEPS]))

    def carried_out(self, view: View, remark: Remark, since: int) -> str | None:
        """The planned turn whose place it is."""
        del view
        return remark.plan[since] if since < len(remark.plan) else None

    def avoided(self, context: Context) -> frozenset[str]:
        del context
        return frozenset()

    def _turns(self, observation: str) -> list[str]:
        room, state = read(observation)
        moves = [MOVES[move] for move in solution(room, self._distances(room), state)]
        return [", ".join(moves[first:][:TURN]) for first in range(0, len(moves), TURN)]

    def _left(self, observation: str) -> int:
        """The fewest moves to solved; more than from anywhere, where there are none."""
        room, state = read(observation)
        table = self._distances(room)
        return table[state] if state in table else max(table.values()) + 1

    def _distances(self, room: Room) -> Mapping[State, int]:
        if room != self._room:
            self._room, self._table = room, distances(room)
        return self._table
