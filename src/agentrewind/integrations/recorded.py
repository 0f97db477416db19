"""Tool calls of asynchronous programs as nodes, although recorders are synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from agentrewind.core.codec import Json
from agentrewind.integrations.clients import bridge

T = TypeVar("T")


class RecordsTools(Protocol):
    """A recorder, as far as it is needed here."""

    def tool(self, name: str, arguments: Json, run: Callable[[], T], *, call_id: str | None = None) -> T: ...


async def recorded(
    recorder: RecordsTools,
    name: str,
    arguments: Json,
    start: Callable[[], Awaitable[T]],
    *,
    call_id: str | None = None,
    settle: Callable[[], None] = lambda: None,
) -> T:
    """As `Recorder.tool`, for a tool that is awaited: it runs in this task, whose cancellations reach it.

    `settle` is called in a thread when the tool has come to an end, in whatever way, and may block until nothing of it
    is at work any more. Only then the node ends, and this returns or raises: no rewind restores files that an abandoned
    thread still writes.
    """

    def work(run: Callable[[None], T]) -> T:
        def to_the_end() -> T:
            try:
                return run(None)
            finally:
                settle()

        return recorder.tool(name, arguments, to_the_end, call_id=call_id)

    async def begun(_: None) -> T:
        return await start()

    return await bridge.run(work, begun)


async def whole(start: Callable[[], Awaitable[T]]) -> T:
    """What `start` awaits, to its end: a function that runs in a thread can't be cancelled, only left alone.

    Cancellations, however many, are raised when it has ended.
    """
    task = asyncio.ensure_future(start())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None or task.cancelled():
        return task.result()
    task.exception()  # it is nobody's any more
    raise cancelled
