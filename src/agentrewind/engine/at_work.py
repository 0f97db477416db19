"""What is at work while a rewind is asked for: it would go on in files that are no longer those that it began with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from agentrewind.core.records import RecordUid
from agentrewind.engine.processes import Process
from agentrewind.engine.threads import Thread

GONE = (
    "{thread}: the program that was to run {names} has ended ({process}), so a rewind of another conversation doesn't"
    " wait for that any more."
)


class AtWork:
    """The tools that run in this process, and the calls that conversations haven't come back from.

    No kill reaches a tool inside this process, or inside the program that a conversation belongs to, so a rewind waits
    for the others'. Used with the `lock` held.

    Args:
        threads: the conversations of the run.
        departed: whether it is known that nobody is left who could come back to a conversation. Then its calls are at
            work no more.
    """

    def __init__(
        self, lock: threading.RLock, threads: Callable[[], Sequence[Thread]], departed: Callable[[Thread], bool]
    ) -> None:
        self._changed = threading.Condition(lock)
        self._threads = threads
        self._departed = departed
        self._tools: dict[RecordUid, str] = {}

    def begins(self, uid: RecordUid, name: str) -> None:
        self._tools[uid] = name

    def ends(self, uid: RecordUid, call_id: str | None) -> None:
        """A tool has ended; where a model asked for it, `call_id` is that call."""
        self._tools.pop(uid, None)
        for thread in self._threads():
            thread.pending.pop(call_id or "", None)
        self.changed()

    def forget(self) -> None:
        """The process whose tools ran is gone."""
        self._tools.clear()

    def changed(self) -> None:
        """Something has come to an end, or nobody waits for it any more: whoever waits looks again."""
        self._changed.notify_all()

    @staticmethod
    def let_go(thread: Thread, process: Process) -> str:
        """The calls of a conversation whose program has ended are open no more; that, in words."""
        names, thread.pending = ", ".join(thread.pending.values()), {}
        return GONE.format(thread=thread.id, names=names, process=process)

    def wait(self, seconds: float) -> None:
        """Until something has `changed`, or the time is up. The lock is free meanwhile."""
        self._changed.wait(seconds)

    def obstacle(self, thread: Thread, within_s: float) -> str | None:
        """Wait until nothing but `thread` is at work; the sentence that refuses its rewind where that takes longer."""
        deadline = time.monotonic() + within_s
        while busy := self._beside(thread):
            left = deadline - time.monotonic()
            if left <= 0:
                return f"The rewind was not made: still running: {', '.join(busy)}. Try again when they have ended."
            self.wait(left)
        return None

    def _beside(self, thread: Thread) -> list[str]:
        running = [f"{name} ({uid})" for uid, name in self._tools.items()]
        open_calls = [
            f"{name} (conversation {other.id})"
            for other in self._threads()
            if other is not thread and other.pending and not other.ended and not self._departed(other)
            for name in other.pending.values()
        ]
        return running + open_calls
