"""What was found while a command is read, and how much more of it may be read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from agentrewind.core.effects import Effect, EffectClass
from agentrewind.effects.places import DYNAMIC, Place, Where
from agentrewind.effects.words import State

LONGEST = 100
"""How many characters of a command stand in the words for an effect."""
MOST = 20
"""How many effects one call has; what comes after them adds nothing that a reader could use."""
HIDDEN = 5
"""From this length on a value of a file is never shown."""
MOST_HIDDEN = 200
STEPS = 4000
"""How many commands of one text are looked at, those of loops and functions each time."""
SECONDS = 4.0
"""How long one call is read; what was found until then counts."""
DEEPEST = 96
"""How deep texts may lie in one another: substitutions, functions, scripts, make targets."""

BY_PLACE: dict[Where, EffectClass] = {
    "workspace": "workspace",
    "outside": "outside",
    "network": "external",
    "unknown": "unknown",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """A command was evaluated; what it prints, None where that can't be known."""

    output: str | None = ""


class TooMuch(Exception):
    """The text is too long or too deep to be read to its end."""


class Findings:
    """The effects of one call, each once."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self._until = time.monotonic() + SECONDS
        self._steps = 0
        self._hidden: set[str] = set()
        self._in_files = 0
        self._undo = ""
        self._depth = 0

    def add(self, effect: Effect) -> None:
        if effect not in self.effects and (len(self.effects) < MOST or effect.survives):
            self.effects.append(effect)

    def say(self, kind: EffectClass, words: Sequence[str], does: str, *, reads: bool = False) -> None:
        text = shown(_brief(words) if self._in_files else [self._without_hidden(word) for word in words])
        effect = Effect(kind, f"{text} ({does})" if does else text, reads)
        self.add(replace(effect, undo=self._undo) if effect.survives else effect)

    def place(self, where: Where, words: Sequence[str], does: str) -> None:
        """An effect by where it lands; none where it lands nowhere."""
        if where != "nothing":
            self.say(BY_PLACE[where], words, does)

    @contextmanager
    def of_file(self) -> Iterator[None]:
        """What is read in here stands in a file: it may hold what the conversation doesn't, and is said in brief."""
        self._in_files += 1
        try:
            yield
        finally:
            self._in_files -= 1

    @contextmanager
    def undone_by(self, undo: str) -> Iterator[None]:
        """What is found in here can be undone by this shell command; an empty one changes nothing."""
        before = self._undo
        self._undo = undo or before
        try:
            yield
        finally:
            self._undo = before

    def learnt(self, value: str) -> None:
        """A value; where a file is being read it is never shown."""
        if self._in_files:
            self.hide(value)

    def hide(self, text: str) -> None:
        """Never show this text or a line of it: it comes from a file."""
        lines = (line.strip() for line in text.splitlines()[:MOST_HIDDEN])
        self._hidden |= {line for line in lines if len(line) >= HIDDEN}

    def _without_hidden(self, word: str) -> str:
        for text in sorted(self._hidden, key=len, reverse=True):
            word = word.replace(text, DYNAMIC)
        return word

    def spend(self) -> None:
        """Raises: TooMuch: the budget is used up."""
        self._steps += 1
        if self._steps > STEPS or time.monotonic() > self._until:
            raise TooMuch

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """What is read in here lies in what is being read. Raises: TooMuch: it lies too deep."""
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise TooMuch
            yield
        finally:
            self._depth -= 1


def _brief(words: Sequence[str]) -> list[str]:
    """The program and its subcommand."""
    sub = [word for word in words[1:2] if word.replace("-", "").isalpha()]
    return [*words[:1], *sub, *["…"] * (len(words) > 1 + len(sub))]


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

    def data(self, path: str, state: State) -> str | None:
        """As `file`, for what isn't code: it is never shown."""
