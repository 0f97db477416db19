"""What is needed of a simulator of ScienceWorld. The real one runs in Java: `agentrewind.integrations.scienceworld`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrewind.core.codec import Json


@dataclass(frozen=True, slots=True)
class Task:
    """One instance: a task, one of its variations, and the simplifications that it is played with."""

    name: str
    variation: int
    simplifications: str = "easy"


@dataclass(frozen=True, slots=True)
class Told:
    """What a simulator tells after a command."""

    answer: str
    taken: bool
    """False for a command that it doesn't know; then nothing has changed, and no time has passed."""
    score: int
    """0 to 100, or below 0 where the task has failed for good."""
    ended: bool
    things: tuple[str, ...] = ()
    """What can stand for `OBJ` in a command, sorted."""
    numbers: tuple[str, ...] = ()
    """Where the answer asks which of several things was meant: the answers that it takes."""


class Simulator(Protocol):
    """One game at a time."""

    def begin(self, task: Task) -> Told:
        """Go to the initial state of a task."""

    def act(self, command: str) -> Told:
        """Give one command."""

    def world(self) -> Json:
        """Every thing there is, as nested objects: the present one of `uuid`, properties, and `contents` by name."""

    def progress(self) -> str:
        """How far each part of the task is."""

    def description(self) -> str:
        """What the task asks for."""

    def templates(self) -> Sequence[str]:
        """The forms of commands, `OBJ` standing for a thing."""

    def valid(self) -> Sequence[str]:
        """Commands that make sense in the present state. Slow: it tries every pair of things.

        It draws from the random numbers of the game: who wants to go on as if nothing was asked has to begin anew.
        """


class Stage(Protocol):
    """Where simulators come from. There may be fewer than players: who was away finds it as another one left it."""

    def simulator(self, player: object) -> tuple[Simulator, bool]:
        """One for this player, and whether nobody else has used it since he had it."""

    def gold(self, task: Task) -> Sequence[str]:
        """Commands that solve a task, as its authors have them."""
