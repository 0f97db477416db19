"""A second run that goes on from a checkpoint of another one, in a copy of its workspace.

Everything is made under names that nobody looks for, and gets its own name last: the run first, then the directory.
Killed before that, there is no fork; killed between the two, the run is whole, and a resume brings its files back from
its own snapshot. The run that it comes from is only read.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agentrewind.compose.confining import forget
from agentrewind.compose.home import Home, new_run_id, slug
from agentrewind.compose.places import named as non_empty
from agentrewind.compose.runs import Run
from agentrewind.compose.secret import redactor
from agentrewind.compose.worlds import Progress, open_world
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import AgentRewindError, StoreError, UsageError
from agentrewind.core.records import Forked, RecordUid, RunStarted, Snapshotted
from agentrewind.core.redact import Redactor
from agentrewind.core.world import Gap, RestoreReport, Snapshot, worker
from agentrewind.engine.forking import unforkable, write_beginning
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots.sided import SidedWorld

COPIED = named("fork.files copied")
SAVED = named("fork.files saved")
WRITTEN = named("fork.journal written")
NAMED = named("fork.run named")

_HIDDEN_RUN = ".forking-"
_HIDDEN_FILES = ".agentrewind-fork-"


@dataclass(frozen=True, slots=True)
class Fork:
    """A run that was forked off. `at` is its first call to come; `left_out` is what a snapshot doesn't bring back;
    `shared` is how many bytes of its files share their blocks with those of the first workspace.
    """

    run_id: str
    workspace: Path
    at: RecordUid
    left_out: tuple[Gap, ...]
    shared: int = 0


def place_for(run: Run) -> Path:
    """A directory beside the workspace of a run that isn't there yet."""
    first = run.workspace.with_name(f"{run.workspace.name}-fork")
    others = (run.workspace.with_name(f"{first.name}-{number}") for number in range(2, 10_000))
    return next(path for path in (first, *others) if not os.path.lexists(path))


def fork(
    home: Home,
    run: Run,
    uid: str,
    into: str | os.PathLike[str],
    *,
    environ: Mapping[str, str] = os.environ,
    progress: Progress | None = None,
) -> Fork:
    """Make a run that stands just before `uid` of `run`, in the directory `into`, which must be absent or empty.

    Raises:
        UnknownRecord: no such record. UsageError: it can't be forked there, or not into that directory.
        StoreError, StorageFull: the files can't be brought back.
        Whichever it is, nothing of the fork stays.
    """
    node = run.node(uid)
    why = unforkable(run.tree, node.uid)
    if why is not None:
        raise UsageError(f"{why} `agentrewind candidates {run.id}` shows where it can be forked.")
    target = _target(home, run, into)
    _sweep(home, target)
    started = _header(run, node.uid, target)
    with _with_its_sandbox(home, started.run_id), _hidden(target, started.run_id) as files:
        report = _written_out(run, node.uid, files, home.sandbox_of(started.run_id) / "files")
        reach(COPIED)
        saved = _saved(home, files, target, progress, started.run_id)
        reach(SAVED)
        at = _begun(home, run, started, saved, redact=redactor(environ, files))
        reach(NAMED)
        _give_name(files, target)
    with suppress(AgentRewindError), closing(open_world(home, target)):
        pass  # the store is now that of this name
    return Fork(started.run_id, target, at, (*report.kept, *report.lossy), report.shared)


@contextmanager
def _with_its_sandbox(home: Home, run_id: str) -> Iterator[None]:
    """What was made of the sandbox of a fork goes again where there is no fork."""
    try:
        yield
    except BaseException:
        if not home.run_dir(run_id).exists():
            forget(home, run_id)
        raise


def _begun(home: Home, run: Run, started: RunStarted, saved: Snapshot, *, redact: Redactor) -> RecordUid:
    """Write the journal of the fork, whole, and give it its name; its first call to come."""
    assert started.forked is not None
    hidden = home.runs / f"{_HIDDEN_RUN}{started.run_id}"
    try:
        with JournalWriter.create(hidden, started, redact=redact, durability="power") as log:
            at = write_beginning(run, log, started.forked.record, _as_event(saved))
            log.sync()
            reach(WRITTEN)
            os.rename(hidden, home.run_dir(started.run_id))
            return at
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise


