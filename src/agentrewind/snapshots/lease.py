"""One writer a workspace, also across workspaces that lie inside one another; freed by the death of its process."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from typing import TYPE_CHECKING

from agentrewind.core.codec import canonical
from agentrewind.core.errors import NO_ROOM, Busy, StorageFull
from agentrewind.snapshots.plain import open_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT


class Lease:
    """Holds a file below `directory` that is locked as long as this process lives or until `release`."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd: int | None = fd

    @classmethod
    def take(cls, directory: Path, root: Path, holder: str = "") -> Lease:
        """Take the lease of the workspace `root`.

        Raises:
            Busy: somebody holds it, or that of a directory above or below; the text says who.
            StoreError: something else than plain files stands where the leases are.
            StorageFull: not even an empty file can be made there.
        """
        text = canonical({"root": str(root), "pid": os.getpid(), "holder": holder, "since_ns": time.time_ns()})
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _guarded(directory):
                for path in sorted(directory.glob("*.lease")):
                    _clear_or_refuse(path, root)
                path = directory / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.lease"
                return cls(path, _locked(path, text))
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise StorageFull(f"{directory}: no room to say that {root} is in use. Nothing was touched.") from error

    def release(self) -> None:
        if self._fd is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None


def _locked(path: Path, text: bytes) -> int:
    fd = open_plain(path, _FLAGS)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # a full disk: nobody can read who holds it, and it is held all the same
            os.ftruncate(fd, 0)
            os.pwrite(fd, text, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def _guarded(directory: Path) -> Iterator[None]:
    """One process at a time looks at the leases."""
    fd = open_plain(directory / "guard", _FLAGS)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _clear_or_refuse(path: Path, root: Path) -> None:
    try:
        fd = open_plain(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _refuse_overlap(os.pread(fd, 1 << 16, 0), root)
        else:
            path.unlink(missing_ok=True)  # its process is dead
    finally:
        os.close(fd)


def _refuse_overlap(data: bytes, root: Path) -> None:
    try:
        held = json.loads(data)
        other = type(root)(held["root"])
    except (ValueError, KeyError, TypeError) as error:
        raise Busy(f"{root} may be in use: another process holds a lease that can't be read.") from error
    if other == root or other in root.parents or root in other.parents:
        who = f" ({held['holder']})" if held["holder"] else ""
        where = "it" if other == root else f"{other}, which overlaps with it,"
        raise Busy(f"{root} is in use: process {held['pid']}{who} holds {where} until it ends.")
