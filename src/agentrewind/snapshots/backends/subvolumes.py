"""The btrfs calls, and the exchange of two directories, that `os` doesn't offer."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import struct
from typing import TYPE_CHECKING

from agentrewind.snapshots.beneath import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_SNAP_CREATE_V2, _SUBVOL_CREATE_V2, _SNAP_DESTROY = 0x50009417, 0x50009418, 0x5000940F
_GET_FLAGS, _SET_FLAGS = 0x80089419, 0x4008941A
_READ_ONLY = 1 << 1
_ARGS_V2 = struct.Struct("=qQQ32x4040s")
_ARGS = struct.Struct("=q4088s")
_FLAGS = struct.Struct("=Q")
_RENAME_EXCHANGE = 2
ROOT_INODE = 256
"""The inode number of every subvolume's root."""
EMPTY_INODE = 2
"""The inode number of the empty directory that stands in a snapshot for a subvolume inside."""


@contextlib.contextmanager
def directory(path: Path) -> Iterator[int]:
    """Open while this lasts. Raises: OSError."""
    fd = os.open(path, DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def snapshot(source: Path, to: Path, *, read_only: bool) -> None:
    """Make the subvolume `to` with all that `source` holds at this moment; nothing is copied. Raises: OSError."""
    with directory(source) as origin, directory(to.parent) as parent:
        args = _ARGS_V2.pack(origin, 0, _READ_ONLY if read_only else 0, os.fsencode(to.name))
        fcntl.ioctl(parent, _SNAP_CREATE_V2, bytearray(args))


def create(to: Path) -> None:
    """Make an empty subvolume. Raises: OSError."""
    with directory(to.parent) as parent:
        fcntl.ioctl(parent, _SUBVOL_CREATE_V2, bytearray(_ARGS_V2.pack(0, 0, 0, os.fsencode(to.name))))


def destroy(path: Path) -> None:
    """Take a subvolume away with all in it; where only root may do that in one step, file by file. Raises: OSError."""
    with directory(path.parent) as parent:
        try:
            fcntl.ioctl(parent, _SNAP_DESTROY, bytearray(_ARGS.pack(0, os.fsencode(path.name))))
        except PermissionError:
            set_read_only(path, read_only=False)
            shutil.rmtree(path)


def set_read_only(path: Path, *, read_only: bool) -> None:
    """Raises: OSError."""
    with directory(path) as fd:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS.size)))
        flags = flags | _READ_ONLY if read_only else flags & ~_READ_ONLY
        fcntl.ioctl(fd, _SET_FLAGS, _FLAGS.pack(flags))


def exchange(one: Path, other: Path) -> None:
    """Swap two directories, subvolumes too, in one step. Raises: OSError."""
    with directory(one.parent) as first, directory(other.parent) as second:
        code = _libc.renameat2(first, os.fsencode(one.name), second, os.fsencode(other.name), _RENAME_EXCHANGE)
        if code != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(one))


def mount_of(path: Path) -> int:
    """The number of the mount that `path` is reached through."""
    with directory(path) as fd, open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        fields = dict(line.split(b":", 1) for line in file)
        return int(fields[b"mnt_id"])
