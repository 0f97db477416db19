"""Which programs are waiting for an answer at a moment: a rewind must not end the one that it is made for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentrewind.core.records import ThreadId
from agentrewind.engine.processes import ticks_now


@dataclass(slots=True)
class Caller:
    """A request that has not been answered: the port that it came from, and its conversation once that is known."""

    port: int
    conversation: ThreadId | None = None


class Callers:
    """All of them. Thread-safe; a call of the interposer stays in one thread, and so says whose it is.

    Args:
        came: told of each call, once it is known of which conversation it is.
    """

    def __init__(
        self, clock: Callable[[], int] = ticks_now, came: Callable[[ThreadId, int], None] = lambda _, __: None
    ) -> None:
        self._clock, self._came = clock, came
        self._lock = threading.Lock()
        self._waiting: list[Caller] = []
        self._mine = threading.local()
        self.first_answer: int | None = None
        """When the first call was answered, in ticks since boot: no tool of the agent was started before."""

    @contextmanager
    def calling(self, port: int) -> Iterator[None]:
        """Around a call, in its thread."""
        caller = Caller(port)
        self._mine.caller = caller
        with self._lock:
            self._waiting.append(caller)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(caller)
                if self.first_answer is None:
                    self.first_answer = self._clock()
            self._mine.caller = None

    def belongs_to(self, conversation: ThreadId) -> None:
        """The call of this thread is one of that conversation; `came` is told so once, with the port."""
        caller = self.current
        if caller is not None and caller.conversation != conversation:
            caller.conversation = conversation
            self._came(conversation, caller.port)

    @property
    def current(self) -> Caller | None:
        """The call of this thread."""
        found: Caller | None = getattr(self._mine, "caller", None)
        return found

    def waiting(self) -> list[Caller]:
        with self._lock:
            return list(self._waiting)
