"""`agentrewind rewind`: a person brings a run back to a checkpoint, whether its agent is alive or not."""

from __future__ import annotations

import time

import click

from agentrewind.cli.drift import drift_option, told_if_interrupted
from agentrewind.cli.moves import told_by
from agentrewind.cli.options import confirm, dry_run_option, json_option, run_argument, yes_option
from agentrewind.cli.reports import show_gaps, show_report, told
from agentrewind.cli.screen import err, out, progress, sentence
from agentrewind.cli.summary import goes_on
from agentrewind.compose import asking
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.errors import RewindRefused, UsageError
from agentrewind.core.records import Rewound
from agentrewind.core.world import RestoreReport
from agentrewind.engine import offline
from agentrewind.engine.candidates import candidates, render
from agentrewind.engine.rewinder import Wish
from agentrewind.ui.facts import move_facts, rehearsal_facts
from agentrewind.ui.text import as_json, plural, printable

LOOK_S = 0.1
"""How often we look what has become of a request."""
LISTED = 20


@click.command(
    epilog="Example: agentrewind rewind last --to rec_000003 --note 'Keep the old parser; only fix the test.'"
)
@run_argument
@click.option("--to", "uid", metavar="UID", help="The checkpoint: the moment just before that model call.")
@click.option("--note", metavar="TEXT", help="What the agent is told when it goes on from there.")
@dry_run_option
@drift_option
@yes_option
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Of a run that is alive: wait until it is done."
)
@json_option
def command(
    ref: str,
    uid: str | None,
    note: str | None,
    *,
    dry_run: bool,
    keep_drift: bool | None,
    yes: bool,
    wait: bool,
    as_object: bool,
) -> None:
    """Bring a run back to a checkpoint: files and conversation together.

    A run whose agent is alive is brought back at its next model call, and goes on from there: the agent notices nothing
    but the note. Ctrl-C takes the request back, as long as the run hasn't taken it. A run that has ended is brought
    back at once, and goes on when you resume it. Whatever is there now is saved first; `agentrewind undo` takes the
    rewind of an ended run back.

    Without --to, the checkpoints are listed.
    """
    run = open_run(ref)
    if uid is None:
        _offer(run)
        raise click.exceptions.Exit(2)
    if dry_run and note is None:
        note = "(a rehearsal)"
    if note is None:
        raise UsageError("The agent needs a note to go on from there. Say with --note what it should know.")
    wish = asking.wish_of(run, uid, note)
    keep = keep_drift is not False
    if dry_run:
        _rehearse(run, wish, keep=keep, as_object=as_object)
        return
    if not yes:
        _ask(run, wish, keep=keep)
    if run.alive:
        _ask_for(run, wish, keep=keep, wait=wait, as_object=as_object)
    else:
        _make(run, wish, keep=keep, as_object=as_object)


def _offer(run: Run) -> None:
    """The checkpoints, and how to choose one."""
    listing = candidates(run.tree, limit=LISTED)
    for line in render(listing).splitlines():
        print(printable(line))
    if listing.shown:
        told = f"agentrewind rewind {run.id} --to {listing.shown[-1].uid} --note 'What the agent should know.'"
        sentence(f"Choose one: `{told}`; add --dry-run to see what would change.", err())


# --- beforehand -------------------------------------------------------------------------------------------------------


def _plan(run: Run, wish: Wish, *, keep: bool) -> RestoreReport:
    with progress("looking at the workspace"), run.reading() as world:
        return asking.rehearsed(world, run, wish.target, keep_drift=keep)


def _rehearse(run: Run, wish: Wish, *, keep: bool, as_object: bool) -> None:
    plan = _plan(run, wish, keep=keep)
    if as_object:
        print(as_json(rehearsal_facts(run, wish.target, plan)))
        return
    _say_more(asking.outside(run, wish.target), asking.in_the_way(run, wish.target))
    show_report(plan, out())


def _say_more(outside: asking.Outside, processes: list[str]) -> None:
    for what in outside.undone:
        sentence(f"  would be taken back first: {printable(what)}", err())
    for what in outside.survives:
        sentence(f"  stays done: {printable(what)}", err())
    for process in processes:
        sentence(f"  would be ended, if a tool left it behind: {printable(process)}", err())


def _ask(run: Run, wish: Wish, *, keep: bool) -> None:
    """Show what would happen and have it confirmed. Raises: as `confirm`."""
    show_report(_plan(run, wish, keep=keep), err())
    _say_more(asking.outside(run, wish.target), asking.in_the_way(run, wish.target))
    confirm(f"Bring {run.id} back to before {wish.target}?")


# --- a run that is alive ----------------------------------------------------------------------------------------------


def _ask_for(run: Run, wish: Wish, *, keep: bool, wait: bool, as_object: bool) -> None:
    asked = asking.Asked(run, wish, keep_drift=keep)
    if wait:
        _tell(run, _waited(asked), as_object=as_object)
        return
    asked.put()
    if as_object:
        print(as_json({"request": asked.request.id, "outcome": None}))
    else:
        sentence(f"Asked for: at its next model call the run goes back to before {wish.target}.", out())


def _waited(asked: asking.Asked) -> asking.Outcome:
    told_at: float | None = time.monotonic() + 1.0
    try:
        asked.put()
        while (outcome := asked.outcome()) is None:
            if told_at is not None and time.monotonic() > told_at:
                sentence("Waiting for the agent's next model call. Ctrl-C takes the request back.", err())
                told_at = None
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        late = "The run had taken the request already; `agentrewind log` shows what comes of it."
        sentence("The request is taken back; nothing was touched." if asked.withdraw() else late, err())
        raise
    return outcome


def _tell(run: Run, outcome: asking.Outcome, *, as_object: bool) -> None:
    """Raises: RewindRefused: it came to nothing."""
    again = f"`agentrewind rewind {run.id}` can bring it back as it is now"
    match outcome:
        case Rewound():
            _tell_made(outcome, as_object=as_object)
        case asking.Unheard():
            raise RewindRefused(f"{asking.why_not(outcome)}; {again}.")
        case asking.CutOff():
            raise RewindRefused(f"{asking.why_not(outcome)}; {goes_on(run, run.id)}.")
        case _:
            raise RewindRefused(asking.why_not(outcome))


def _tell_made(move: Rewound, *, as_object: bool) -> None:
    if as_object:
        print(as_json(move_facts(move)))
        return
    show_gaps("left as it is", move.kept, out(), unnamed=move.kept_more)
    for process in move.ended_processes:
        sentence(f"  ended: {printable(process)}", out())
    sentence(
        f"Brought back to before {move.target}{told_by(move)}: {plural(move.restored, 'path')} changed."
        " The agent goes on from there.",
        out(),
    )


# --- a run that has ended ---------------------------------------------------------------------------------------------


def _make(run: Run, wish: Wish, *, keep: bool, as_object: bool) -> None:
    with progress("rewind") as step, run.writing(step) as opened:
        told(opened.settled)
        asking.drop_requests(run, opened.log)
        with told_if_interrupted(opened.world, f"agentrewind undo {run.id}"):
            move = offline.rewind(opened.log, opened.world, wish.target, wish.note, keep_drift=keep)
    if as_object:
        print(as_json(move_facts(move)))
        return
    show_gaps("left as it is", move.kept, out(), unnamed=move.kept_more)
    sentence(
        f"Brought back to before {move.target}{told_by(move)}: {plural(move.restored, 'path')} changed;"
        f" {goes_on(run, run.id)}. `agentrewind undo {run.id}` takes it back.",
        out(),
    )
