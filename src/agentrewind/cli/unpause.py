"""`agentrewind unpause`: a run that was paused goes on."""

from __future__ import annotations

import click

from agentrewind.cli.options import run_argument
from agentrewind.cli.screen import out, sentence
from agentrewind.compose import asking
from agentrewind.compose.runs import open_run


@click.command(epilog="Example: agentrewind unpause last")
@run_argument
def command(ref: str) -> None:
    """Let a run go on that `agentrewind pause` made wait."""
    run = open_run(ref)
    asking.unpause(run)
    sentence(f"The run {run.id} goes on.", out())
