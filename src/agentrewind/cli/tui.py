"""`agentrewind tui`: a run in the terminal."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from agentrewind.cli.options import run_argument
from agentrewind.compose.home import Home
from agentrewind.core.errors import UsageError


@click.command(epilog="Example: agentrewind tui last")
@run_argument
def command(ref: str) -> None:
    """Show a run in the terminal: its tree, every step, what changed in the files; and go back from there.

    It follows a run whose agent is alive. Keys stand at the bottom; arrows move, Enter and Esc go in and out.
    """
    home = Home.of()
    run_id = home.find(ref)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("This needs a terminal. `agentrewind log` prints the tree anywhere.")
    if find_spec("textual") is None:
        raise UsageError("The terminal view needs a package: pip install 'agentrewind[tui]'.")
    from agentrewind.ui.terminal import RunTerminal

    RunTerminal(home, run_id).run()
