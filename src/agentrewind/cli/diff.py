"""`agentrewind diff`: two steps of a run compared."""

from __future__ import annotations

import click

from agentrewind.cli.differing import show_files, show_messages
from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.screen import out
from agentrewind.compose.differences import difference
from agentrewind.compose.runs import open_run
from agentrewind.ui.facts import files_facts
from agentrewind.ui.text import as_json


@click.command(epilog="Example: agentrewind diff last rec_000003 now")
@run_argument
@click.argument("a")
@click.argument("b")
@json_option
def command(ref: str, a: str, b: str, as_object: bool) -> None:
    """Compare the files and the messages of two steps of a run.

    A and B are the uids of steps and mean the moment just before them; `now` means the workspace as it is. Private
    files are named and never shown.
    """
    run = open_run(ref)
    found = difference(run, a, b)
    if as_object:
        messages = found.messages
        print(
            as_json(
                {
                    "run": run.id,
                    "a": a,
                    "b": b,
                    "total": found.total,
                    "files": files_facts(found.files),
                    "messages": {
                        "same": messages.same,
                        "removed": list(messages.removed),
                        "added": list(messages.added),
                    },
                }
            )
        )
        return
    console = out()
    show_files(found.files, found.total, console)
    show_messages(found.messages, console)
