"""The file system's own clock, and how far it can be trusted."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    best, fstype = -1, ""
    inside = []
    for point, kind in _mountinfo():
        if top == point or top.startswith(point.rstrip(b"/") + b"/"):
            if len(point) >= best:
                best, fstype = len(point), kind
        elif point.startswith(top.rstrip(b"/") + b"/"):
            inside.append(os.fsdecode(point[len(top.rstrip(b"/")) + 1 :]))
    return Mounts(fstype, frozenset(inside))


def _mountinfo() -> Iterator[tuple[bytes, str]]:
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = line.split(b" ")
            separator = fields.index(b"-")
            yield _unescape(fields[4]), fields[separator + 1].decode("ascii", "replace")


def _unescape(point: bytes) -> bytes:
    for escape, char in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        point = point.replace(escape, char)
    return point


class Clock:
    """Reads the clock that stamps a workspace's files.

    For a local file system a probe file beside the store is touched: all of them share the kernel's clock. For others
    the latest change time seen there by the last scan is a lower bound, and a lower bound only makes us hash more.
    """

    def __init__(self, probe: Path, *, local: bool) -> None:
        self._probe = probe
        self._local = local

    def now_ns(self, latest_seen_ns: int) -> int:
        if not self._local:
            return latest_seen_ns
        try:
            fd = os.open(self._probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # no room for it
            return latest_seen_ns
        try:
            os.utime(fd)
            return os.fstat(fd).st_mtime_ns
        finally:
            os.close(fd)


class StillClock:
    """For reading only, where nothing may be written: only what the last scan saw counts as past."""

    def now_ns(self, latest_seen_ns: int) -> int:
        return latest_seen_ns
