"""`agentrewind check`: whether a run can be trusted."""

from __future__ import annotations

import click

from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.screen import err, progress
from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run, verify_snapshots
from agentrewind.core.errors import AgentRewindError
from agentrewind.journal.check import check
from agentrewind.ui.text import as_json, plural, printable


@click.command(epilog="Example: agentrewind check last")
@run_argument
@json_option
@click.pass_context
def command(ctx: click.Context, ref: str, as_object: bool) -> None:
    """Check every line of a run's journal, and read every snapshot that it names. Changes nothing.

    Ends with exit code 1 where something is wrong.
    """
    home = Home.of()
    run_id = home.find(ref)
    problems = [str(problem) for problem in check(home.run_dir(run_id))]
    checked, damaged = _snapshots(home, run_id)
    problems += damaged
    if as_object:
        print(as_json({"run": run_id, "ok": not problems, "snapshots": checked, "problems": problems}))
    else:
        for problem in problems:
            err().print(printable(problem), style="red", overflow="fold", soft_wrap=True)
        if not problems:
            print(f"{run_id} is sound: its journal, and {plural(checked, 'snapshot')}.")
    if problems:
        ctx.exit(1)


def _snapshots(home: Home, run_id: str) -> tuple[int, list[str]]:
    """How many were checked, and what is wrong with them."""
    try:
        run = Run(home, run_id)
        with progress("check") as step:
            return verify_snapshots(run, step)
    except AgentRewindError as error:
        return 0, [str(error)]
