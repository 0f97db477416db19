"""One request of a harness on its way. Others of the same conversation may come, and rewind it, meanwhile."""

from __future__ import annotations

from agentrewind.core.edits import Message
from agentrewind.engine.threads import Context, Thread, Threads

AGAIN = "not given to the agent: its conversation was rewound meanwhile, so the call was made again from there"
ENDED = "not given to the agent: its conversation was ended by a rewind meanwhile"


class Turn:
    """A request: its conversation, and the messages that it holds.

    Attributes:
        thread: the conversation. raw: what the harness sent.
    """

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.raw: list[Message] = thread.raw
        self._begun(thread)

    def _begun(self, thread: Thread) -> None:
        self._rewinds, self._rewritings = thread.rewinds, thread.rewritings
        self._context = thread.context()

    def catch_up(self, threads: Threads) -> None:
        """Take the conversation as it is now. Where another request has led it on, this one goes on by itself."""
        if self.rewritten:
            self.thread = threads.fork(self.raw, self._context)
        elif len(self.thread.raw) != len(self.raw):
            self.thread = threads.fork(self.raw, Context(len(self.raw), self.thread.edits, self.thread.degraded))
        self._begun(self.thread)

    @property
    def rewritten(self) -> bool:
        """The history of its conversation isn't what it sent any more."""
        return self.thread.rewritings != self._rewritings

    @property
    def overtaken(self) -> bool:
        """Its conversation was rewound since it was sent: what is answered to it belongs to what was abandoned."""
        return self.thread.rewinds != self._rewinds

    @property
    def lost(self) -> str:
        """Why the answer to it must not reach the harness; empty where it may."""
        if self.thread.ended:
            return ENDED
        return AGAIN if self.overtaken else ""
