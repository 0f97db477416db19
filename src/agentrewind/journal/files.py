"""The two files of a run as bytes: reading lines without trusting them, appending lines whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core import crashpoints
from agentrewind.core.errors import NO_ROOM, JournalDamaged, JournalError, StorageFull, UnknownRun
from agentrewind.journal.format import MAX_LINE

CUT_SHORT = crashpoints.named("journal.line-cut-short")

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """The bytes between two line feeds. Only the last of a file can be incomplete."""

    offset: int
    data: bytes
    complete: bool = True


class DamagedAt(JournalDamaged):
    """With the place and the fault as fields, for those that list them."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(
            f"{path}, byte {offset}: {what}. Nothing was changed; the lines before it are sound."
            " `agentrewind check` lists all that is wrong; bring the file back from a copy."
        )
        self.path = path
        self.offset = offset
        self.what = what


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file; never follows a link, never waits for a pipe.

    Raises:
        UnknownRun: there is no such file.
        JournalDamaged: it isn't a regular file.
    """
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise UnknownRun(f"There is no run in {path.parent}: it has no {path.name}.") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise DamagedAt(path, 0, "it is not a regular file") from error
        raise JournalError(f"{path} can't be opened: {error.strerror}. Nothing was changed.") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise DamagedAt(path, 0, "it is not a regular file")
    return fd


def sync_directory(path: Path) -> None:
    """Return once the names in it would survive a power loss. Raises: OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lines(fd: int, path: Path) -> Iterator[Line]:
    """The lines that the file holds now, in order. At most `MAX_LINE` bytes and one chunk are in memory.

    Raises:
        JournalDamaged: a line is longer than any that is written.
    """
    size = os.fstat(fd).st_size
    begin = at = 0
    pending = bytearray()
    while at < size and (chunk := os.pread(fd, min(_CHUNK, size - at), at)):
        at += len(chunk)
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            pending += piece
            _check_length(path, begin, len(pending))
            yield Line(begin, bytes(pending))
            begin += len(pending) + 1
            pending.clear()
        pending += rest
        _check_length(path, begin, len(pending))
    if pending:
        yield Line(begin, bytes(pending), complete=False)


def _check_length(path: Path, offset: int, length: int) -> None:
    if length > MAX_LINE:
        raise DamagedAt(path, offset, f"a line is longer than {MAX_LINE:,} bytes")


class AppendedFile:
    """A file that grows by whole lines only. One process and one thread at a time."""

    def __init__(self, path: Path, fd: int, size: int, lines: int = 0) -> None:
        self.path = path
        self._fd = fd
        self._end = (size, lines)  # one value, so that an interrupt never falls between the two
        self._synced = True

    @property
    def lines(self) -> int:
        return self._end[1]

    def append(self, line: bytes) -> int:
        """Write `line` in one call and return where it begins; on return it survives the death of this process.

        Raises:
            StorageFull: there is no room; what was written of the line is cut off again.
            JournalError: the write failed for another reason; likewise.
        """
        self._settle()
        self._synced = False
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise self._failure(error) from error
        if written < len(line):
            crashpoints.reach(CUT_SHORT)
            self._settle()
            raise StorageFull(f"No room for {len(line):,} bytes in {self.path}. {_KEPT}")
        offset, lines = self._end
        self._end = (offset + written, lines + 1)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._fd, length, offset)

    def sync(self) -> None:
        """Return once all lines would survive a power loss. Raises: JournalError, StorageFull."""
        if self._synced:
            return
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._failure(error) from error
        self._synced = True

    def close(self) -> None:
        os.close(self._fd)

    def _settle(self) -> None:
        """Cut off what a failed or interrupted write left behind the last whole line."""
        size, whole = os.fstat(self._fd).st_size, self._end[0]
        if size < whole:
            raise DamagedAt(self.path, size, f"it has lost {whole - size:,} bytes while this run was writing it")
        if size > whole:
            os.ftruncate(self._fd, whole)

    def _failure(self, error: OSError) -> StorageFull | JournalError:
        if error.errno in NO_ROOM:
            return StorageFull(f"No room in {self.path}: {error.strerror}. {_KEPT}")
        return JournalError(f"{self.path} can't be written: {error.strerror}. {_KEPT}")


_KEPT = "All earlier lines are whole; the new one was not kept. Make room, then go on."
