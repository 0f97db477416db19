"""The rooms in which the programs of tasks run: sandboxes where they work, else the user's own shell and copies."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentrewind.integrations.sandbox import commands_of, probe
from agentrewind.integrations.sandbox.side import prepare
from agentrewind.integrations.sandbox.spec import Confinement, Sandbox
from agentrewind.tasks.rooms import Room, Rooms, environ, unconfined


def rooms() -> Rooms:
    """What makes rooms on this machine."""
    return confined if probe.bubblewrap().works else unconfined


@contextlib.contextmanager
def confined(workspace: Path, *, at: str, read_only: bool = False, readable: Sequence[Path] = ()) -> Iterator[Room]:
    """A sandbox for each command; `/tmp` and the home directory inside are empty at first and gone afterwards."""
    workspace = workspace.resolve()
    shown = [str(path.resolve()) for path in readable]
    with tempfile.TemporaryDirectory(prefix="agentrewind-room-", ignore_cleanup_errors=True) as side:
        sandbox = Sandbox(
            Confinement("bwrap", readable=tuple(shown), environ=tuple(environ())),
            str(workspace),
            side,
            place=at,
            tools=_interpreter(),
            read_only=read_only,
        )
        prepare(sandbox)
        yield Room(commands_of(sandbox), workspace, at)


def _interpreter() -> tuple[str, ...]:
    """Where the interpreter lies that runs checks, unless the system shows it anyway."""
    prefix = os.path.realpath(sys.base_prefix)
    return () if prefix == "/usr" or prefix.startswith("/usr/") else (prefix,)
