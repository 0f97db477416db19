"""`agentrewind restore`: the files of a checkpoint, without moving the conversation."""

from __future__ import annotations

import click

from agentrewind.cli.facts import report_facts
from agentrewind.cli.options import confirm, dry_run_option, json_option, run_argument, yes_option
from agentrewind.cli.reports import show_report, told
from agentrewind.cli.screen import err, out, progress
from agentrewind.cli.text import as_json, plural
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.world import RestoreReport
from agentrewind.engine import offline


@click.command(epilog="Example: agentrewind restore last rec_000003 --dry-run")
@run_argument
@click.argument("uid")
@dry_run_option
@yes_option
@json_option
def command(ref: str, uid: str, dry_run: bool, yes: bool, as_object: bool) -> None:
    """Bring the files of the workspace to what they were just before a step.

    Only files move; the run itself stays where it is. What is there now is saved first, and `agentrewind undo` brings
    it back.
    """
    run = open_run(ref)
    if dry_run:
        plan = run.restore_files(uid, dry_run=True)
        print(as_json(report_facts(plan))) if as_object else show_report(plan, out())
        return
    node = run.node(uid)
    with progress("restore") as step, run.writing(step) as opened:
        told(opened.settled)
        if not yes:
            _ask(run, offline.restore_files(opened.log, opened.world, node.uid, dry_run=True))
        report = offline.restore_files(opened.log, opened.world, node.uid)
    if as_object:
        print(as_json(report_facts(report)))
    else:
        show_report(report, out(), undo=f"agentrewind undo {run.id}")


def _ask(run: Run, plan: RestoreReport) -> None:
    """Show what would change and have it confirmed. Raises: as `confirm`."""
    if plan.acts:
        show_report(plan, err())
        confirm(f"Change {plural(len(plan.acts), 'path')} in {run.workspace}?")
