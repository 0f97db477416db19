"""`agentrewind resume`: a run goes on."""

from __future__ import annotations

import click

from agentrewind.cli.following import follow
from agentrewind.cli.options import json_option, run_argument
from agentrewind.compose.agents import resume
from agentrewind.compose.runs import open_run


@click.command(epilog="Example: agentrewind resume last")
@run_argument
@json_option
@click.pass_context
def command(ctx: click.Context, ref: str, as_object: bool) -> None:
    """Go on with a run that was cut off, failed, or was rewound: to its end.

    A rewind that a crash cut off is settled first. Then the files are brought to the newest checkpoint (what is there
    now is saved), and the same agent goes on from there with the same settings; the key is read from OPENAI_API_KEY.
    """
    run = open_run(ref)
    ctx.exit(follow(lambda watcher: resume(run, watcher=watcher), as_object=as_object))
