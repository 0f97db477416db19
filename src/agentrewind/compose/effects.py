"""The classifier of a workspace: with the rules of its settings, and what its sandbox keeps commands from."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentrewind.compose.places import user_home
from agentrewind.compose.secret import SETTINGS_FILE
from agentrewind.core.effects import Annotations, Confinement, Mode
from agentrewind.effects.classify import Classifier
from agentrewind.effects.rules import Rules
from agentrewind.engine.effects import Effects
from agentrewind.engine.gate import Ask, Gate
from agentrewind.integrations.sandbox.spec import Sandbox


def effects_of(
    classifier: Classifier,
    mode: Mode | None = None,
    ask: Ask | None = None,
    own: Callable[[str], Annotations | None] = lambda _: None,
) -> Effects:
    """Gives the calls of a run their effects; `own` as in `Effects`. Its process is started at once, before anything
    that a rewind may end.
    """
    with suppress(OSError):
        classifier.worker.start()
    rules = classifier.rules
    return Effects(classifier.call, Gate(mode or rules.mode or "record", rules.held, ask), classifier.worker.pids, own)


def ask_on_terminal(what: str) -> bool | None:
    """Have the person at the terminal decide; None where nobody sits there, or the terminal is another program's."""
    try:
        if not os.isatty(0):
            return None
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            if os.tcgetpgrp(terminal.fileno()) != os.getpgrp():
                return None
            terminal.write(f"\nNo rewind undoes this:\n  {what}\nLet the agent do it? [y/N] ".encode())
            return terminal.readline().strip().lower() in (b"y", b"yes")
    except OSError:
        return None


def kept_from(sandbox: Sandbox | None) -> Confinement:
    """What a sandbox makes impossible: all that it lets be written goes back with the workspace."""
    if sandbox is None or sandbox.confinement.kind == "none":
        return Confinement()
    return Confinement(network=sandbox.confinement.network, outside=False)


def classifier(workspace: Path, confinement: Confinement = Confinement()) -> Classifier:  # noqa: B008 (frozen)
    """Raises: UsageError: the settings are wrong."""
    rules = Rules.load(workspace / SETTINGS_FILE)
    return Classifier.of(workspace, rules, confinement, str(user_home()))
