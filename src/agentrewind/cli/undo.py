"""`agentrewind undo`: the last rewind or restore taken back."""

from __future__ import annotations

import click

from agentrewind.cli.facts import move_facts
from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.reports import told
from agentrewind.cli.screen import out, progress, sentence
from agentrewind.cli.text import as_json, plural, short_id
from agentrewind.compose.runs import open_run
from agentrewind.core.records import FilesRestored, Rewound
from agentrewind.engine import offline


@click.command(epilog="Example: agentrewind undo last")
@run_argument
@json_option
def command(ref: str, as_object: bool) -> None:
    """Take back the last rewind or restore of a run.

    The files become what they were just before it; after a rewind the conversation does too. What is there now is
    saved first: a second `undo` takes the first one back.
    """
    run = open_run(ref)
    begun = run.tree.intent  # an undo that a crash cut off: finishing it is what is wanted, not undoing it too
    with progress("undo") as step, run.writing(step) as opened:
        told(opened.settled)
        last = opened.log.tree.moves[-1:]
        finished = begun is not None and begun.why == "undo" and bool(opened.settled)
        move = last[0] if finished else offline.undo(opened.log, opened.world)
    if as_object:
        print(as_json(move_facts(move)))
    elif not finished:
        sentence(_sentence(move, _named(last), run.id), out())


def _named(last: list[Rewound | FilesRestored]) -> str:
    """What is taken back, in a word."""
    if not last or last[0].why == "undo":
        return "undo"
    return "rewind" if isinstance(last[0], Rewound) else "restore"


def _sentence(move: Rewound | FilesRestored, what: str, run_id: str) -> str:
    done = f"Took the last {what} back, {plural(move.restored, 'path')} changed."
    if isinstance(move, FilesRestored):
        return f"{done} What was there until now is snapshot {short_id(move.live)}."
    return (
        f"{done} Files and conversation are again where {move.target} had led;"
        f" `agentrewind resume {run_id}` goes on from there."
    )
