"""Which processes a run has left running, and how they are ended before a restore (rewind.md, section 7).

Only descendants of this run are ever touched: children of this process (orphans come back to it, as it is their
subreaper), and, after a crash, processes that carry the run's mark in their environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

RUN_MARK = "AGENTREWIND_RUN"
"""The variable that marks the commands of a run."""
GRACE_S = 2.0
"""How long a process may take to end after TERM, and again after KILL."""
PASSES = 5
"""How often we look again for children that were born meanwhile."""

_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process, named by pid and start time together: a pid alone is used again."""

    pid: int
    parent: int
    started: int
    """Clock ticks since boot."""
    zombie: bool
    command: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.command})"


def become_subreaper() -> bool:
    """Let orphaned descendants come back to this process. False where the system has no such thing."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def ticks_now() -> int:
    """The present on the clock of `Process.started`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


def ticks_at(time_ns: int) -> int:
    """A moment of the wall clock on the clock of `Process.started`, as far as the wall clock has not been moved."""
    return ticks_now() - (time.time_ns() - time_ns) * _TICKS // 1_000_000_000


def process_of(pid: int) -> Process | None:
    """The process of that number; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            stat = handle.read()
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            words = handle.read(400).replace(b"\0", b" ").strip()
    except OSError:
        return None
    name, _, rest = stat.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    command = os.fsdecode(words or name)
    return Process(pid, int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X"), command)


def _all() -> list[Process]:
    if not os.path.isdir("/proc/self"):
        return []
    found = (process_of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def descendants(root: int, started_since: int = 0) -> list[Process]:
    """The live descendants of process `root` that were started at that tick or later."""
    children: dict[int, list[Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), ()):
            queue.append(child.pid)
            if not child.zombie and child.started >= started_since:
                found.append(child)
    return found


def marked(run_id: str) -> list[Process]:
    """The live processes of this user that carry the mark of the run; never this process or one above it."""
    mine = {os.getpid(), *_ancestors(os.getpid())}
    wanted = f"{RUN_MARK}={run_id}".encode()
    found = []
    for process in _all():
        if process.pid in mine or process.zombie:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as handle:
            if wanted in handle.read().split(b"\0"):
                found.append(process)
    return found


def _ancestors(pid: int) -> list[int]:
    found: list[int] = []
    process = process_of(pid)
    while process is not None and process.parent > 0:
        found.append(process.parent)
        process = process_of(process.parent)
    return found


def of_one_that_stays(process: Process, table: Mapping[int, Process], since: int) -> bool:
    """Whether it is a child of a process that was started before: a server that stays goes on making new ones."""
    parent = table.get(process.parent)
    return parent is not None and parent.started < since


def leftovers(root: int, since: int, begun: int) -> list[Process]:
    """The descendants of `root` that were started at tick `since` or later.

    What one that was there before, and stays, has started from tick `begun` on is not among them.
    """
    table = {process.pid: process for process in descendants(root)}
    young = (process for process in table.values() if process.started >= since)
    return [item for item in young if item.started < begun or not of_one_that_stays(item, table, since)]


def end_all(find: Callable[[], list[Process]]) -> tuple[list[Process], list[Process]]:
    """End what `find` names, and look again until it names nothing: (ended, still alive)."""
    ended: list[Process] = []
    for _ in range(PASSES):
        alive = find()
        if not alive:
            return ended, []
        ended += [process for process in alive if _end(process)]
    return ended, find()


def _end(process: Process) -> bool:
    """TERM, then KILL. True once it is gone; False where we may not or it doesn't go.

    It isn't reaped: where it is a child of the harness, its exit status belongs to the harness.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return _gone(process)
    try:
        now = process_of(process.pid)
        if now is None or now.started != process.started:
            return True
        return any(_signal(fd, number) for number in (signal.SIGTERM, signal.SIGKILL))
    finally:
        os.close(fd)


def _signal(fd: int, number: signal.Signals) -> bool:
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(fd, number)
    if number is signal.SIGTERM:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(fd, signal.SIGCONT)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(GRACE_S * 1000))


def _gone(process: Process) -> bool:
    now = process_of(process.pid)
    return now is None or now.zombie or now.started != process.started


def ended(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
