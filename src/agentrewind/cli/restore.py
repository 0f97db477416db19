"""`agentrewind restore`: the files of a checkpoint, without moving the conversation."""

from __future__ import annotations

import click

from agentrewind.cli.drift import drift_option, told_if_interrupted
from agentrewind.cli.options import confirm, dry_run_option, json_option, run_argument, yes_option
from agentrewind.cli.reports import show_report, told
from agentrewind.cli.screen import err, out, progress
from agentrewind.compose.drifted import is_told_apart, of_run
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.world import RestoreReport
from agentrewind.engine import offline
from agentrewind.ui.facts import report_facts
from agentrewind.ui.text import as_json, plural


@click.command(epilog="Example: agentrewind restore last rec_000003 --dry-run")
@run_argument
@click.argument("uid")
@dry_run_option
@drift_option
@yes_option
@json_option
def command(ref: str, uid: str, *, dry_run: bool, keep_drift: bool | None, yes: bool, as_object: bool) -> None:
    """Bring the files of the workspace to what they were just before a step.

    Only files move; the run itself stays where it is. What is there now is saved first, and `agentrewind undo` brings
    it back.

    What changed after the run had ended isn't the agent's: it stays as it is, unless you say --discard-drift. In a run
    that was cut off it can't be told from the agent's work, and is made equal, unless you say --keep-drift.
    """
    run = open_run(ref)
    keep = is_told_apart(run.tree) if keep_drift is None else keep_drift
    if dry_run:
        plan = _rehearsed(run, uid, keep=keep)
        print(as_json(report_facts(plan))) if as_object else show_report(plan, out())
        return
    node = run.node(uid)
    with progress("restore") as step, run.writing(step) as opened:
        told(opened.settled)
        world = of_run(opened.world, opened.log.tree, keep=keep)
        if not yes:
            _ask(run, offline.restore_files(opened.log, world, node.uid, dry_run=True))
        with told_if_interrupted(world, f"agentrewind restore {run.id} {uid}"):
            report = offline.restore_files(opened.log, world, node.uid)
    if as_object:
        print(as_json(report_facts(report)))
    else:
        show_report(report, out(), undo=f"agentrewind undo {run.id}")


def _rehearsed(run: Run, uid: str, *, keep: bool) -> RestoreReport:
    snapshot = run.node(uid).began.snapshot
    if snapshot is None:
        return run.restore_files(uid, dry_run=True)
    with run.reading() as world:
        return of_run(world, run.tree, keep=keep).restore(snapshot, dry_run=True)


def _ask(run: Run, plan: RestoreReport) -> None:
    """Show what would change and have it confirmed. Raises: as `confirm`."""
    if plan.acts:
        show_report(plan, err())
        confirm(f"Change {plural(len(plan.acts), 'path')} in {run.workspace}?")
