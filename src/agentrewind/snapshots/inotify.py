"""Linux inotify, as far as we need it: one queue, watches on open directories, reading that never waits."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO = 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED = 0x2000, 0x4000, 0x8000
IS_DIRECTORY = 0x4000_0000
_ONLY_DIRECTORIES = 0x0100_0000
_NONBLOCKING, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_CHANGES = (
    MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
    | _ONLY_DIRECTORIES
)  # fmt: skip
_EVENT = struct.Struct("iIII")
_LIMITS = "/proc/sys/fs/inotify"

_libc = ctypes.CDLL(None, use_errno=True)
AVAILABLE = hasattr(_libc, "inotify_init1")


class Event(NamedTuple):
    """Something happened in, or to, the directory of the watch `wd`; `name` is empty where it was to itself."""

    wd: int
    mask: int
    cookie: int
    """The same, and not zero, for both halves of a move."""
    name: str


class Inotify:
    """One queue of events. Only the process that made it may read it: a forked child would take its parent's."""

    def __init__(self) -> None:
        """Raises: OSError: `EMFILE` at the user's limit of instances."""
        self._fd = self._checked(_libc.inotify_init1(_NONBLOCKING | _CLOEXEC))

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def add(self, directory: int) -> int:
        """Watch the very directory that is open as `directory`; the same number again for the same inode.

        Raises:
            OSError: `ENOSPC` at the user's limit of watches.
        """
        return self._checked(_libc.inotify_add_watch(self._fd, b"/proc/self/fd/%d" % directory, _CHANGES))

    def remove(self, wd: int) -> None:
        """Stop a watch; one that has ended by itself is fine."""
        if _libc.inotify_rm_watch(self._fd, wd) < 0 and ctypes.get_errno() != errno.EINVAL:
            self._checked(-1)

    def read(self) -> list[Event]:
        """What is queued now, and no more of what comes while it is read."""
        events: list[Event] = []
        left = int.from_bytes(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)), "little")
        while left > 0:
            try:
                data = os.read(self._fd, max(left, 4096))
            except BlockingIOError:
                break
            left -= len(data)
            events += _events(data)
        return events

    def close(self) -> None:
        os.close(self._fd)


def _events(data: bytes) -> Iterator[Event]:
    at = 0
    while at < len(data):
        wd, mask, cookie, size = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield Event(wd, mask, cookie, os.fsdecode(data[at : at + size].rstrip(b"\0")))
        at += size


def limit(name: str) -> str:
    """One of the kernel's settings (`max_user_watches` and the like), to be told to a person."""
    try:
        with open(f"{_LIMITS}/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def file_system_type(fd: int) -> int:
    """The magic number of the file system on which `fd` lies; 0 where it can't be told."""
    buffer = ctypes.create_string_buffer(512)
    if _libc.fstatfs(fd, buffer) != 0:
        return 0
    return int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], "little")
