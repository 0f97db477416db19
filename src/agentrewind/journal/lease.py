"""One writer at a time: a lock on the file `lease` of a run, which falls with the process that holds it.

The lock is an open-file-description lock: it lives exactly as long as one of `flock` would, and unlike that one it
can be asked about without being taken, so that a reader never stands in a writer's way.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
from datetime import UTC, datetime
from pathlib import Path

from agentrewind.core.errors import Busy, JournalError, UsageError
from agentrewind.journal.files import open_plain

LEASE = "lease"

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux: type, whence, start, length (0: all), pid (0 for this kind of lock)."""
_MAX_HOLDER = 4096


class Lease:
    """Held from `take` to `release` or to the death of this process (and of children forked without exec)."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, run_dir: Path) -> Lease:
        """Become the one writer of the run, without waiting.

        Raises:
            Busy: another writer has it; nothing was touched.
        """
        path = run_dir / LEASE
        fd = _opened(path)
        try:
            _lock(fd, path)
        except BaseException:
            os.close(fd)
            raise
        holder = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(holder).encode() + b"\n", 0)
        return cls(fd)

    def release(self) -> None:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
        os.close(self._fd)


def is_held(run_dir: Path) -> bool:
    """Whether a live process holds the lease. Takes nothing, writes nothing, waits for nothing."""
    try:
        fd = open_plain(run_dir / LEASE)
    except (JournalError, UsageError):
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return False
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise JournalError(f"{path} can't be opened: {error.strerror}. Nothing was touched.") from error


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise Busy(f"The run in {path.parent} is being written by {_holder(fd)}. Nothing was touched.") from None
        raise JournalError(f"{path} can't be locked: {error.strerror}. Nothing was touched.") from error


def _holder(fd: int) -> str:
    """Who holds the lease, in words, as far as the file says it."""
    try:
        said = json.loads(os.pread(fd, _MAX_HOLDER, 0))
        pid, since = int(said["pid"]), str(said["since"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process"
    if not Path(f"/proc/{pid}").exists():
        return f"a process that {pid} left behind (it took the lease at {since} and has ended)"
    return f"process {pid} (since {since})"
