"""`agentrewind fork`: a second run that goes on from a checkpoint, in its own copy of the files."""

from __future__ import annotations

import click

from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.screen import err, out, progress, sentence
from agentrewind.cli.summary import goes_on
from agentrewind.compose import forking
from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.sizes import size
from agentrewind.ui.text import as_json, one_line, path_name, plural

SHOWN = 10


@click.command(epilog="Example: agentrewind fork last --at rec_000003 --into ../second-try")
@run_argument
@click.option("--at", "uid", metavar="UID", required=True, help="The checkpoint: just before that model call.")
@click.option("--into", metavar="DIR", help="A new or empty directory. Default: beside the workspace.")
@json_option
def command(ref: str, uid: str, into: str | None, as_object: bool) -> None:
    """Make a second run out of a checkpoint of a run, in a copy of its files.

    The files come from the snapshot, not from the workspace as it is now. The run that it comes from isn't touched, and
    may be alive. Each of the two goes its own way from here. In the fork one can go back to the point where it was
    forked and to what comes after it.
    """
    run = open_run(ref)
    with progress("fork") as step:
        made = forking.fork(Home.of(), run, uid, forking.place_for(run) if into is None else into, progress=step)
    fork = open_run(made.run_id)
    if as_object:
        found = {"run": made.run_id, "workspace": str(made.workspace), "at": made.at, "from": run.id}
        print(as_json(found | {"shared": made.shared}))
        return
    _say(fork, made)


def _say(fork: Run, made: forking.Fork) -> None:
    for gap in made.left_out[:SHOWN]:
        sentence(f"  not in the copy, or not as it was: {path_name(gap.path)}: {one_line(gap.why)}", err())
    if len(made.left_out) > SHOWN:
        sentence(f"  and {plural(len(made.left_out) - SHOWN, 'path')} more", err())
    if made.shared:
        sentence(f"{size(made.shared)} of the copy share their room on the disk with the first workspace.", out())
    sentence(
        f"Made {made.run_id} in {made.workspace}. It stands just before {made.at}; {goes_on(fork, fork.id)}.", out()
    )
