"""Which processes there are, each with a mark that another process under the same number wouldn't have.

The mark is the inode number of its directory in `/proc`: the kernel takes it from a counter when the directory is first
looked up. It may change while the process lives on; then it counts as another one, which is the safe side.
"""

from __future__ import annotations

import ctypes
import os
import struct

NO_MARK = 1
"""What the kernel gives where it has no memory for a mark: proves nothing."""
_HEAD = struct.Struct("<Q8xH")
_NAME_AT = 19
_BUFFER_BYTES = 1 << 15
_PF_KTHREAD = 0x00200000
_KTHREADD = 2
_LONGEST_STAT = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_getdents = getattr(_libc, "getdents64", None)


class Processes:
    """Lists them, and doesn't look through a listing that is the same as the last."""

    def __init__(self) -> None:
        self._listing = b""
        self._found: dict[int, int] = {}
        self._buffer = ctypes.create_string_buffer(_BUFFER_BYTES)

    def read(self) -> dict[int, int]:
        """Number and mark of each; not to be changed. Raises: OSError."""
        if _getdents is None:
            with os.scandir("/proc") as found:
                return {int(item.name): item.inode() for item in found if item.name.isdigit()}
        listing = self._read()
        if listing != self._listing:
            self._found, self._listing = _parsed(listing), listing
        return self._found

    def _read(self) -> bytes:
        """What `os.listdir` asks for, without making objects of it: half the time."""
        assert _getdents is not None
        parts = []
        fd = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while (size := _getdents(fd, self._buffer, _BUFFER_BYTES)) > 0:
                parts.append(ctypes.string_at(self._buffer, size))
        finally:
            os.close(fd)
        if size < 0:
            raise OSError(ctypes.get_errno(), "/proc can't be listed")
        return b"".join(parts)


def _parsed(listing: bytes) -> dict[int, int]:
    found: dict[int, int] = {}
    at, end = 0, len(listing)
    while at < end:
        inode, size = _HEAD.unpack_from(listing, at)
        name = listing[at + _NAME_AT : listing.index(0, at + _NAME_AT)]  # behind the zero stands whatever stood there
        if name.isdigit():
            found[int(name)] = inode
        at += size
    return found


def is_kernel_thread(number: int) -> bool:
    """Whether it is the kernel's own and will never be anything else: made by `kthreadd`, without memory of its own."""
    try:
        fd = os.open(f"/proc/{number}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fields = os.read(fd, _LONGEST_STAT).rpartition(b")")[2].split()
    except OSError:
        return False
    finally:
        os.close(fd)
    parent, flags = int(fields[1]), int(fields[6])
    return bool(flags & _PF_KTHREAD) and _KTHREADD in (parent, number)
