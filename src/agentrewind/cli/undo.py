"""`agentrewind undo`: the last rewind or restore taken back."""

from __future__ import annotations

import shlex

import click

from agentrewind.cli.drift import drift_option, told_if_interrupted
from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.reports import show_left, told
from agentrewind.cli.screen import out, progress, sentence
from agentrewind.cli.summary import going_on
from agentrewind.compose.drifted import of_run
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.records import FilesRestored, Rewound
from agentrewind.engine import offline
from agentrewind.ui.facts import move_facts, report_facts
from agentrewind.ui.text import as_json, plural, short_id


@click.command(epilog="Example: agentrewind undo last")
@run_argument
@drift_option
@json_option
def command(ref: str, *, keep_drift: bool | None, as_object: bool) -> None:
    """Take back the last rewind or restore of a run.

    The files become what they were just before it; after a rewind the conversation does too. What is there now is
    saved first: a second `undo` takes the first one back. What somebody else changed since is made equal too, unless
    you say --keep-drift.
    """
    run = open_run(ref)
    begun = run.tree.intent  # an undo that a crash cut off: finishing it is what is wanted, not undoing it too
    with progress("undo") as step, run.writing(step) as opened:
        told(opened.settled)
        last = opened.log.tree.moves[-1:]
        finished = begun is not None and begun.why == "undo" and bool(opened.settled)
        world = of_run(opened.world, opened.log.tree, keep=bool(keep_drift))
        with told_if_interrupted(world, _finishing(run)):
            move = last[0] if finished else offline.undo(opened.log, world)
    report = world.reports[-1] if world.reports else None
    if as_object:
        print(as_json({**move_facts(move), "report": None if report is None else report_facts(report)}))
    elif not finished:
        if report is not None:
            show_left(report, out())
        sentence(_sentence(move, _named(last), run), out())


def _finishing(run: Run) -> str:
    """The command that finishes an undo which was cut off."""
    return going_on(run, run.id) or f"agentrewind snap create {shlex.quote(run.started.workspace)}"


def _named(last: list[Rewound | FilesRestored]) -> str:
    """What is taken back, in a word."""
    if not last or last[0].why == "undo":
        return "undo"
    return "rewind" if isinstance(last[0], Rewound) else "restore"


def _sentence(move: Rewound | FilesRestored, what: str, run: Run) -> str:
    done = f"Took the last {what} back, {plural(move.restored, 'path')} changed."
    if isinstance(move, FilesRestored):
        return f"{done} What was there until now is snapshot {short_id(move.live)}."
    way = going_on(run, run.id)
    onward = f"; `{way}` goes on from there" if way else ""
    return f"{done} Files and conversation are again where {move.target} had led{onward}."
