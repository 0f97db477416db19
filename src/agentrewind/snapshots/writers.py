"""Files that live processes may write without anybody's being told.

A store to a mapped page that is already dirty moves no time and raises no event. So processes are asked what they map
shared; only those that have run since the last look, for what didn't run wrote nothing, and the kernel keeps a clock of
the processor time of each. A file held open for writing needs no asking, for each write moves its time and is told of;
unless it is told of by a name that is gone while the file lives on under another (`held`, asked only where that shows).

Processes of other users can't be asked, unless we are root.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import stat
import struct
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from agentrewind.snapshots.detector import Nominated

_DELETED = " (deleted)"
_LINE = re.compile(rb"^[0-9a-f-]+ ...s [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(.+)$", re.MULTILINE)
_QUERY = struct.Struct("<9Q4I2Q")
_QUERY_NUMBER = 3 << 30 | _QUERY.size << 16 | ord("f") << 8 | 17
"""`PROCMAP_QUERY` of Linux 6.11: the next mapping of a kind, without the text of all the others."""
_SHARED_FILE_AT_OR_BEHIND = 0x08 | 0x20 | 0x10
_END, _INODE, _MAJOR, _MINOR = 4, 8, 9, 10
_NAME = ctypes.create_string_buffer(1 << 14)


class Mapping(NamedTuple):
    """A file that is mapped shared."""

    device: tuple[int, int]
    inode: int
    name: str


@dataclass(slots=True)
class _Process:
    spent: int
    mapped: Nominated = field(default_factory=Nominated)


class Writers:
    """Remembers what each process mapped when it was last asked."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._pending = Nominated()

    def nominate(self, root: int, device: tuple[int, int]) -> Nominated:
        """Files below the directory `root`, on the file system `device`, whose bytes may have changed unnoticed since
        the last `settled`.
        """
        try:
            prefix = os.readlink(f"/proc/self/fd/{root}").rstrip("/") + "/"
            st_dev = os.fstat(root).st_dev
            numbers = _processes()
        except OSError:
            return self._pending
        for number in self._processes.keys() - numbers:
            self._force(self._processes.pop(number))
        for number in numbers:
            spent = _processor_time(number)
            before = self._processes.get(number)
            if before is None or before.spent != spent:
                if before is not None:
                    self._force(before)
                now = self._processes[number] = _Process(spent)
                self._ask(number, now.mapped, prefix, device, st_dev)
                self._force(now)
        return self._pending

    def settled(self) -> None:
        self._pending = Nominated()

    def _force(self, process: _Process) -> None:
        self._pending.forced |= process.mapped.forced
        self._pending.inodes |= process.mapped.inodes
        self._pending.links |= process.mapped.links

    @staticmethod
    def _ask(number: int, mapped: Nominated, prefix: str, device: tuple[int, int], st_dev: int) -> None:
        for mapping in _shared_mappings(number):
            if mapping.device != device:
                continue
            if mapping.name.startswith(prefix):
                mapped.forced.add(mapping.name[len(prefix) :])
            mapped.links.add((st_dev, mapping.inode))
            if mapping.name.endswith(_DELETED):
                mapped.inodes.add((st_dev, mapping.inode))


def held(root: int) -> dict[tuple[int, int], set[str]]:
    """Files on the file system of the directory `root` that some process holds open for writing, with the names below
    `root` under which it does.
    """
    prefix = os.readlink(f"/proc/self/fd/{root}").rstrip("/") + "/"
    device = os.fstat(root).st_dev
    found: dict[tuple[int, int], set[str]] = {}
    for number in _processes():
        directory = f"/proc/{number}/fd"
        try:
            for name in os.listdir(directory):
                handle = f"{directory}/{name}"
                if os.lstat(handle).st_mode & stat.S_IWUSR:
                    st = os.stat(handle)
                    if st.st_dev == device and stat.S_ISREG(st.st_mode):
                        found.setdefault((st.st_dev, st.st_ino), set()).add(os.readlink(handle).removeprefix(prefix))
        except OSError:  # of another user, or gone
            continue
    return found


def _processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _processor_time(number: int) -> int:
    """Nanoseconds that all threads of a process have run; where that can't be told, nothing that was said before."""
    try:
        return time.clock_gettime_ns((~number << 3) | 2)
    except OSError:
        return -time.monotonic_ns()


def _shared_mappings(number: int) -> list[Mapping]:
    try:
        fd = os.open(f"/proc/{number}/maps", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return _queried(fd)
    except OSError as error:
        return _read(fd) if error.errno in (errno.ENOTTY, errno.EINVAL) else []
    finally:
        os.close(fd)


def _queried(fd: int) -> list[Mapping]:
    """Raises: OSError: `ENOTTY` where the kernel is older; `ESRCH` where the process is gone or the kernel's own."""
    found: list[Mapping] = []
    at = 0
    while True:
        query = bytearray(
            _QUERY.pack(
                _QUERY.size, _SHARED_FILE_AT_OR_BEHIND, at, 0, 0, 0, 0, 0, 0, 0, 0, len(_NAME), 0,
                ctypes.addressof(_NAME), 0,
            )
        )  # fmt: skip
        try:
            fcntl.ioctl(fd, _QUERY_NUMBER, query)
        except FileNotFoundError:
            return found
        answer = _QUERY.unpack(query)
        name = os.fsdecode(_NAME.value)
        found.append(Mapping((answer[_MAJOR], answer[_MINOR]), answer[_INODE], name))
        at = answer[_END]


def _read(fd: int) -> list[Mapping]:
    parts = []
    try:
        while data := os.read(fd, 1 << 20):
            parts.append(data)
    except OSError:
        return []
    return [
        Mapping((int(major, 16), int(minor, 16)), int(inode), os.fsdecode(name.replace(b"\\012", b"\n")))
        for major, minor, inode, name in _LINE.findall(b"".join(parts))
    ]
