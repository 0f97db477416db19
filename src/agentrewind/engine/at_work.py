"""What is at work while a rewind is asked for: it would go on in files that are no longer those that it began with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from agentrewind.core.records import RecordUid, ThreadId
from agentrewind.engine.processes import Process
from agentrewind.engine.threads import Thread

GONE = (
    "{thread}: the program that was to run {names} has ended ({process}), so a rewind of another conversation doesn't"
    " wait for that any more."
)


FORSAKEN = (
    "{thread}: nobody has come back from {names}, and {why}, so a rewind of another conversation doesn't wait for that"
    " any more."
)


class AtWork:
    """The tools that run in this process, and the calls that conversations haven't come back from.

    No kill reaches a tool inside this process, or inside the program that a conversation belongs to, so a rewind waits
    for the others'. Used with the `lock` held.

    Args:
        threads: the conversations of the run.
        departed: the process of the program that a conversation belongs to, where that is known to have ended: nobody
            is left who could come back, so its calls are at work no more.
        let_go: told of each conversation whose calls are open no more although nobody came back; and why.
    """

    def __init__(
        self,
        lock: threading.RLock,
        threads: Callable[[], Sequence[Thread]],
        departed: Callable[[ThreadId], Process | None],
        let_go: Callable[[Thread, str], None],
    ) -> None:
        self._changed = threading.Condition(lock)
        self._threads = threads
        self._departed = departed
        self._told = let_go
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

    def wait(self, seconds: float) -> None:
        """Until something has `changed`, or the time is up. The lock is free meanwhile."""
        self._changed.wait(seconds)

    def obstacle(self, thread: Thread, within_s: float) -> str | None:
        """Wait until nothing but `thread` is at work; the sentence that refuses its rewind where that takes longer.

        Calls that look forsaken are waited for as well, and then let go.
        """
        deadline = time.monotonic() + within_s
        while busy := self._beside(thread):
            left = deadline - time.monotonic()
            if left > 0:
                self.wait(left)
                continue
            lasting = [name for name, other in busy if other is None or not other.forsaken]
            if lasting:
                return f"The rewind was not made: still running: {', '.join(lasting)}. Try again when they have ended."
            for other in self._open(thread):
                self._let_go(other, FORSAKEN.format(thread=other.id, names=_names(other), why=other.forsaken))
        return None

    def _beside(self, thread: Thread) -> list[tuple[str, Thread | None]]:
        """What is at work, in words; where that is a call of a conversation, with it."""
        for other in self._open(thread):
            process = self._departed(other.id)
            if process is not None:
                self._let_go(other, GONE.format(thread=other.id, names=_names(other), process=process))
        running: list[tuple[str, Thread | None]] = [(f"{name} ({uid})", None) for uid, name in self._tools.items()]
        return running + [
            (f"{name} (conversation {other.id})", other)
            for other in self._open(thread)
            for name in other.pending.values()
        ]

    def _open(self, thread: Thread) -> list[Thread]:
        """The other conversations with open calls."""
        return [other for other in self._threads() if other is not thread and other.pending and not other.ended]

    def _let_go(self, thread: Thread, why: str) -> None:
        thread.pending = {}
        self._told(thread, why)


def _names(thread: Thread) -> str:
    return ", ".join(thread.pending.values())
