"""What an import makes before it counts, and how the next one tells what a killed import has left from what is used.

The store of an import holds a note for as long as its run has no name. Where the note is still there and the import
isn't, nobody else can have anything in that store, unless somebody has written to it since.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentrewind.compose.home import Home
from agentrewind.core.world import worker
from agentrewind.snapshots.locking import NAME, last_writer

_IMPORTING = ".importing-"
"""How the directory of a run is called until it has come in as a whole."""
_NOTE = ".importing"
_DAY_NS = 86_400 * 10**9
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def importing(home: Home) -> Iterator[Path]:
    """A directory for a run that is to come in: locked as long as this process lives, gone where it gets no name."""
    part = Path(tempfile.mkdtemp(prefix=_IMPORTING, dir=home.runs))
    fd = os.open(part, _DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(fd)


def make_store(home: Home, store: Path, part: Path, run_id: str) -> None:
    """Make the directory of the store of an import, in the place of what a killed one has left.

    Raises:
        FileExistsError: somebody else's is there.
    """
    if os.path.lexists(store):
        _sweep(home, store)
    store.mkdir(mode=0o700)
    (store / _NOTE).write_text(json.dumps({"part": part.name, "holder": worker(run_id)}))


def name_run(part: Path, run_dir: Path, store: Path) -> None:
    """From here on it is a run, and the store its own."""
    os.rename(part, run_dir)
    (store / _NOTE).unlink()


def remove_old(home: Home) -> None:
    """What imports that were killed a day ago or earlier have left, but for what somebody uses."""
    for note in (home.root / "stores").glob(f"*/{_NOTE}"):
        with suppress(OSError):
            if time.time_ns() - note.stat().st_mtime_ns > _DAY_NS:
                _sweep(home, note.parent)
    for part in home.runs.glob(f"{_IMPORTING}*"):
        with suppress(OSError), _nobodys(part):
            if time.time_ns() - part.stat().st_mtime_ns > _DAY_NS:
                shutil.rmtree(part, ignore_errors=True)


def _sweep(home: Home, store: Path) -> None:
    """Remove a store that a killed import has left, and what else is left of that; anything else stays."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        if not os.listdir(store):
            store.rmdir()
            return
        note = json.loads((store / _NOTE).read_bytes())
        part = home.runs / str(note["part"])
        if part.parent == home.runs and part.name.startswith(_IMPORTING):
            with _nobodys(part), _unused(store, str(note["holder"])):
                shutil.rmtree(store)
                shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _unused(store: Path, holder: str) -> Iterator[None]:
    """Inside, nobody can begin to use it. Raises: OSError: somebody does, or has since `holder` wrote to it."""
    if not os.path.lexists(store / "format"):
        yield
        return
    with _nobodys(store / NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW):
        if last_writer(store).get("holder") != holder:
            raise FileExistsError(f"{store} is used by somebody else")
        yield


@contextmanager
def _nobodys(path: Path, flags: int = _DIRECTORY) -> Iterator[None]:
    """Inside, it is locked. Raises: OSError: somebody else who is alive has locked it."""
    fd = os.open(path, flags)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
