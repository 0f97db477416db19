"""One call read from its name and arguments."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrewind.core.codec import Json
from agentrewind.core.effects import Effect
from agentrewind.effects import tools
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

    def effects(self, name: str, arguments: Json) -> list[Effect]:
        """What was found, with an unknown effect where not all could be read. Empty: it does nothing.

        May take long or end the process (see `grammar`): for the worker.
        """
        findings = Findings()
        try:
            tools.read(Shell(self.place, findings, self.rules), name, arguments, State(cwd=self.place.workspace))
        except (TooMuch, TooLong, RecursionError):
            findings.add(unread(name))
        return findings.effects


def unread(name: str) -> Effect:
    """What is said of a call that isn't read to its end."""
    return Effect("unknown", f"{name[:40]!r}: too long, too deep or too broken to be read to its end")
