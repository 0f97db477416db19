"""Parked copies of an agent's process, one a checkpoint: what a rewind wakes instead of replaying what led there.

Experimental. A copy is asked for right before a call goes out; the process of the agent forks it, or says why it can't.
It is a child of this process (our subreaper's tree, not the agent's), holds no line but its own, and does nothing until
it is woken. Nothing rests on it: a checkpoint whose copy is gone is reached by replay.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from agentrewind.core.codec import Json
from agentrewind.core.records import RecordUid
from agentrewind.engine.channel import Gone, Line, pair
from agentrewind.engine.processes import ended

HELD = "parked"
"""The answer of a process that has forked a copy of itself holds its pid under this name."""

_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(eq=False)
class Copy:
    """One parked process, and the line to it; once woken it is a process of the agent as any (`attempts.Running`)."""

    pid: int
    control: Line
    uids: set[RecordUid] = field(default_factory=set)
    """The calls that it is about to make: more than one where our own tools were answered in between."""
    order: int = 0

    def __post_init__(self) -> None:
        self._pidfd = os.pidfd_open(self.pid)
        self._status: int | None = None

    def fileno(self) -> int:
        return self._pidfd

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, number)

    def code(self) -> int:
        """Its exit code, negative for a signal; waits for it. It is ours to reap, so its pid means nobody else."""
        if self._status is None:
            with contextlib.suppress(ChildProcessError):
                self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 0 if self._status is None else self._status

    def status(self) -> str:
        return ended(self.code())

    @property
    def alive(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def wake(self) -> None:
        """It goes on with its call. Nothing happens where it has died: its pidfd says so."""
        with contextlib.suppress(Gone):
            self.control.send({"do": "wake"})

    def end(self) -> None:
        """It is gone when this returns."""
        self.signal(signal.SIGKILL)
        self.code()
        self.control.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class Copies:
    """The parked copies of one run, `limit` at most. `close` ends them all. Thread-safe.

    Args:
        say: told in one line, once a reason, why a checkpoint has no copy; at the end, what the copies took.
    """

    def __init__(self, limit: int, say: Callable[[str], None] = lambda _: None) -> None:
        self._limit = limit
        self._say = say
        self._lock = threading.Lock()
        self._parked: list[Copy] = []
        self._woken: list[Copy] = []
        self._again: set[RecordUid] = set()
        """Checkpoints whose copy was just woken: the next one that is parked is at the same place."""
        self._said: set[str] = set()
        self._made = self._most_kib = 0

    def pids(self) -> tuple[int, ...]:
        """They are no part of what the agent has left running."""
        with self._lock:
            return tuple(copy.pid for copy in self._parked)

    def offer(self, line: Line, uid: RecordUid, before: Copy | None) -> Copy | None:
        """Have the process that waits on `line` park a copy of itself; `before` is the copy of the same call.

        None where there is none; the process then goes on as if nothing had been asked.
        """
        if self._limit < 1:
            return None
        if before is not None:
            with self._lock:
                before.uids.add(uid)
            return before
        with self._lock:
            uids, self._again = {uid, *self._again}, set()
        try:
            found, control = _asked(line)
        except Gone:
            return None
        if HELD not in found:
            control.close()
            self._told(str(found["unfit"]))
            return None
        return self._keep(int(found[HELD]), control, uids)

    def _keep(self, pid: int, control: Line, uids: set[RecordUid]) -> Copy | None:
        try:
            copy = Copy(pid, control, uids)
        except OSError as error:
            control.close()
            self._told(f"its copy can't be followed ({error})")
            return None
        with self._lock:
            self._made += 1
            copy.order = self._made
            self._parked.append(copy)
            excess = thinned(self._parked, self._limit)
            self._parked = [item for item in self._parked if item not in excess]
            self._most_kib = max(self._most_kib, sum(pss_kib(item.pid) for item in self._parked))
        for item in excess:
            item.end()
        return copy

    def _told(self, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            self._say(f"No fork checkpoint: {why}. A rewind to such a point replays what led there.")

    def take(self, uid: RecordUid) -> Copy | None:
        """The copy of that checkpoint, which is then no longer parked; None where there is none, or it has died."""
        with self._lock:
            copy = next((item for item in self._parked if uid in item.uids), None)
            if copy is None:
                return None
            self._parked.remove(copy)
            if copy.alive:
                self._woken.append(copy)
                self._again = set(copy.uids)
                return copy
        copy.end()
        return None

    def lost(self) -> None:
        """The woken process didn't come to where it was to go on: what is parked next is at another place."""
        with self._lock:
            self._again = set()

    def keep_only(self, path: Collection[RecordUid]) -> None:
        """End the copies of checkpoints that were rewound past: they are reached by replay, if ever."""
        with self._lock:
            gone = [copy for copy in self._parked if not copy.uids.intersection(path)]
            self._parked = [copy for copy in self._parked if copy not in gone]
        for copy in gone:
            copy.end()

    def close(self) -> None:
        with self._lock:
            gone, self._parked = [*self._parked, *self._woken], []
            woken, self._woken = len(self._woken), []
        for copy in gone:
            copy.end()
        if self._made:
            self._say(
                f"Fork checkpoints (experimental): {self._made} parked, {woken} woken;"
                f" the parked ones held {self._most_kib / 1024:.1f} MiB (Pss) at most."
            )


def _asked(line: Line) -> tuple[Json, Line]:
    """What a process says to parking a copy, and the line that the copy has. Raises: Gone."""
    ours, theirs = pair()
    try:
        with theirs:
            line.send({"do": "park", "parent": os.getpid()})
            line.hand_over(theirs)
        return line.receive()[0], ours
    except Gone:
        ours.close()
        raise


def thinned(parked: list[Copy], limit: int) -> list[Copy]:
    """Those to end so that `limit` stay: the newest always does; the older, the wider apart the others."""
    kept, gone = sorted(parked, key=lambda copy: copy.order), []
    while len(kept) > limit:
        gone.append(kept.pop(_most_dispensable([copy.order for copy in kept])))
    return gone


def _most_dispensable(orders: list[int]) -> int:
    """The place of the one between whose neighbours least would be missing, for its age. The newest is never it."""
    newest = orders[-1]

    def worth(at: int) -> float:
        before = orders[at - 1] if at else 0
        return (orders[at + 1] - before) / (newest - orders[at])

    return min(range(len(orders) - 1), key=worth)


def pss_kib(pid: int) -> int:
    """The memory of a process, shared pages counted by their share; 0 where the system doesn't say."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as handle:
            found = _PSS.search(handle.read())
    except OSError:
        return 0
    return int(found[1]) if found else 0
