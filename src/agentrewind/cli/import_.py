"""`agentrewind import`: a run that was made somewhere else."""

from __future__ import annotations

from pathlib import Path

import click

from agentrewind.cli.options import json_option
from agentrewind.cli.screen import progress
from agentrewind.compose.bundles import MOST_BYTES, import_bundle
from agentrewind.compose.home import Home
from agentrewind.compose.places import named
from agentrewind.compose.trajectories import import_trajectory
from agentrewind.core.errors import UsageError
from agentrewind.snapshots.budget import parse_size
from agentrewind.ui.text import as_json, plural, printable


@click.command(epilog="Example: agentrewind import run.bundle --workspace ./their-project")
@click.argument("file", metavar="FILE")
@click.option(
    "--workspace", metavar="DIR", help="A new directory for the files of a bundle (default: ./ID of the run)."
)
@click.option("--max-size", metavar="SIZE", help="What a bundle may be unpacked (default: 16 GiB).")
@json_option
def command(file: str, workspace: str | None, max_size: str | None, as_object: bool) -> None:
    """Take in a run: a bundle of `agentrewind export --bundle`, or a trajectory of mini-SWE-agent (1.1).

    A bundle is checked before anything of it counts: every hash, name and size. Its run can be read, compared and gone
    back in; it can't be resumed, for nothing that comes from elsewhere says what is started here.
    """
    home, source = Home.of(), named(file, "file")
    if not source.is_file():
        raise UsageError(f"There is no file {printable(str(source))}.")
    with source.open("rb") as beginning:
        is_json = beginning.read(1) in (b"{", b"[", b" ", b"\n")
    if is_json:
        _trajectory(home, source, as_object=as_object)
        return
    most = MOST_BYTES if max_size is None else parse_size(max_size)
    to = named(workspace, "workspace") if workspace else None
    with progress("import") as step:
        done = import_bundle(home, source, to, most_bytes=most, progress=step)
    if as_object:
        print(as_json({"run": done.run_id, "workspace": str(done.workspace), "snapshots": done.snapshots}))
        return
    print(
        f"Imported {done.run_id} with {plural(done.snapshots, 'snapshot')}; its files are in {_shown(done.workspace)}."
    )


def _trajectory(home: Home, source: Path, *, as_object: bool) -> None:
    run_id = import_trajectory(home, source)
    if as_object:
        print(as_json({"run": run_id, "workspace": None, "snapshots": 0}))
    else:
        print(f"Imported {run_id}: its messages and commands; a trajectory holds no files to go back to.")


def _shown(path: Path) -> str:
    return printable(str(path))
