"""`agentrewind store`: what the snapshots take, whether they are sound, and what may go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from agentrewind.cli.columns import show_columns
from agentrewind.cli.options import confirm, dry_run_option, json_option, yes_option
from agentrewind.cli.screen import err, out, progress, sentence
from agentrewind.compose.collecting import Removal, Retention, Stats, collected, preview, stats
from agentrewind.compose.home import Home
from agentrewind.compose.stores import Place, brief, checked, exported, place_of, places
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, UsageError
from agentrewind.core.sizes import size
from agentrewind.snapshots.budget import parse_size
from agentrewind.snapshots.checking import StoreCheck
from agentrewind.snapshots.gc import Collected
from agentrewind.ui.text import as_json, plural, printable, short_id

SHOWN = 20
HEADER = ("snapshots", "size", "runs", "of")

target_argument = click.argument("target", metavar="[DIR|RUN]", default=".")
all_option = click.option("--all", "every", is_flag=True, help="Every store, not only that of one directory.")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]}, epilog="Example: agentrewind store gc --keep-days 30"
)
def command() -> None:
    """Look after the snapshots: what they take, whether they are sound, what may go.

    Each workspace has one store, shared by its runs and by `agentrewind snap`. It is named by the directory, or by a
    run there; without a name it is that of the current directory.
    """


@command.command("list", epilog="Example: agentrewind store list")
@json_option
def list_(as_object: bool) -> None:
    """List the stores: workspace, runs, size."""
    home = Home.of()
    found = [(place, *brief(home, place)) for place in places(home)]
    if as_object:
        print(as_json([{**_named(place), "runs": runs, "bytes": count} for place, runs, count in found]))
    elif not found:
        print("Nothing has been saved yet.")
    else:
        rows = [(size(count), f"{runs:,}", _workspace(place)) for place, runs, count in found]
        show_columns([HEADER[1:], *rows], out(), flexible=2, right=(0, 1), header=True)


@command.command("stats", epilog="Example: agentrewind store stats .")
@target_argument
@all_option
@json_option
def stats_(target: str, every: bool, as_object: bool) -> None:
    """Say what is in a store, and what a collection would free."""
    home = Home.of()
    found = [(place, stats(home, place)) for place in _chosen(home, target, every=every)]
    if as_object:
        print(as_json([{**_named(place), **_stats_facts(item)} for place, item in found]))
        return
    for place, item in found:
        _show_stats(place, item)


@command.command(epilog="Example: agentrewind store check --read-data")
@target_argument
@all_option
@click.option("--read-data", is_flag=True, help="Read every byte that is kept, and compare it with its hash.")
@json_option
@click.pass_context
def check(ctx: click.Context, target: str, every: bool, read_data: bool, as_object: bool) -> None:
    """Check every snapshot of a store. Changes nothing; names each that can't be brought back whole.

    Ends with exit code 1 where something is wrong.
    """
    home = Home.of()
    sound = True
    facts = []
    for place in _chosen(home, target, every=every):
        try:
            with progress("check") as step:
                found = checked(place, read_data=read_data, progress=step)
        except AgentRewindError as error:
            if not every:
                raise
            sound = False
            facts.append({**_named(place), "ok": False, "problems": [str(error)]})
            err().print(printable(str(error)), style="red", soft_wrap=True)
            continue
        sound &= not found.problems
        facts.append({**_named(place), **_check_facts(found)})
        if not as_object:
            _show_check(place, found)
    if as_object:
        print(as_json(facts))
    if not sound:
        ctx.exit(1)


@command.command(epilog="Example: agentrewind store gc --keep-runs 20 --dry-run")
@target_argument
@all_option
@click.option("--keep-runs", type=click.IntRange(0), metavar="N", help="Remove runs, but not the newest N.")
@click.option("--keep-days", type=click.FloatRange(0), metavar="DAYS", help="Remove runs, but not of the last DAYS.")
@click.option("--max-size", metavar="SIZE", help="Then remove the oldest until the store is not larger than SIZE.")
@click.option("--by-hand", is_flag=True, help="Also snapshots made by hand, by --keep-days and --max-size.")
@click.option("--forget-damaged", is_flag=True, help="Also snapshots that can't be read any more.")
@dry_run_option
@yes_option
@json_option
def gc(
    *,
    target: str,
    every: bool,
    keep_runs: int | None,
    keep_days: float | None,
    max_size: str | None,
    by_hand: bool,
    forget_damaged: bool,
    dry_run: bool,
    yes: bool,
    as_object: bool,
) -> None:
    """Give room back: snapshots that no run names any more and, if asked, old runs with theirs.

    Never removed: a run that is going on, what an unfinished restore needs, and what was saved by hand (with
    `agentrewind snap`, or from a program) unless --by-hand is given.
    """
    limit = None if max_size is None else parse_size(max_size)
    if by_hand and keep_days is None and limit is None:
        raise UsageError("--by-hand needs --keep-days or --max-size to say which of them may go.")
    retention = Retention(keep_runs, keep_days, limit, by_hand=by_hand, forget_damaged=forget_damaged)
    home = Home.of()
    facts, failed = [], None
    for place in _chosen(home, target, every=every):
        try:
            facts.append(_gc(home, place, retention, dry_run=dry_run, yes=yes, quiet=as_object))
        except AgentRewindError as error:
            if not every:
                raise
            failed = error
            err().print(f"Left alone: {printable(str(error))}", style="yellow", soft_wrap=True)
    if as_object:
        print(as_json(facts))
    if failed is not None:
        raise click.exceptions.Exit(1)


def _gc(home: Home, place: Place, retention: Retention, *, dry_run: bool, yes: bool, quiet: bool) -> Json:
    planned = preview(home, place, retention)
    if dry_run:
        if not quiet:
            _show_plan(place, planned, out())
        return {**_named(place), **_plan_facts(planned), "dry_run": True}
    if (planned.runs or planned.by_hand) and not yes:
        _show_plan(place, planned, err())
        confirm(f"Remove {_what(planned)} of {_workspace(place)} for good?")
    with progress("gc") as step:
        wanted, done = collected(home, place, retention, planned, step)
    if not quiet:
        _show_done(place, wanted, done)
    return {**_named(place), **_plan_facts(wanted), "before": done.before, "after": done.after, "waiting": done.waiting}


@command.command(epilog="Example: agentrewind store export --git ./history last")
@click.option(
    "--git",
    "directory",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="A directory that doesn't exist yet: the bare repository.",
)
@target_argument
@json_option
def export(directory: Path, target: str, as_object: bool) -> None:
    """Write snapshots out as commits of a bare git repository: all of a directory's, or those of one run.

    Private files are left out. What git can't hold is said in a note of each commit, which `git log` shows.
    """
    home = Home.of()
    place = place_of(home, target)
    with progress("export") as step:
        done = exported(home, place, target, directory, step)
    if as_object:
        gaps = [{"snapshot": gap.path, "why": gap.why} for gap in done.left_out]
        print(as_json({**_named(place), "git": str(directory), "commits": done.commits, "left_out": gaps}))
        return
    for gap in done.left_out:
        err().print(Text(f"  left out: {short_id(gap.path)}: {printable(gap.why)}", style="yellow"), soft_wrap=True)
    print(f"Wrote {plural(done.commits, 'commit')} to {printable(str(directory))}.")


def _chosen(home: Home, target: str, *, every: bool) -> Iterator[Place]:
    if every:
        yield from places(home)
    else:
        yield place_of(home, target)


def _named(place: Place) -> dict[str, Json]:
    return {"store": str(place.directory), "workspace": place.workspace}


def _workspace(place: Place) -> str:
    return printable(place.workspace or place.directory.name)


def _show_stats(place: Place, item: Stats) -> None:
    console = out()
    console.print(_workspace(place), style="bold", overflow="fold")
    secret = ", encrypted" if item.encrypted else ""
    hand = f", {item.by_hand:,} of them made by hand" if item.by_hand else ""
    console.print(f"  {plural(item.snapshots, 'snapshot')} of {plural(item.runs, 'run')}{hand}")
    console.print(f"  {size(item.bytes)} in {plural(item.packs, 'pack')}{secret}, for {size(item.saved)} of files")
    if item.sides:
        console.print(f"  {size(item.sides)} more in the sandboxes of its runs, which go with them")
    if item.unneeded:
        console.print(f"  {size(item.unneeded)} that nothing needs: `agentrewind store gc`")


def _stats_facts(item: Stats) -> dict[str, Json]:
    return {
        "snapshots": item.snapshots, "by_hand": item.by_hand, "runs": item.runs, "packs": item.packs,
        "bytes": item.bytes, "saved": item.saved, "unneeded": item.unneeded, "sandboxes": item.sides,
        "encrypted": item.encrypted,
    }  # fmt: skip


def _show_check(place: Place, found: StoreCheck) -> None:
    for problem in found.problems:
        text = Text(f"snapshot {short_id(problem.snapshot)}: {printable(problem.why)}", style="red")
        err().print(text, overflow="fold", soft_wrap=True)
    whole = found.snapshots - len({problem.snapshot for problem in found.problems})
    how = "read" if found.read else "there"
    counted = f"{plural(found.snapshots, 'snapshot')}, {plural(found.objects, 'content')} {how}"
    if found.problems:
        print(f"{_workspace(place)}: {counted}; {whole:,} can be brought back whole, the others are named above.")
    else:
        print(f"{_workspace(place)} is sound: {counted}.")


def _check_facts(found: StoreCheck) -> dict[str, Json]:
    problems: list[Json] = [{"snapshot": problem.snapshot, "why": problem.why} for problem in found.problems]
    return {
        "ok": not found.problems, "snapshots": found.snapshots, "objects": found.objects, "read": found.read,
        "problems": problems,
    }  # fmt: skip


def _what(planned: Removal) -> str:
    parts = []
    if planned.runs:
        parts.append(plural(len(planned.runs), "run"))
    if planned.by_hand:
        parts.append(f"{plural(len(planned.by_hand), 'snapshot')} made by hand")
    return " and ".join(parts)


def _show_plan(place: Place, planned: Removal, console: Console) -> None:
    console.print(_workspace(place), style="bold", overflow="fold")
    for run_id in planned.runs[:SHOWN]:
        console.print(f"  remove run {run_id}", style="red")
    if len(planned.runs) > SHOWN:
        console.print(f"  and {len(planned.runs) - SHOWN:,} more runs")
    for name in planned.by_hand[:SHOWN]:
        console.print(f"  remove snapshot {short_id(name)}, made by hand", style="red")
    if len(planned.by_hand) > SHOWN:
        console.print(f"  and {len(planned.by_hand) - SHOWN:,} more snapshots made by hand")
    found = planned.found
    sentence(
        f"{plural(len(found.drop), 'snapshot')} of {len(found.drop) + len(found.keep):,} would go, and about"
        f" {size(found.frees)} of {size(found.before)} be free{_and_sides(planned)}. Nothing was touched.",
        console,
    )
    _say_over(planned)


def _and_sides(planned: Removal) -> str:
    return f", and {size(planned.sides)} in sandboxes" if planned.sides else ""


def _say_over(planned: Removal) -> None:
    if planned.over:
        err().print(f"That is still {size(planned.over)} above --max-size: the rest has to stay.", style="yellow")


def _plan_facts(planned: Removal) -> dict[str, Json]:
    return {
        "runs": list(planned.runs), "by_hand": list(planned.by_hand), "snapshots": list(planned.found.drop),
        "frees": planned.found.frees, "sandboxes": planned.sides, "over": planned.over,
    }  # fmt: skip


def _show_done(place: Place, wanted: Removal, done: Collected) -> None:
    gone = f"{plural(len(done.removed), 'snapshot')}"
    runs = f" and {plural(len(wanted.runs), 'run')}" if wanted.runs else ""
    print(
        f"{_workspace(place)}: {gone}{runs} removed; {size(done.before)} before, {size(done.after)} after:"
        f" {size(max(done.before - done.after, 0))} freed{_and_sides(wanted)}."
    )
    if done.waiting:
        err().print(
            f"{size(done.waiting)} more can be freed once the disk has some room: run it again then.", style="yellow"
        )
    _say_over(wanted)
