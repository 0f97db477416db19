"""What people ask of a run that is alive: small files beside its journal, for whoever writes it to find.

The journal has one writer, so nobody else says anything in it. A person's command writes a request down, durably, and
the run takes it up at its next call. Every request is either taken or withdrawn, never both: both are one rename or
removal of the same name, and the first wins. What became of one that was taken is in the journal, under its id.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.codec import from_plain, to_plain
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import NO_ROOM, JournalError, StorageFull, UsageError
from agentrewind.core.records import RecordUid, RequestId
from agentrewind.journal.files import sync_directory

DIRECTORY = "requests"
WRITTEN = named("request.written")
TAKEN = named("request.taken")

_PAUSE = "pause"
_NEW, _TAKEN, _UNFINISHED = ".asked", ".taken", ".part"
_MOST = 1 << 20
"""A file longer than this is no request of ours."""
_FULL = "No room for the request: {}. The run goes on as it was."


@dataclass(frozen=True, slots=True)
class RewindRequest:
    """A person wants the run to go back to `to`. `keep_drift` as in `agentrewind rewind`."""

    id: RequestId
    to: RecordUid
    note: str
    at_ns: int
    keep_drift: bool = True


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file among the requests that says nothing we know."""

    id: RequestId
    why: str


def new_id() -> RequestId:
    """Sorts by time."""
    return RequestId(f"{time.time_ns():020d}-{secrets.token_hex(4)}")


class Requests:
    """The requests beside one journal. Looking costs one system call where nobody ever asked for anything."""

    def __init__(self, run_dir: Path) -> None:
        self._directory = run_dir / DIRECTORY

    # --- a person's side ----------------------------------------------------------------------------------------------

    def ask(self, request: RewindRequest) -> None:
        """Write a request down; it survives a power loss when this returns, and is whole whenever it is there.

        Raises:
            UsageError: it is too long. StorageFull, JournalError: it can't be written. It isn't there.
        """
        data = json.dumps(to_plain(request)).encode()
        if len(data) > _MOST:
            raise UsageError(f"The note is too long: {len(data):,} bytes, at most {_MOST:,} are taken.")
        try:
            self._put(request.id + _NEW, data)
        except BaseException:  # a Ctrl-C after the rename: nobody has been told that it is there
            self.withdraw(request.id)
            raise
        reach(WRITTEN)

    def withdraw(self, request: RequestId) -> bool:
        """Take a request back; False where the run was faster."""
        try:
            os.unlink(self._directory / (request + _NEW))
        except FileNotFoundError:
            return False
        return True

    def pause(self) -> bool:
        """Let the run wait at its next call; False where it was told so already. Raises: as `ask`."""
        if self.paused:
            return False
        self._put(_PAUSE, b"%d" % time.time_ns())
        return True

    def unpause(self) -> bool:
        """Let it go on; False where nobody had paused it."""
        try:
            os.unlink(self._directory / _PAUSE)
        except FileNotFoundError:
            return False
        return True

    # --- the run's side -----------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        return os.path.lexists(self._directory / _PAUSE)

    def any(self) -> bool:
        """Whether there is anything at all."""
        try:
            return bool(os.listdir(self._directory))
        except FileNotFoundError:
            return False

    def waiting(self) -> list[RewindRequest | Unreadable]:
        """What was asked for and isn't dealt with, oldest first; also what a crash cut off after it was taken."""
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return []
        return [self._read(RequestId(name[: -len(_NEW)]), name) for name in names if name.endswith((_NEW, _TAKEN))]

    def take(self, request: RequestId) -> bool:
        """From here on it can't be withdrawn. False where it was."""
        if self.taken(request):
            return True
        try:
            os.rename(self._directory / (request + _NEW), self._directory / (request + _TAKEN))
        except FileNotFoundError:
            return False
        reach(TAKEN)
        return True

    def taken(self, request: RequestId) -> bool:
        """Whether the run has it in hand; not any more once it is done."""
        return (self._directory / (request + _TAKEN)).exists()

    def done(self, request: RequestId) -> None:
        """What became of it is in the journal."""
        for ending in (_NEW, _TAKEN):
            with suppress(FileNotFoundError):
                os.unlink(self._directory / (request + ending))

    # --- files --------------------------------------------------------------------------------------------------------

    def _put(self, name: str, data: bytes) -> None:
        part = self._directory / f"{secrets.token_hex(4)}{_UNFINISHED}"
        try:
            try:
                self._directory.mkdir(mode=0o700, exist_ok=True)
                with _created(part) as fd:
                    _write(fd, data)
                os.rename(part, self._directory / name)
            finally:  # also at a Ctrl-C; nothing is there any more after the rename
                with suppress(OSError):
                    os.unlink(part)
            sync_directory(self._directory)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise StorageFull(_FULL.format(error.strerror)) from error
            raise JournalError(f"The request can't be written to {self._directory}: {error.strerror}.") from error

    def _read(self, request: RequestId, name: str) -> RewindRequest | Unreadable:
        try:
            fd = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            return Unreadable(request, str(error.strerror))
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return Unreadable(request, "it is not a regular file")
            found = from_plain(RewindRequest, json.loads(os.read(fd, _MOST)))
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            return Unreadable(request, f"{type(error).__name__}: {error}")
        finally:
            os.close(fd)
        return found if found.id == request else Unreadable(request, "it bears another id than its name")


@contextmanager
def _created(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _write(fd: int, data: bytes) -> None:
    if os.write(fd, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(fd)
