"""A call of the synchronous interposer, made from an event loop that must not wait for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import Protocol

import httpx

from agentrewind.core.codec import Json
from agentrewind.core.wire import Send, WireReply
from agentrewind.integrations.proxy.client import ClientLeft


class Ask(Protocol):
    """Sends a request upstream, and has the caller hold what ends it."""

    def __call__(self, body: Json, caller: Call) -> WireReply: ...


class Call:
    """Runs `work` in a thread of `pool`, which asks upstream by itself.

    The work always comes to its end, so that what it has begun (a rewind) is whole. `leave` ends the request that is
    under way upstream, and lets every later one fail.
    """

    def __init__(self, pool: concurrent.futures.Executor, work: Callable[[Send], WireReply], ask: Ask) -> None:
        self._pool, self._work, self._ask = pool, work, ask
        self._lock = threading.Lock()
        self._cut: Callable[[], object] = lambda: None
        self._left = False

    def start(self) -> asyncio.Future[WireReply]:
        return asyncio.get_running_loop().run_in_executor(self._pool, self._work, self)

    @property
    def left(self) -> bool:
        return self._left

    def __call__(self, body: Json) -> WireReply:
        """Send a request upstream. In the thread. Raises: what the request raised; ClientLeft."""
        if self._left:
            raise ClientLeft
        try:
            return self._ask(body, self)
        except httpx.HTTPError:
            if self._left:
                raise ClientLeft from None
            raise

    def holds(self, cut: Callable[[], object]) -> None:
        """From here on, `cut` ends what is waited for. Raises: ClientLeft."""
        with self._lock:
            self._cut = cut
            if self._left:
                raise ClientLeft

    def leave(self) -> None:
        """In the event loop: nobody waits for the answer any more."""
        with self._lock:
            self._left = True
            self._cut()
