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
from agentrewind.learn.answers import Said, decision
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
    """Follows one trial with a game of its own, by the commands that stand in the context of each call."""

    def __init__(self, game: Game) -> None:
        self._twin = AlfWorld(game)
        self._twin.reset()
        self._path = [self._twin.checkpoint()]
        self._said: list[str] = []
        self._plans: dict[int, Plan | None] = {}

    def best(self, view: View, avoided: frozenset[str], draws: Draws) -> str:
        del avoided
        self._follow(view.checkpoint)
        plan = self._plan(self._path[-1])
        return plan[0] if plan else draws.one(view.actions)

    def worth_leaving(self, seen: Sequence[View]) -> int | None:
        """An earlier state that is so much nearer that going on costs more of the allowance than was spent since."""
        self._follow(seen[-1].checkpoint)
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
        """Nothing; but the context tells what was done since it was built."""
        answers = (message["content"] for message in context if message["role"] == "assistant")
        said = (decision(answer, fenced=True) for answer in answers)
        self._said = [action.text for action in said if isinstance(action, Said)]
        return frozenset()

    def _follow(self, checkpoint: int) -> None:
        """Know the state at `checkpoint`: where the context began, and what was done since."""
        start = max(checkpoint - len(self._said), 0)
        for base in range(checkpoint, start - 1, -1):
            if base < len(self._path):
                done = self._done_since(base, self._said)
                if len(done) - 1 == checkpoint - base:
                    self._path = [*self._path[:base], *done]
                    return

    def _done_since(self, base: int, commands: Sequence[str]) -> list[State]:
        """The state at `base`, and after each of the commands that is admissible."""
        self._twin.restore(self._path[base])
        found = [self._path[base]]
        for command in commands:
            try:
                self._twin.step(command)
            except IllegalAction:
                continue
            found.append(self._twin.checkpoint())
        return found

    def _along(self, branch: BranchView) -> list[State]:
        return self._done_since(0, branch.actions)

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
