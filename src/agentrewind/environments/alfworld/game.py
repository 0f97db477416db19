"""ALFWorld as an environment."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from agentrewind.core.codec import digest
from agentrewind.core.environment import Branch, IllegalAction, Outcome, Transition
from agentrewind.environments.alfworld.commands import Command, applied, local, ways
from agentrewind.environments.alfworld.files import Game
from agentrewind.environments.alfworld.goal import goal
from agentrewind.environments.alfworld.house import house
from agentrewind.environments.alfworld.pddl import problem
from agentrewind.environments.alfworld.texts import intro, told

WON = 10.0
"""`δ` of the decision that wins (retrospective.md, section 6); every other is worth 0."""


class State(NamedTuple):
    """The facts that can change, as one number, and what the last command was answered."""

    facts: int
    observation: str


class AlfWorld:
    """One game. Nothing in it is a failure. A command is text, exactly as the official engine has it."""

    name = "alfworld"

    def __init__(self, game: Game) -> None:
        read = problem(game.problem)
        self.game = game
        self.house = house(read)
        self.goal = goal(read, self.house)
        self._ways = ways(self.house)
        facts = sum(1 << number for fact in read.facts if (number := self.house.number(fact)) is not None)
        self._start = State(facts, intro(self.house, facts, game.task))
        self._known: tuple[int, dict[str, Command]] = (-1, {})
        self._state = self._start

    def reset(self) -> str:
        self._state = self._start
        return self.observe()

    def checkpoint(self) -> State:
        return self._state

    def restore(self, checkpoint: State) -> None:
        self._state = checkpoint

    def fingerprint(self) -> str:
        return digest(["alfworld", self._identity, f"{self._state.facts:x}"])

    def observe(self) -> str:
        """The answer to the last command; at the beginning the room and the task."""
        return self._state.observation

    def actions(self) -> list[str]:
        """The admissible commands that change a fact; looking and examining don't."""
        facts = self._state.facts
        known = self._commands()
        return [text for text in self.admissible() if applied(self.house, facts, known[text]) != facts]

    def admissible(self) -> list[str]:
        """All commands that the official engine takes now, in its order; none once the game is won."""
        return [] if self.outcome is not None else sorted(self._commands())

    def step(self, action: str) -> Transition:
        if self.outcome is not None:
            raise IllegalAction("The game is won; only going back leads on.")
        command = self._commands().get(action)
        if command is None:
            raise IllegalAction(f"{action[:80]!r} is not admissible here; nothing happens.")
        before = self._state.facts
        facts = applied(self.house, before, command)
        self._state = State(facts, told(self.house, facts, command, self.game.help))
        outcome = self.outcome
        return Transition(self.observe(), WON if outcome else 0.0, outcome, moved=facts != before)

    @property
    def outcome(self) -> Outcome | None:
        return "solved" if self.goal.met(self._state.facts) else None

    def progress(self) -> float:
        """The share of the goal that holds now."""
        return self.goal.share(self._state.facts)

    def endpoint_score(self, path: Branch[State]) -> float:
        """The share of the goal at the end."""
        return self.goal.share(path.states[-1].facts)

    def branch_score(self, branch: Branch[State]) -> float:
        """The highest share of the goal on the branch, its anchor included."""
        return max(self.goal.share(state.facts) for state in branch.states)

    @property
    def reference_length(self) -> int | None:
        """How many commands the walkthrough of the game has."""
        return len(self.walkthrough) or None

    @property
    def walkthrough(self) -> Sequence[str]:
        """For the evaluator, and for demonstrations: never shown to a policy."""
        return self.game.walkthrough

    @cached_property
    def _identity(self) -> str:
        return digest([self.game.problem, self.game.task])

    def _commands(self) -> dict[str, Command]:
        """What is admissible in the present state; remembered until the facts change."""
        facts = self._state.facts
        if self._known[0] != facts:
            self._known = (facts, {**self._ways[self.house.here(facts)], **dict(local(self.house, facts))})
        return self._known[1]
