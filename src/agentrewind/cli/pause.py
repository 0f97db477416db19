"""`agentrewind pause`: a run waits at its next model call."""

from __future__ import annotations

import click

from agentrewind.cli.options import run_argument
from agentrewind.cli.screen import out, sentence
from agentrewind.compose import asking
from agentrewind.compose.runs import open_run


@click.command(epilog="Example: agentrewind pause last")
@run_argument
def command(ref: str) -> None:
    """Let a run wait at its next model call, as long as you like.

    The command or the call that is under way comes to its end; nothing more goes to the model. Meanwhile you can look
    around, change files, or say `agentrewind rewind`. `agentrewind unpause` lets the run go on.
    """
    run = open_run(ref)
    new = asking.pause(run)
    told = "waits at its next model call" if new else "was paused already"
    sentence(f"The run {run.id} {told}. `agentrewind unpause {run.id}` lets it go on.", out())
