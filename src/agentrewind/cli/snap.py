"""`agentrewind snap`: snapshots of any directory, by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import click
from rich.text import Text

from agentrewind.cli.columns import Cell, show_columns
from agentrewind.cli.differing import show_files
from agentrewind.cli.drift import drift_option, told_if_interrupted
from agentrewind.cli.options import confirm, dry_run_option, home_option, json_option, yes_option
from agentrewind.cli.reports import show_report, told
from agentrewind.cli.screen import err, out, progress, sentence
from agentrewind.compose.differences import NOW, snapshot_difference
from agentrewind.compose.home import LAST, Home
from agentrewind.compose.places import workspace_path
from agentrewind.compose.runs import settle_if_possible
from agentrewind.compose.worlds import open_world
from agentrewind.core.errors import SnapshotNotFound, StoreError
from agentrewind.core.sizes import size
from agentrewind.core.world import RestoreReport, Snapshot, SnapshotId
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.ui.facts import files_facts, report_facts, snapshot_facts
from agentrewind.ui.text import as_json, local_time, one_line, plural, printable, short_id

HEADER = ("snapshot", "when", "paths", "size", "changed", "label", "saved by")

directory_argument = click.argument("directory", metavar="[DIR]", default=".")


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog="Example: agentrewind snap create")
def command() -> None:
    """Save and restore any directory by hand, without an agent.

    The snapshots lie outside of the directory, in the user's data directory, together with those of the runs there. ID
    is the id of a snapshot, the beginning of one, or `last`: the newest that somebody saved by hand, and where there is
    none the newest of a run. What a restore saves by itself, before it touches anything, is marked in the list.
    """


@command.command(epilog="Example: agentrewind snap create . --label 'before the upgrade'")
@directory_argument
@click.option("--label", default="", help="A word for the list.")
@click.option("--encrypt", is_flag=True, help="Encrypt the store that is made, with your key (see the documentation).")
@home_option
@json_option
def create(directory: str, label: str, encrypt: bool, allow_home: bool, as_object: bool) -> None:
    """Save the present state of a directory."""
    with _writing(directory, allow_home=allow_home, encrypt=encrypt) as world:
        try:
            snapshot = world.snapshot(label, own=True)
        except KeyboardInterrupt:
            sentence("Snapshots from before are as they were; `agentrewind snap create` begins anew.", err())
            raise
    if as_object:
        print(as_json(snapshot_facts(snapshot)))
        return
    console = out()
    coverage = snapshot.coverage
    console.print(f"snapshot {short_id(snapshot.id)}: {plural(coverage.entries, 'path')}, {size(coverage.bytes)}")
    for gap in (*coverage.unreadable, *coverage.too_large, *coverage.unstable):
        console.print(Text(f"  not saved as it is: {printable(gap.path)}: {one_line(gap.why)}", style="yellow"))


@command.command("list", epilog="Example: agentrewind snap list")
@directory_argument
@json_option
def list_(directory: str, as_object: bool) -> None:
    """List the snapshots of a directory, oldest first."""
    with _reading(directory) as world:
        found = world.snapshots()
        rows = [_row(world, item) for item in found]
    if as_object:
        print(as_json([snapshot_facts(snapshot) for snapshot in found]))
    else:
        show_columns([HEADER, *rows], out(), flexible=5, right=(2, 3, 4), header=True)


@command.command(epilog="Example: agentrewind snap diff last now")
@click.argument("a")
@click.argument("b")
@directory_argument
@json_option
def diff(a: str, b: str, directory: str, as_object: bool) -> None:
    """Compare two snapshots, or a snapshot and `now`."""
    with _reading(directory) as world:
        files, total = snapshot_difference(world, *(ref if ref == NOW else _named(world, ref) for ref in (a, b)))
    if as_object:
        print(as_json({"a": a, "b": b, "total": total, "files": files_facts(files)}))
    else:
        show_files(files, total, out())


@command.command(epilog="Example: agentrewind snap restore last --dry-run")
@click.argument("snapshot", metavar="ID")
@directory_argument
@dry_run_option
@drift_option
@click.option("--accept-incomplete", is_flag=True, help="Also where the snapshot lacks paths that could not be read.")
@yes_option
@home_option
@json_option
def restore(
    *,
    snapshot: str,
    directory: str,
    dry_run: bool,
    keep_drift: bool | None,
    accept_incomplete: bool,
    yes: bool,
    allow_home: bool,
    as_object: bool,
) -> None:
    """Make a directory equal to a snapshot, touching only what differs. What is there now is saved first.

    That goes for what changed since anything was saved here, too: with --keep-drift it stays as it is.
    """
    restored = partial(_restored, snapshot=snapshot, keep_drift=bool(keep_drift), accept_incomplete=accept_incomplete)
    if dry_run:
        with _reading(directory) as world:
            told(_pending(world))
            plan = restored(world, dry_run=True)
        print(as_json(report_facts(plan))) if as_object else show_report(plan, out())
        return
    with _writing(directory, allow_home=allow_home) as world:
        if not yes:
            plan = restored(world, dry_run=True)
            if plan.acts:
                show_report(plan, err())
                confirm(f"Change {plural(len(plan.acts), 'path')} in {world.root}?")
        with told_if_interrupted(world, f"agentrewind snap restore {snapshot}"):
            report = restored(world, dry_run=False)
    if as_object:
        print(as_json(report_facts(report)))
    else:
        show_report(report, out(), undo=f"agentrewind snap restore {short_id(report.live)}")


def _restored(
    world: WorkspaceWorld, *, snapshot: str, dry_run: bool, keep_drift: bool, accept_incomplete: bool
) -> RestoreReport:
    return world.restore(
        _named(world, snapshot), dry_run=dry_run, accept_incomplete=accept_incomplete, keep_drift=keep_drift
    )


@contextmanager
def _reading(directory: str) -> Iterator[WorkspaceWorld]:
    home = Home.of()
    root = workspace_path(directory, home, allow_home=True)
    if not home.store_of(root).is_dir():
        raise SnapshotNotFound(f"Nothing has been saved of {root} yet. `agentrewind snap create` does that.")
    with closing(open_world(home, root, reading=True)) as world:
        yield world


@contextmanager
def _writing(directory: str, *, allow_home: bool, encrypt: bool = False) -> Iterator[WorkspaceWorld]:
    """The world, with whatever a crash had left half-restored finished."""
    home = Home.of()
    root = workspace_path(directory, home, allow_home=allow_home)
    with (
        progress("snapshot") as step,
        closing(open_world(home, root, holder="agentrewind snap", progress=step, encrypt=encrypt)) as world,
    ):
        told(settle_if_possible(home, world, root))
        yield world


def _pending(world: WorkspaceWorld) -> list[str]:
    try:
        found = world.pending
    except StoreError as error:
        return [str(error)]
    if found is None:
        return []
    line = (
        f"A restore to snapshot {found.target} was cut off, so the files may be a mixture. It is finished before"
        f" another one begins, if that can be done. What was there before it is snapshot {found.live}."
    )
    return [line]


def _named(world: WorkspaceWorld, ref: str) -> SnapshotId:
    if ref != LAST:
        return world.find(SnapshotId(ref)).id
    found = world.snapshots()
    if not found:
        raise SnapshotNotFound(f"Nothing has been saved of {world.root} yet. `agentrewind snap create` does that.")
    asked_for = [item for item in found if not item.automatic] or found
    return next((item for item in reversed(asked_for) if world.by_hand(item.id)), asked_for[-1]).id


def _row(world: WorkspaceWorld, item: Snapshot) -> tuple[Cell, ...]:
    saved_by = "a restore" if item.automatic else "" if world.by_hand(item.id) else "a run"
    return (
        short_id(item.id),
        local_time(item.created_ns),
        f"{item.coverage.entries:,}",
        size(item.coverage.bytes),
        f"{item.changes.total:,}",
        printable(item.label if item.coverage.complete else f"{item.label} (incomplete)".strip()),
        saved_by,
    )
