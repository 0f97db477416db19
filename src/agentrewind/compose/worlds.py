"""Opening the world of a workspace: with its own rules, in its own store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agentrewind.compose import own_keys
from agentrewind.compose.home import Home
from agentrewind.compose.keeping import encryption_of, keeping_of, tell
from agentrewind.compose.room import refuse_if_shared
from agentrewind.compose.secret import SETTINGS_FILE
from agentrewind.integrations.sandbox.spec import SIDES
from agentrewind.snapshots.intent import is_pending
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.sided import SidedWorld
from agentrewind.snapshots.workspace import Durability, WorkspaceWorld

Progress = Callable[[int, int | None], None]
"""Told how many paths were looked at, and of how many where that is known."""


def rules_of(workspace: Path) -> PathRules:
    """The path classes that `agentrewind.toml` in the workspace sets, else the defaults.

    Raises:
        UsageError: it can't be read as settings.
    """
    return PathRules.load(workspace / SETTINGS_FILE)


def open_world(
    home: Home,
    workspace: Path,
    *,
    store: Path | None = None,
    rules: PathRules | None = None,
    reading: bool = False,
    holder: str = "",
    durability: Durability = "process",
    progress: Progress | None = None,
    encrypt: bool = False,
    warn: Callable[[str], None] = tell,
    run_id: str = "",
    shared: bool = False,
) -> WorkspaceWorld:
    """The world of a workspace, and of the sandbox of a run that has one: both are then one state.

    For `reading`, no lease is taken and nothing may be written.
    A restore that a crash cut off is still pending when this returns. A new store is encrypted where `encrypt` or the
    settings of the workspace say so; `warn` is told once when it comes near the limit that they set. `run_id`: whose
    sandbox it is about. `shared`: for one act of a run that shares the workspace.

    Raises:
        UsageError: the settings are wrong, or the key of the store is missing or wrong.
    """
    home.made()
    place = store or home.store_of(workspace)
    keeping = keeping_of(workspace / SETTINGS_FILE)
    wanted = not reading and (encrypt or keeping.encrypt)
    main = WorkspaceWorld.open(
        workspace,
        place,
        rules=rules or rules_of(workspace),
        durability=durability,
        progress=progress,
        lease=not reading,
        lease_dir=home.leases,
        holder=holder,
        limits=keeping.limits,
        encryption=encryption_of(place, wanted=wanted, making=not reading),
        warn=warn,
    )
    try:
        if not (reading or shared):
            refuse_if_shared(home, workspace)
        if not reading:
            own_keys.mended(place)
        return _with_side(main, home.sandbox_of(run_id), durability, wanted=wanted) if run_id else main
    except BaseException:
        main.close()
        raise


def _with_side(main: WorkspaceWorld, beside: Path, durability: Durability, *, wanted: bool) -> WorkspaceWorld:
    """Together with the side of the run's sandbox, where it has one."""
    store, files, writing = beside / "stores" / beside.name, beside / "files", main.writable
    if not (store.is_dir() or (writing and files.is_dir())):
        return main
    if not os.path.lexists(files):
        files.mkdir(mode=0o700)  # what it held is in the store, and can come back
    side = WorkspaceWorld.open(
        files,
        store,
        durability=durability,
        encryption=encryption_of(store, wanted=wanted, making=writing),
        lease=writing,
        lease_dir=beside / "leases",
    )
    if writing:
        own_keys.mended(store)
    return SidedWorld(main, side, beside, SIDES)


@contextmanager
def together(home: Home, world: WorkspaceWorld, run_id: str) -> Iterator[WorkspaceWorld]:
    """A world that is open for writing, together with the side of a run's sandbox meanwhile, where it has one."""
    both = _with_side(world, home.sandbox_of(run_id), "power", wanted=False)
    try:
        yield both
    finally:
        if isinstance(both, SidedWorld) and both is not world:
            both.close_side()


def cut_off_with_side(home: Home, world: WorkspaceWorld) -> list[str]:
    """The runs, other than the one whose sandbox `world` includes, that may have been cut off while they restored a
    workspace and its sandbox as one.
    """
    own = world.beside if isinstance(world, SidedWorld) else None
    return [path.name for path in sorted((home.root / "sandboxes").glob("*")) if path != own and is_pending(path)]


@contextmanager
def unsaved(workspace: Path, rules: PathRules | None = None) -> Iterator[WorkspaceWorld]:
    """The world of a workspace only to look at what is there: with a store that is gone afterwards, and no lease."""
    with TemporaryDirectory(prefix="agentrewind-") as scratch:
        place = Path(scratch)
        world = WorkspaceWorld.open(workspace, place / "store", rules=rules or rules_of(workspace), lease_dir=place)
        with closing(world):
            yield world
