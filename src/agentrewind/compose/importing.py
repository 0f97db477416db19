"""What an import makes before it counts, and how the next one tells what a killed import has left from what is used."""

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
_NOTE = "importing"
"""The file in it that names the store of the import, and who writes to that for it."""
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


def note_store(part: Path, store: Path, run_id: str) -> None:
    """Write down, before it is made, which store is the import's."""
    (part / _NOTE).write_text(json.dumps({"store": store.name, "holder": worker(run_id)}))


def name_run(part: Path, run_dir: Path) -> None:
    """From here on it is a run."""
    os.rename(part, run_dir)
    (run_dir / _NOTE).unlink()


def swept(home: Home, store: Path) -> bool:
    """Remove a store that a killed import has left, and what else is left of that; whether there was one.

    One that anybody else has written to since stays.
    """
    found = False
    for part in home.runs.glob(f"{_IMPORTING}*"):
        with suppress(OSError, ValueError), _nobodys(part):
            note = json.loads((part / _NOTE).read_bytes())
            if note["store"] == store.name and _remove_unused(store, note["holder"]):
                shutil.rmtree(part, ignore_errors=True)
                found = True
    return found


def remove_old(home: Home) -> None:
    """What imports that were killed a day ago or earlier have left, but for what somebody uses."""
    for part in home.runs.glob(f"{_IMPORTING}*"):
        with suppress(OSError), _nobodys(part):
            if time.time_ns() - part.stat().st_mtime_ns > _DAY_NS:
                with suppress(OSError, ValueError):
                    note = json.loads((part / _NOTE).read_bytes())
                    _remove_unused(home.root / "stores" / note["store"], note["holder"])
                shutil.rmtree(part, ignore_errors=True)


def _remove_unused(store: Path, holder: str) -> bool:
    """Raises: OSError: somebody uses it."""
    if not os.path.lexists(store / "format"):
        shutil.rmtree(store)
        return True
    with _nobodys(store / NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW):
        if last_writer(store).get("holder") != holder:
            return False
        shutil.rmtree(store)
    return True


@contextmanager
def _nobodys(path: Path, flags: int = _DIRECTORY) -> Iterator[None]:
    """Inside, it is locked. Raises: OSError: somebody else who is alive has locked it."""
    fd = os.open(path, flags)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
