"""When a run has something at work: what changes in its workspace meanwhile is its own, all else is not."""

from __future__ import annotations

from agentrewind.core.records import Snapshotted, ThreadId
from agentrewind.core.world import TellsApart, World
from agentrewind.engine.checkpointer import Checkpointer

BEGINNING = ThreadId("")
"""The agent before its first call."""
PATIENCE_MS = 100.0
"""Where a look takes longer, none is taken for the sake of telling changes apart alone."""


class Workplace:
    """Tells a world that can tell changes apart when this run is at work; with any other world, nothing happens.

    An agent is at work from the moment it gets an answer to its next call: what it does with it isn't ours to see.
    While the model thinks, it waits.
    """

    def __init__(self, world: World, checkpointer: Checkpointer) -> None:
        self._world = world if isinstance(world, TellsApart) else None
        self._checkpointer = checkpointer
        self._working = {BEGINNING}
        self._say()

    def begins(self, thread: ThreadId, *, look: bool = True) -> None:
        """A conversation got an answer; without a `look`, what has changed until now counts as the run's."""
        if look and self._world is not None and not self._working:
            self._look()
        self._working.add(thread)
        self._say()

    def rests(self, thread: ThreadId, look: Snapshotted) -> None:
        """It is back, and the look that ends its work has been taken. Where that failed, what is found next time may
        still be its doing.
        """
        if look.snapshot is not None:
            self._working -= {BEGINNING, thread}
            self._say()

    def _look(self) -> None:
        """What has changed until now is somebody else's."""
        assert self._world is not None
        if self._world.quiet():
            return
        if self._world.shared or self._checkpointer.took_ms <= PATIENCE_MS:
            self._checkpointer.save(idle=True)

    def _say(self) -> None:
        if self._world is not None:
            self._world.at_work(bool(self._working))
