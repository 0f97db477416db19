"""The file system's own clock, and how far it can be trusted."""

from __future__ import annotations

import contextlib
import os
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOUNTINFO = "/proc/self/mountinfo"
_REALTIME_COARSE = 5
"""`CLOCK_REALTIME_COARSE`, for which `time` has no name."""
TICK_NS = 20_000_000
_COARSE_TICK_NS = 2_000_000_000
_COARSE = frozenset(("vfat", "msdos", "exfat", "hfs", "hfsplus", "ext3", "ext2"))
_LOCAL = frozenset(
    ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "f2fs", "zfs", "bcachefs", "ramfs", "jfs", "nilfs2", *_COARSE)
)


@dataclass(frozen=True, slots=True)
class Mounts:
    """What is mounted at and below a directory."""

    fstype: str
    inside: frozenset[str]
    """Relative paths of mount points below it, of bind mounts and single files too."""
    device: tuple[int, int] = (0, 0)
    """Major and minor number of its file system, as the kernel says itself (`st_dev` may be that of a part of it)."""

    @property
    def tick_ns(self) -> int:
        return _COARSE_TICK_NS if self.fstype in _COARSE else TICK_NS

    @property
    def local(self) -> bool:
        """Whether the kernel that runs us stamps its files, so that a probe elsewhere reads the same clock."""
        return self.fstype in _LOCAL


def mounts_of(root: Path) -> Mounts:
    """Read from the kernel; where it says nothing, an unknown file system without mounts inside."""
    top = os.fsencode(root)
    best, fstype, device = -1, "", (0, 0)
    inside = []
    for point, kind, number in _mountinfo():
        if top == point or top.startswith(point.rstrip(b"/") + b"/"):
            if len(point) >= best:
                best, fstype, device = len(point), kind, number
        elif point.startswith(top.rstrip(b"/") + b"/"):
            inside.append(os.fsdecode(point[len(top.rstrip(b"/")) + 1 :]))
    return Mounts(fstype, frozenset(inside), device)


class MountTable:
    """`mounts_of` one directory, read again only when the kernel says that something was mounted or unmounted."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found: Mounts | None = None
        self._file = -1
        self._process = 0
        self._poll = select.poll()

    def read(self) -> Mounts:
        if self._found is None or self._process != os.getpid() or self._changed():
            self._found = self._read_anew()
        return self._found

    def _changed(self) -> bool:
        return self._file < 0 or bool(self._poll.poll(0))

    def _read_anew(self) -> Mounts:
        """Opened before it is read: a change between the two is told of the next time."""
        self.close()
        self._process = os.getpid()
        with contextlib.suppress(OSError):
            self._file = os.open(_MOUNTINFO, os.O_RDONLY | os.O_CLOEXEC)
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLPRI)
        return mounts_of(self._root)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _mountinfo() -> Iterator[tuple[bytes, str, tuple[int, int]]]:
    with contextlib.suppress(OSError), open(_MOUNTINFO, "rb") as file:
        for line in file:
            fields = line.split(b" ")
            separator = fields.index(b"-")
            major, _, minor = fields[2].partition(b":")
            yield _unescape(fields[4]), fields[separator + 1].decode("ascii", "replace"), (int(major), int(minor))


def _unescape(point: bytes) -> bytes:
    for escape, char in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        point = point.replace(escape, char)
    return point


class Clock:
    """Reads the clock that stamps a workspace's files, or a lower bound of it: a lower bound only makes us hash more.

    The kernel stamps the files of a local file system with its coarse clock, or later where it has told of that stamp
    already. For others the latest change time seen there by the last scan is all that is known.
    """

    def __init__(self, *, local: bool) -> None:
        self._local = local

    def now_ns(self, latest_seen_ns: int) -> int:
        return time.clock_gettime_ns(_REALTIME_COARSE) if self._local else latest_seen_ns


class StillClock:
    """For reading only, where nothing may be written: only what the last scan saw counts as past."""

    def now_ns(self, latest_seen_ns: int) -> int:
        return latest_seen_ns
