"""`agentrewind tool`: the two tools, for an agent that has only a shell."""

from __future__ import annotations

import os

import click

from agentrewind.compose.home import Home
from agentrewind.compose.tool_program import socket_of
from agentrewind.integrations.tool_program.client import main


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: agentrewind tool commit rec_000003 'The old parser dropped lines; patch the reader instead.'",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="candidates|commit ...")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Go back in the run that this command is started inside of, as its agent.

    `candidates [REASON]` lists the checkpoints. `commit RECORD_UID NOTE [REASON]` asks to go back to one; with `-` as
    NOTE, the note is read from standard input. It is made before the agent's next turn: files and conversation are then
    as they were, and only the note crosses over. What may be done is what the agent's own tools may do, and is counted
    with them.

    Ends with exit code 1 where it isn't done, and says why.
    """
    ctx.exit(main(list(words), str(socket_of(Home.of(), os.environ)), "agentrewind tool"))
