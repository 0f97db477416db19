"""Files that live processes may write without anybody's being told.

A store to a mapped page that is already dirty moves no time and raises no event. So processes are asked what they map
shared; only those that have run since the last look, for what didn't run wrote nothing, and the kernel keeps a clock of
the processor time of each. A file held open for writing needs no asking, for each write moves its time and is told of;
unless it is told of by a name that is gone while the file lives on under another (`held`, asked only where that shows).

Processes of other users can't be asked, unless we are root.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrewind.snapshots.detector import Nominated
from agentrewind.snapshots.mappings import Question
from agentrewind.snapshots.processes import NO_MARK, Processes, is_kernel_thread

if TYPE_CHECKING:
    from agentrewind.snapshots.mappings import Mapping


@dataclass(slots=True)
class _Process:
    """One as it was when it was last asked."""

    mark: int
    spent: int
    mapped: Nominated | None = None
    kernel: bool = False
    """It is the kernel's own, and maps nothing."""


class Writers:
    """Remembers what each process mapped when it was last asked."""

    def __init__(self) -> None:
        self._there = Processes()
        self._processes: dict[int, _Process] = {}
        self._pending = Nominated()
        self._question = Question()

    def nominate(self, root: int, device: tuple[int, int]) -> Nominated:
        """Files below the directory `root`, on the file system `device`, whose bytes may have changed unnoticed since
        the last `settled`.
        """
        try:
            marks = self._there.read()
            prefix = os.readlink(f"/proc/self/fd/{root}").rstrip("/") + "/"
            st_dev = os.fstat(root).st_dev
        except OSError:
            return self._pending
        known = self._processes
        for number in [number for number, process in known.items() if marks.get(number) != process.mark]:
            self._force(known.pop(number))
        for number, mark in marks.items():
            before = known.get(number)
            if before is not None:
                if before.kernel or before.spent == (spent := _processor_time(number)):
                    continue
                self._force(before)
            else:
                spent = _processor_time(number)
            now = known[number] = _Process(mark, spent)
            self._ask(number, now, prefix, device, st_dev)
            self._force(now)
        return self._pending

    def mapped(self) -> Nominated:
        """All that the processes mapped when they were last asked."""
        found = Nominated()
        for process in self._processes.values():
            if process.mapped is not None:
                found.forced |= process.mapped.forced
                found.inodes |= process.mapped.inodes
        return found

    def settled(self) -> None:
        self._pending = Nominated()

    def _force(self, process: _Process) -> None:
        if process.mapped is not None:
            self._pending.forced |= process.mapped.forced
            self._pending.inodes |= process.mapped.inodes

    def _ask(self, number: int, process: _Process, prefix: str, device: tuple[int, int], st_dev: int) -> None:
        mappings = self._question.shared_mappings(number)
        if mappings is None:
            process.kernel = process.mark != NO_MARK and is_kernel_thread(number)
        elif here := [mapping for mapping in mappings if mapping.device == device]:
            process.mapped = _nominated(here, prefix, st_dev)


def _nominated(mappings: list[Mapping], prefix: str, st_dev: int) -> Nominated:
    found = Nominated()
    for mapping in mappings:
        if mapping.name.startswith(prefix):
            found.forced.add(mapping.name[len(prefix) :])
        found.inodes.add((st_dev, mapping.inode))
    return found


def held(root: int) -> dict[tuple[int, int], set[str]]:
    """Files on the file system of the directory `root` that some process holds open for writing, with the names below
    `root` under which it does.
    """
    prefix = os.readlink(f"/proc/self/fd/{root}").rstrip("/") + "/"
    device = os.fstat(root).st_dev
    found: dict[tuple[int, int], set[str]] = {}
    for number in Processes().read():
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


def _processor_time(number: int) -> int:
    """Nanoseconds that all threads of a process have run; where that can't be told, nothing that was said before."""
    try:
        return time.clock_gettime_ns((~number << 3) | 2)
    except OSError:
        return -time.monotonic_ns()
