"""What was found while a command is read, and how much more of it may be read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agentrewind.core.effects import Effect, EffectClass, Source
from agentrewind.effects.places import DYNAMIC, Place, Where
from agentrewind.effects.words import State

LONGEST = 100
"""How many characters of a command stand in the words for an effect."""
MOST = 20
"""How many effects one call has; what comes after them adds nothing that a reader could use."""
STEPS = 4000
"""How many commands of one text are looked at, those of loops and functions each time."""
DEEPEST = 24
"""How deep texts may lie in one another: substitutions, functions, scripts, make targets."""

BY_PLACE: dict[Where, EffectClass] = {
    "workspace": "workspace",
    "outside": "outside",
    "network": "external",
    "unknown": "unknown",
}


class TooMuch(Exception):
    """The text is too long or too deep to be read to its end."""


class Findings:
    """The effects of one call, each once."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self._steps = 0
        self.depth = 0

    def add(self, effect: Effect) -> None:
        if effect not in self.effects and (len(self.effects) < MOST or effect.survives):
            self.effects.append(effect)

    def say(self, kind: EffectClass, words: Iterable[str], does: str, *, reads: bool = False) -> None:
        self.add(Effect(kind, f"{shown(words)} ({does})" if does else shown(words), reads))

    def place(self, where: Where, words: Iterable[str], does: str) -> None:
        """An effect by where it lands; none where it lands nowhere."""
        if where != "nothing":
            self.say(BY_PLACE[where], words, does)

    def spend(self) -> None:
        """Raises: TooMuch: the budget is used up."""
        self._steps += 1
        if self._steps > STEPS or self.depth > DEEPEST:
            raise TooMuch


def shown(words: Iterable[str]) -> str:
    """A command in one line."""
    text = " ".join(word.replace(DYNAMIC, "…") for word in words)
    text = " ".join(text.split())
    text = text if text.isprintable() else text.encode("unicode_escape", "backslashreplace").decode("ascii")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class Running(Protocol):
    """What carries a command on to the next one."""

    @property
    def place(self) -> Place: ...
    @property
    def findings(self) -> Findings: ...

    def run(self, words: list[str], state: State, stdin: str | None) -> str | None:
        """A command with its arguments; what it prints, None where that can't be known."""

    def text(self, text: str, state: State, stdin: str | None) -> str | None:
        """A shell text; what it prints, None where that can't be known."""

    def file(self, path: str, state: State) -> str | None:
        """What a file of the workspace will hold when this is reached; None where that can't be known."""