def _target(home: Home, run: Run, into: str | os.PathLike[str]) -> Path:
    """Where the files go. Raises: UsageError: not there; nothing was touched."""
    path = non_empty(into, "directory for the fork")
    real = Path(os.path.realpath(path.parent)) / Path(os.path.abspath(path)).name
    if real.is_symlink() or (real.exists() and not real.is_dir()):
        raise UsageError(f"{os.fspath(into)!r} is there already and is not a directory. Name a new or an empty one.")
    if real.is_dir() and any(real.iterdir()):
        raise UsageError(f"{os.fspath(into)!r} is not empty. Name a new or an empty directory for the fork.")
    if not real.parent.is_dir():
        raise UsageError(f"There is no directory {str(real.parent)!r} in which the fork could be made.")
    here = Path(os.path.realpath(run.workspace))
    if here == real or here in real.parents or real in here.parents:
        raise UsageError(f"{real} and the workspace {here} lie inside one another. Name a directory beside it.")
    ours = Path(os.path.realpath(home.root))
    if ours in (real, *real.parents) or real in ours.parents:
        raise UsageError(f"{real} and {ours}, where agentrewind keeps its data, lie inside one another.")
    return real


def _header(run: Run, uid: RecordUid, target: Path) -> RunStarted:
    now = time.time_ns()
    words = run.started.task if slug(run.started.task) in run.id else ""
    run_id = new_run_id(words, now)
    return replace(run.started, run_id=run_id, workspace=str(target), started_ns=now, forked=Forked(run.id, uid))


@contextmanager
def _hidden(target: Path, run_id: str) -> Iterator[Path]:
    """A directory beside the target that is ours as long as we live; nothing of it stays where we fail."""
    files = target.with_name(f"{_HIDDEN_FILES}{run_id}")
    try:
        files.mkdir(mode=0o700)
    except OSError as error:
        raise UsageError(f"{files.parent} can't hold a new directory: {error.strerror}.") from error
    fd = os.open(files, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield files
    finally:
        shutil.rmtree(files, ignore_errors=True)
        os.close(fd)


def _written_out(run: Run, uid: RecordUid, files: Path, side: Path) -> RestoreReport:
    """The files of the workspace, and those of the sandbox of a run that has one."""
    snapshot = run.node(uid).began.snapshot
    assert snapshot is not None  # `unforkable` has looked
    with run.reading() as world:
        report = world.export(snapshot, files, include_private=True, share=True)
        if isinstance(world, SidedWorld):
            side.parent.mkdir(mode=0o700, parents=True)
            world.export_side(snapshot, side)
    return report


def _saved(home: Home, files: Path, target: Path, progress: Progress | None, run_id: str) -> Snapshot:
    store = home.store_of(target)
    with closing(open_world(home, files, store=store, holder=worker(run_id), progress=progress)) as world:
        if world.pending is not None:
            raise StoreError(
                f"A restore of {target} was cut off and its files were removed since; `agentrewind snap create` there"
                " settles it. Nothing was made."
            )
        saved = world.snapshot("forked")
        world.sync()
        return saved


def _as_event(saved: Snapshot) -> Snapshotted:
    return Snapshotted(saved.id, None, saved.fingerprint, saved.coverage.complete, at_ns=saved.created_ns)


def _give_name(files: Path, target: Path) -> None:
    """Raises: StoreError: something stands there by now; the run is whole, and its snapshot holds its files."""
    try:
        os.rename(files, target)
    except OSError as error:
        raise StoreError(
            f"{target} could not be made: {error.strerror}. The fork is there all the same, with its files in its"
            " snapshot: once nothing stands in the way, a resume of it brings them back."
        ) from error


def _sweep(home: Home, target: Path) -> None:
    """What forks that were killed have left behind."""
    for path in home.runs.glob(f"{_HIDDEN_RUN}*"):
        files = target.with_name(_HIDDEN_FILES + path.name.removeprefix(_HIDDEN_RUN))
        if not files.exists():
            continue
        _remove_if_dead(files, path)
    for files in target.parent.glob(f"{_HIDDEN_FILES}*"):
        _remove_if_dead(files)


def _remove_if_dead(files: Path, *more: Path) -> None:
    with suppress(OSError, AgentRewindError):
        fd = os.open(files, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in (files, *more):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)
