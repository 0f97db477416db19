"""ALFWorld played by program: the game's walkthrough, taken up again from wherever mistakes have led.

Unlike the other solvers this one knows the game: without it nobody can tell where things are before they are found.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from agentrewind.core.environment import IllegalAction
from agentrewind.environments.alfworld.files import Game
from agentrewind.environments.alfworld.game import AlfWorld, State
from agentrewind.environments.draws import Draws
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.trial import Context

WORTH = 4
"""Commands that an earlier checkpoint must be nearer, to be worth going back to."""
REPAIRS = 2
"""So many commands may come before a part of the walkthrough leads on."""
FAR = 100
"""The distance of a state from which so few don't."""

Plan = tuple[str, ...]


class Walkthrough:
    """Follows one trial with a game of its own, by the commands that were done."""

    def __init__(self, game: Game) -> None:
        self._twin = AlfWorld(game)
        self._twin.reset()
        self._done: tuple[str, ...] = ()
        self._path = [self._twin.checkpoint()]
        self._plans: dict[int, Plan | None] = {}

    def best(self, view: View, avoided: frozenset[str], draws: Draws) -> str:
        del avoided
        self._follow(view.done)
        plan = self._plan(self._path[-1])
        return plan[0] if plan else draws.one(view.actions)

    def worth_leaving(self, seen: Sequence[View]) -> int | None:
        """An earlier state that is so much nearer that going on costs more of the allowance than was spent since."""
        self._follow(seen[-1].done)
        left = [self._left(state) for state in self._path]
        nearest = left.index(min(left))
        return nearest if left[-1] - left[nearest] >= WORTH else None

    def target(self, branch: BranchView) -> int:
        """The state nearest to won."""
        left = [self._left(state) for state in self._along(branch)[: branch.source]]
        return left.index(min(left))

    def mistaken(self, branch: BranchView) -> bool:
        before, after = (self._left(state) for state in self._along(branch)[-2:])
        return after > before

    def lesson(self, branch: BranchView) -> str:
        return f"{branch.actions[-1]} led away from the task"

    def avoided(self, context: Context) -> frozenset[str]:
        del context
        return frozenset()

    def _follow(self, done: tuple[str, ...]) -> None:
        """Know the state after each command that was done; what hasn't changed since the last time isn't done again."""
        same = next((at for at, pair in enumerate(zip(done, self._done, strict=False)) if pair[0] != pair[1]), None)
        kept = min(len(done), len(self._done)) if same is None else same
        self._path = [*self._path[:kept], *self._states(self._path[kept], done[kept:])]
        self._done = done

    def _states(self, start: State, commands: Sequence[str]) -> list[State]:
        """A state, and the one after each command."""
        self._twin.restore(start)
        found = [start]
        for command in commands:
            self._twin.step(command)
            found.append(self._twin.checkpoint())
        return found

    def _along(self, branch: BranchView) -> list[State]:
        self._follow(branch.actions)
        return self._path

    def _left(self, state: State) -> int:
        plan = self._plan(state)
        return FAR if plan is None else len(plan)

    def _plan(self, state: State) -> Plan | None:
        """Commands that win from a state; None where few repairs don't lead back to the walkthrough."""
        if state.facts not in self._plans:
            tried = itertools.chain.from_iterable(self._repaired(state, repairs) for repairs in range(REPAIRS + 1))
            self._plans[state.facts] = next(tried, None)
        return self._plans[state.facts]

    def _repaired(self, state: State, repairs: int) -> list[Plan]:
        """The shortest plan that begins with so many other commands, or none."""
        if not repairs:
            return self._rest(state)
        self._twin.restore(state)
        found: list[Plan] = []
        for command in self._twin.actions():
            self._twin.restore(state)
            self._twin.step(command)
            found += [(command, *plan) for plan in self._repaired(self._twin.checkpoint(), repairs - 1)]
        return sorted(found, key=len)[:1]

    def _rest(self, state: State) -> list[Plan]:
        """The shortest end of the walkthrough that wins, without what is not admissible (a door that is open)."""
        walkthrough = self._twin.walkthrough
        for begin in range(len(walkthrough), -1, -1):
            self._twin.restore(state)
            plan = tuple(command for command in walkthrough[begin:] if self._moved(command))
            if self._twin.outcome == "solved":
                return [plan]
        return []

    def _moved(self, command: str) -> bool:
        try:
            return self._twin.step(command).moved
        except IllegalAction:
            return False
