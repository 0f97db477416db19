"""What people ask of a run that is alive, dealt with where it can be: just before a call of the agent is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from agentrewind.core.records import Paused, RewindRejected, ThreadId, Unpaused
from agentrewind.engine.checkpointer import Log
from agentrewind.engine.rewinder import Wish
from agentrewind.journal.requests import Requests, RewindRequest, Unreadable

LOOK_S = 0.2
"""How often a call that waits looks whether it may go on."""
OVER = "The run ended before its agent made another call, so the rewind was not made; nothing was touched."

Grant = Callable[[Wish], str | None]
"""Makes a rewind; the sentence that says why it can't be made, else."""


class People:
    """The requests beside the journal of one run, for the session that writes it.

    A request is carried out once: the intent that the rewinder writes names it, and one that the journal knows is
    never taken up again.
    """

    def __init__(self, log: Log, requests: Requests) -> None:
        self._log = log
        self._requests = requests

    def hear(
        self,
        thread: ThreadId,
        grant: Grant,
        guarded: Callable[[], AbstractContextManager[None]],
        over: Callable[[], bool],
        arrived: Callable[[], None],
    ) -> bool:
        """Carry out what was asked for of this conversation. True once its call may be made, which takes as long as
        the run is paused; False where `over` says that nobody waits for the answer any more.

        `guarded` is held for each look, and not in between. `arrived` is called first where anything was asked for.
        """
        if not self._requests.any() and self._log.tree.paused is None:  # as nearly always
            return True
        with guarded():
            arrived()
        while True:
            with guarded():
                for request in self._requests.waiting():
                    self._deal(request, thread, grant)
                if not self._waits():
                    return True
            if over():
                return False
            time.sleep(LOOK_S)

    def close(self) -> None:
        """The run has ended: nothing that was asked for will be done."""
        for request in self._requests.waiting():
            if request.id not in self._log.tree.requests:
                target = request.to if isinstance(request, RewindRequest) else ""
                self._reject(request, target, OVER)
            self._requests.done(request.id)
        self._requests.unpause()

    def _waits(self) -> bool:
        paused = self._requests.paused
        if paused and self._log.tree.paused is None:
            self._log.append(Paused(time.time_ns()))
        elif not paused and self._log.tree.paused is not None:
            self._log.append(Unpaused(time.time_ns()))
        return paused

    def _deal(self, request: RewindRequest | Unreadable, thread: ThreadId, grant: Grant) -> None:
        tree = self._log.tree
        if request.id in tree.requests:  # by the process before this one, which was killed before it could say so
            self._requests.done(request.id)
            return
        if isinstance(request, Unreadable):
            self._reject(request, "", f"A request can't be read ({request.why}). Nothing was touched; ask again.")
            self._requests.done(request.id)
            return
        node = tree.nodes.get(request.to)
        if (node is None or node.began.thread == thread) and self._requests.take(request.id):
            self._carry_out(request, thread, grant)

    def _carry_out(self, request: RewindRequest, thread: ThreadId, grant: Grant) -> None:
        wish = Wish(request.to, request.note, thread, by="person", request=request.id, keep_drift=request.keep_drift)
        try:
            refusal = grant(wish)
            if refusal is not None:
                self._reject(request, request.to, refusal)
        finally:
            if request.id in self._log.tree.requests:
                self._requests.done(request.id)

    def _reject(self, request: RewindRequest | Unreadable, target: str, told: str) -> None:
        self._log.append(RewindRejected(target, told, "person", request.id))
