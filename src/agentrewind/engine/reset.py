"""Reset mode: after a rewind the harness begins again in its process, with the restored conversation as its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentrewind.core.edits import Message
from agentrewind.dialects.base import Dialect
from agentrewind.engine.rewinder import Wish
from agentrewind.engine.session import Session
from agentrewind.engine.signal import RewindSignal
from agentrewind.engine.threads import Thread


class ResetSession(Session):
    """As `Session`, but a rewind of the main conversation, once it is made, raises `RewindSignal` out of every call.

    Whoever runs the harness takes `restored` then, and runs it again with that as its messages: what it holds is from
    there on what its model sees, without any edit. Rewinds of other conversations stay in place.
    """

    _restored: tuple[Message, ...] | None = None

    def restored(self) -> tuple[Message, ...] | None:
        """The conversation with which the harness has to begin again; None where it hasn't to. Lets calls in again."""
        with self._lock:
            found, self._restored = self._restored, None
            if found is not None:
                self._threads = self._new_threads()
                self._seeded = self.tree.held_on(self.tree.branch)
            return found

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with super()._guarded():
            if self._restored is not None:
                raise RewindSignal
            yield

    def _move(self, dialect: Dialect, thread: Thread, wish: Wish) -> str | None:
        refusal = super()._move(dialect, thread, wish)
        if refusal is None and thread.id == self.tree.main:
            self._restored = tuple(dialect.joined(thread.effective()))
            raise RewindSignal
        return refusal
