"""A call of the synchronous interposer, made from an event loop that must not wait for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.wire import Send, WireReply
from agentrewind.integrations.bodies import written
from agentrewind.integrations.proxy.client import ClientLeft

Ask = Callable[[bytes], Coroutine[Any, Any, WireReply]]


class Call:
    """Runs `work` in a thread of `pool`; what it sends is sent by the event loop.

    The work always comes to its end, so that what it has begun (a rewind) is whole. `leave` ends the request that is
    under way upstream, and lets every later one fail.
    """

    def __init__(self, pool: concurrent.futures.Executor, work: Callable[[Send], WireReply], ask: Ask) -> None:
        self._pool, self._work, self._ask = pool, work, ask
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._under_way: concurrent.futures.Future[WireReply] | None = None
        self._left = False

    def start(self) -> asyncio.Future[WireReply]:
        return self._loop.run_in_executor(self._pool, self._work, self)

    @property
    def left(self) -> bool:
        return self._left

    def __call__(self, body: Json) -> WireReply:
        """Send a request upstream. In the thread. Raises: what the request raised; ClientLeft."""
        content = written(body)
        with self._lock:
            if self._left:
                raise ClientLeft
            self._under_way = asyncio.run_coroutine_threadsafe(self._ask(content), self._loop)
        try:
            return self._under_way.result()
        except concurrent.futures.CancelledError:
            raise ClientLeft from None

    def leave(self) -> None:
        """In the event loop: nobody waits for the answer any more."""
        with self._lock:
            self._left = True
            if self._under_way is not None:
                self._under_way.cancel()
