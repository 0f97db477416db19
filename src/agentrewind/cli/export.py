"""`agentrewind export`: a run as plain files for other programs."""

from __future__ import annotations

import click

from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.text import as_json, plural, printable
from agentrewind.compose.home import Home
from agentrewind.compose.places import named
from agentrewind.journal.export import export_records
from agentrewind.journal.reader import read_run


@click.command(epilog="Example: agentrewind export last --records ./records")
@run_argument
@click.option(
    "--records",
    "directory",
    metavar="DIR",
    required=True,
    help="A directory that doesn't exist yet.",
)
@json_option
def command(ref: str, directory: str, as_object: bool) -> None:
    """Write every step of a run as one JSON line, with its messages in full: one file a branch."""
    home = Home.of()
    run_id = home.find(ref)
    to = named(directory, "directory for the records")
    export_records(read_run(home.run_dir(run_id)), to)
    files = sorted(path.name for path in to.iterdir())
    if as_object:
        print(as_json({"run": run_id, "directory": str(to), "files": files}))
    else:
        print(f"Wrote {plural(len(files), 'branch', 'branches')} of {run_id} to {printable(str(to))}.")
