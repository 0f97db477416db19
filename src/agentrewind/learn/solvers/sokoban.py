"""Sokoban played by program, from the text of the room."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from agentrewind.environments.draws import Draws
from agentrewind.environments.sokoban.distances import distances, solution
from agentrewind.environments.sokoban.game import TURN
from agentrewind.environments.sokoban.room import MOVES, Room, State, read
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.trial import Context

WORTH = 4
"""Moves that an earlier checkpoint must be nearer, to be worth going back to."""

_table = functools.lru_cache(maxsize=64)(distances)


class Shortest:
    """Makes the next moves of a shortest solution."""

    def best(self, view: View, avoided: frozenset[str], draws: Draws) -> str:
        del avoided, draws
        room, state = read(view.observation)
        moves = solution(room, _table(room), state)[:TURN]
        return ", ".join(MOVES[move] for move in moves)

    def worth_leaving(self, seen: Sequence[View]) -> int | None:
        """An earlier state that is so much nearer that going on costs more of the allowance than was spent since."""
        left = [_left(view.observation) for view in seen]
        nearest = min(range(len(left)), key=lambda index: left[index])
        return seen[nearest].checkpoint if left[-1] - left[nearest] >= WORTH else None

    def mistaken(self, branch: BranchView) -> bool:
        before, after = map(_left, branch.states[-2:])
        return after > before

    def target(self, branch: BranchView) -> int:
        """The state nearest to solved."""
        left = [_left(state) for state in branch.states[: branch.source]]
        return min(range(len(left)), key=lambda index: left[index])

    def lesson(self, branch: BranchView) -> str:
        return f"never again {branch.actions[-1]} there"

    def avoided(self, context: Context) -> frozenset[str]:
        del context
        return frozenset()


def _left(observation: str) -> int:
    room, state = read(observation)
    return _distance(room, state)


def _distance(room: Room, state: State) -> int:
    table = _table(room)
    return table.get(state, max(table.values()) + 1)
