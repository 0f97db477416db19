"""Which process the calls of each conversation come from, to know when nobody is left who could come back from them.

A program that talks to its model by itself asks again and again from one process. Once that has ended, no tool runs in
it any more, and what it had started a rewind ends like other leftovers. A program that asks through others (`curl`) has
another process for each call, whose end says nothing: of such a conversation nothing is known here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agentrewind.core.records import ThreadId
from agentrewind.engine.processes import Process, process_of
from agentrewind.integrations.proxy.leftovers import all_pids, holders

STEADY = 2
"""So many calls of a conversation from one process say that it is the program itself."""
PASSING = 3
"""After so many calls from as many processes nobody is looked for any more."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The process of the newest call, the port of its connection, and how many calls after one another came from it."""

    process: Process
    port: int
    calls: int = 1
    processes: int = 1
    """How many there were after one another that each made one call."""


class Origins:
    """Looks for each process once a connection, beside the call, which it doesn't delay.

    Args:
        ours: the port that the programs connect to.
    """

    def __init__(self, ours: int, find: Callable[[int, int], Process | None] | None = None) -> None:
        self._ours, self._find = ours, find or _holder
        self._lock = threading.Lock()
        self._of: dict[ThreadId, Origin] = {}
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="agentrewind origins")

    def came(self, conversation: ThreadId, port: int) -> None:
        """A call of a conversation has come over a connection from this port, which is open until it is answered."""
        with self._lock:
            known = self._of.get(conversation)
            if known is not None and known.port == port:
                self._note(conversation, known.process, port)
                return
        if known is None or known.processes < PASSING:
            self._looking.submit(self._look, conversation, port)

    def gone(self, conversation: ThreadId) -> Process | None:
        """The process from which a conversation came, if it is known to have been the program, and has ended."""
        with self._lock:
            known = self._of.get(conversation)
        if known is None or known.calls < STEADY or _runs(known.process):
            return None
        return known.process

    def close(self) -> None:
        """Look for nobody any more."""
        self._looking.shutdown(cancel_futures=True)

    def _look(self, conversation: ThreadId, port: int) -> None:
        found = self._find(self._ours, port)
        if found is not None:
            with self._lock:
                self._note(conversation, found, port)

    def _note(self, conversation: ThreadId, process: Process, port: int) -> None:
        known = self._of.get(conversation)
        if known is None:
            found = Origin(process, port)
        elif _is(known.process, process):
            found = Origin(known.process, port, known.calls + 1)
        else:
            found = Origin(process, port, processes=known.processes + 1 if known.calls == 1 else 1)
        self._of[conversation] = found


def _holder(ours: int, port: int) -> Process | None:
    """The process that holds the other end of a connection; None where it can't be told."""
    pid = next(iter(holders(ours, {port}, all_pids())), None)
    return None if pid is None else process_of(pid)


def _runs(process: Process) -> bool:
    now = process_of(process.pid)
    return now is not None and not now.zombie and _is(now, process)


def _is(one: Process, other: Process) -> bool:
    return (one.pid, one.started) == (other.pid, other.started)
