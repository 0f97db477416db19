"""One call read from its name and arguments, here or aside, in bounded time."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrewind.core.codec import Json
from agentrewind.core.effects import Effect
from agentrewind.effects import aside, tools
from agentrewind.effects.findings import Findings, TooMuch
from agentrewind.effects.grammar import TooLong
from agentrewind.effects.places import Place
from agentrewind.effects.rules import Rules
from agentrewind.effects.shell import Shell
from agentrewind.effects.words import State


@dataclass(frozen=True, slots=True)
class Reading:
    """What a call is read against."""

    place: Place
    rules: Rules = field(default_factory=Rules)

    def effects(self, name: str, arguments: Json, said: str) -> list[Effect]:
        """What was found, with an unknown effect where not all could be read. Empty: it does nothing."""
        findings = Findings()
        try:
            self.into(findings, name, arguments)
        except TooLong:
            return self._aside(name, arguments, said)
        except (TooMuch, RecursionError):
            findings.add(_too_much(said))
        return findings.effects

    def _aside(self, name: str, arguments: Json, said: str) -> list[Effect]:
        try:
            return aside.read_aside(self, name, arguments)
        except TooMuch:
            return [_too_much(said)]

    def into(self, findings: Findings, name: str, arguments: Json) -> None:
        """Raises: TooMuch, TooLong, RecursionError: it wasn't read to its end."""
        tools.read(Shell(self.place, findings, self.rules), name, arguments, State(cwd=self.place.workspace))


def _too_much(said: str) -> Effect:
    return Effect("unknown", f"{said} (too long or too deep to be read to its end)")
