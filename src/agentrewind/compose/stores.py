"""The snapshot stores below the home: which there are, whether they are sound, and writing them out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentrewind.compose.home import Home
from agentrewind.compose.keeping import encryption_of
from agentrewind.compose.runs import Run
from agentrewind.core.errors import UsageError
from agentrewind.core.world import SnapshotId
from agentrewind.journal.format import JOURNAL
from agentrewind.snapshots.budget import Limits, used
from agentrewind.snapshots.checking import StoreCheck, check_store
from agentrewind.snapshots.git_export import Exported, export_git
from agentrewind.snapshots.locking import last_writer
from agentrewind.snapshots.store import Store

HOLDER = "agentrewind store gc"
_HEADER_BYTES = 1 << 20


Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Place:
    """One store, and the workspace whose snapshots it holds; empty where that can't be told."""

    directory: Path
    workspace: str


def place_of(home: Home, ref: str) -> Place:
    """The store of the directory `ref`, or of the workspace of the run that it names.

    Raises:
        UsageError: it is neither, or nothing has been saved there yet.
    """
    if os.path.isdir(ref):
        workspace = Path(os.path.realpath(ref))
    else:
        try:
            workspace = Run(home, home.find(ref)).workspace
        except UsageError as error:
            raise UsageError(f"{ref!r} is neither a directory nor a run: {error}") from error
    store = home.store_of(workspace)
    if not store.is_dir():
        raise UsageError(f"Nothing has been saved of {workspace} yet, so it has no store.")
    return Place(store, str(workspace))


def places(home: Home) -> list[Place]:
    """All stores, by name."""
    try:
        found = sorted(path for path in (home.root / "stores").iterdir() if path.is_dir() and not path.is_symlink())
    except FileNotFoundError:
        return []
    owners = {home.store_of(Path(workspace)): workspace for workspace in workspaces(home).values() if workspace}
    return [Place(path, str(last_writer(path).get("root", "")) or owners.get(path, "")) for path in found]


def workspaces(home: Home) -> dict[str, str | None]:
    """The workspace of each run, as its header says; empty where it has none, None where it can't be read."""
    return {run_id: _workspace(home.run_dir(run_id)) for run_id in home.run_ids()}


def _workspace(run_dir: Path) -> str | None:
    try:
        with open(run_dir / JOURNAL, "rb") as journal:
            line = journal.readline(_HEADER_BYTES)
        return str(json.loads(line)["workspace"]) if line.endswith(b"\n") else ""
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def opened(place: Place, *, writing: bool = False) -> Iterator[Store]:
    """The store, for reading, or alone for writing.

    Raises:
        Busy: somebody saves there now. UsageError: it can't be opened, or its key is missing or wrong.
    """
    store = Store.open(
        place.directory,
        writable=writing,
        holder=HOLDER,
        limits=Limits(min_free=0),
        encryption=encryption_of(place.directory),
    )
    with closing(store):
        yield store


def checked(place: Place, *, read_data: bool, progress: Progress) -> StoreCheck:
    """See `check_store`. Raises: as `opened`."""
    with opened(place) as store:
        return check_store(store, read_data=read_data, progress=progress)


def brief(home: Home, place: Place) -> tuple[int, int]:
    """Number of runs and bytes of a store, without opening it."""
    runs = sum(
        bool(workspace) and home.store_of(Path(str(workspace))) == place.directory
        for workspace in workspaces(home).values()
    )
    return runs, stored(place.directory)


def stored(directory: Path) -> int:
    """Bytes of the store there; 0 where there is none."""
    try:
        return used(directory / "packs")
    except OSError:
        return 0


def exported(home: Home, place: Place, ref: str, to: Path, progress: Progress) -> Exported:
    """The snapshots of `place` as commits in the new repository `to`: all of them, or where `ref` names a run, its own.

    Raises:
        As `opened` and `export_git`.
    """
    run = None if os.path.isdir(ref) else Run(home, home.find(ref))
    with opened(place) as store:
        names, titles = store.names(), {}
        if run is not None:
            titles = _titles(run)
            named = titles.keys() | run.tree.states.keys()
            names = [name for name in names if name in named]
        return export_git(store, names, Path(os.path.abspath(to)), titles=titles, progress=progress)


def _titles(run: Run) -> dict[SnapshotId, str]:
    """What came just after each snapshot."""
    titles: dict[SnapshotId, str] = {}
    for node in run.records():
        if node.began.snapshot is not None:
            digest = "" if node.ended is None else node.ended.digest
            titles.setdefault(node.began.snapshot, f"Before {node.uid}{f': {digest}' if digest else ''}")
    return titles
