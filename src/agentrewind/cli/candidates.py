"""`agentrewind candidates`: where one can go back to."""

from __future__ import annotations

import click

from agentrewind.cli.options import json_option, run_argument
from agentrewind.compose.runs import open_run
from agentrewind.core.codec import Json
from agentrewind.engine.candidates import Candidate, candidates, render
from agentrewind.ui.text import as_json, printable


@click.command(epilog="Example: agentrewind candidates last")
@run_argument
@click.option("--limit", type=click.IntRange(min=1), default=80, show_default=True, help="At most so many.")
@json_option
def command(ref: str, limit: int, as_object: bool) -> None:
    """List the checkpoints of the current path, as the agent itself sees them."""
    listing = candidates(open_run(ref).tree, limit=limit)
    if as_object:
        print(as_json({"available": listing.available, "shown": [_facts(item) for item in listing.shown]}))
        return
    for line in render(listing).splitlines():
        print(printable(line))


def _facts(item: Candidate) -> Json:
    return {
        "uid": item.uid,
        "age": item.age,
        "digest": item.digest,
        "calls": list(item.calls),
        "changed": item.changed,
        "changes": [{"status": change.status, "path": change.path} for change in item.changes],
        "satisfied": item.satisfied,
        "total": item.total,
        "same_files_as": item.same_files_as,
        "effects": list(item.effects),
        "complete": item.complete,
    }
