"""What a process maps shared with a file: asked of the kernel one by one, or read from its text about all it maps.

`PROCMAP_QUERY` (Linux 6.11, `linux/fs.h`) skips what is private or has no file behind it in the kernel, where the text
spells out every library. Shared is what may ever be written through: also where it is read-only now (`r--s`), for it
may be made writable, and may have been. The question is used only where it finds what this process maps itself; where
an answer is none or makes no sense, the text has the word: a name longer than `PATH_MAX`, for one, is refused.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import mmap
import os
import re
import struct
from contextlib import ExitStack
from typing import NamedTuple

_LINE = re.compile(rb"^[0-9a-f-]+ ...s [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(.+)$", re.MULTILINE)
_QUERY = struct.Struct("<9Q4I2Q")
_QUERY_NUMBER = 3 << 30 | _QUERY.size << 16 | ord("f") << 8 | 17
_SHARED_FILE_AT_OR_BEHIND = 0x08 | 0x20 | 0x10
_END, _INODE, _MAJOR, _MINOR = 4, 8, 9, 10
_LONGEST_NAME = 1 << 12


class Mapping(NamedTuple):
    """A file that is mapped shared."""

    device: tuple[int, int]
    inode: int
    name: str
    """As the kernel shows it to us: not its name here if the process has mounts of its own, or the file was removed."""


class Odd(Exception):
    """An answer that can't be gone by."""


class Question:
    """Asks with a buffer that is used again."""

    def __init__(self) -> None:
        self._name = ctypes.create_string_buffer(_LONGEST_NAME)
        self._query = bytearray(_QUERY.size)
        self._empty = (0,) * 8 + (_LONGEST_NAME, 0, ctypes.addressof(self._name), 0)

    def shared_mappings(self, number: int) -> list[Mapping] | None:
        """None where it has no memory: it is the kernel's own, or dead. Nothing where it may not be asked."""
        try:
            fd = os.open(f"/proc/{number}/maps", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return None if error.errno == errno.ESRCH else []
        try:
            if not is_answered():
                return in_text(fd)
            try:
                return self.asked(fd)
            except Odd:
                return in_text(fd)
        finally:
            os.close(fd)

    def asked(self, fd: int) -> list[Mapping] | None:
        """Raises: Odd: the text may have more."""
        found: list[Mapping] = []
        query, at = self._query, 0
        while True:
            _QUERY.pack_into(query, 0, _QUERY.size, _SHARED_FILE_AT_OR_BEHIND, at, *self._empty)
            try:
                fcntl.ioctl(fd, _QUERY_NUMBER, query)
            except FileNotFoundError:
                return found
            except OSError as error:
                if error.errno == errno.ESRCH:  # dead by now, but what it mapped may have been written
                    return found or None
                raise Odd from error
            answer = _QUERY.unpack(query)
            if answer[_END] <= at:
                raise Odd
            found.append(Mapping((answer[_MAJOR], answer[_MINOR]), answer[_INODE], os.fsdecode(self._name.value)))
            at = answer[_END]


def in_text(fd: int) -> list[Mapping]:
    """As much as can be read."""
    parts = []
    try:
        while data := os.read(fd, 1 << 20):
            parts.append(data)
    except OSError:
        pass
    return [
        Mapping((int(major, 16), int(minor, 16)), int(inode), os.fsdecode(name.replace(b"\\012", b"\n")))
        for major, minor, inode, name in _LINE.findall(b"".join(parts))
    ]


@functools.cache
def is_answered() -> bool:
    """Whether the kernel answers the question rightly: asked about two files that we map, one of them read-only."""
    try:
        with ExitStack() as ends:
            expected = {_map_one(ends, access) for access in (mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ)}
            fd = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
            ends.callback(os.close, fd)
            return expected <= {(found.device, found.inode) for found in Question().asked(fd) or ()}
    except (OSError, Odd):
        return False


def _map_one(ends: ExitStack, access: int) -> tuple[tuple[int, int], int]:
    """Raises: OSError."""
    fd = os.memfd_create("agentrewind", os.MFD_CLOEXEC)
    ends.callback(os.close, fd)
    os.ftruncate(fd, mmap.PAGESIZE)
    ends.enter_context(mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, access))
    st = os.fstat(fd)
    return (os.major(st.st_dev), os.minor(st.st_dev)), st.st_ino
