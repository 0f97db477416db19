"""JavaScript isn't parsed here: what it does can't be said."""

from __future__ import annotations

from agentrewind.effects.findings import Running
from agentrewind.effects.words import State


def read(shell: Running, text: str, words: list[str], state: State) -> None:
    del text, state
    shell.findings.say("unknown", words, "runs code that isn't read")
