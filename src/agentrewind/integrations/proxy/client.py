"""One request of an agent program, and the way its answer goes back (ASGI 3, HTTP)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from agentrewind.core.wire import WireReply
from agentrewind.integrations.bodies import TooLarge
from agentrewind.integrations.proxy import answers
from agentrewind.integrations.proxy.upstream import Headers

Event = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
SendEvent = Callable[[Event], Awaitable[None]]
T = TypeVar("T")

_PIECE = 1 << 16


class ClientLeft(BaseException):
    """The client closed its connection. No `Exception`: nothing on the way may take it for a failed call."""

    def __init__(self) -> None:
        super().__init__("The agent program closed its connection before the answer came.")


class Client:
    """Reads the request and writes the answer; each `await` of a write waits until the client takes more."""

    def __init__(self, scope: Scope, receive: Receive, send: SendEvent) -> None:
        self.method: str = scope["method"]
        self.headers: Headers = list(scope["headers"])
        self.query: bytes = scope["query_string"]
        self.port: int = (scope.get("client") or ("", 0))[1]
        self.began = False
        """Whether the status of the answer has gone out."""
        self.kept_alive = False
        """Whether that was for a comment."""
        self._receive, self._send = receive, send
        self._has_read = asyncio.Event()

    def header(self, name: bytes) -> str:
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    @property
    def has_body(self) -> bool:
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

    # --- in ---

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises: ClientLeft: in the middle of it."""
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientLeft
            chunk = event.get("body", b"")
            if chunk:
                yield chunk
            if not event.get("more_body", False):
                self._has_read.set()
                return

    async def body(self, limit: int) -> bytes:
        """All of the body. Raises: TooLarge: more than `limit` bytes. ClientLeft."""
        found = bytearray()
        async for chunk in self.chunks():
            found += chunk
            if len(found) > limit:
                raise TooLarge
        return bytes(found)

    async def while_here(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns. Raises: ClientLeft: `work` was cancelled, and has ended."""
        task, left = asyncio.ensure_future(work), asyncio.ensure_future(self.left())
        try:
            await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            left.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
        raise ClientLeft

    async def left(self) -> None:
        """Returns when the client has closed its connection; not before its body was read."""
        await self._has_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # --- out ---

    async def begin(self, status: int, headers: Headers) -> None:
        self.began = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, piece: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def keep_alive(self) -> None:
        """Show that we are still there. The first one commits us to status 200 and an event stream."""
        self.kept_alive = True
        if not self.began:
            stream = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
            await self.begin(200, stream)
        await self.write(answers.KEEP_ALIVE)

    async def answer(self, reply: WireReply, path: str = "") -> None:
        """The whole answer; where keep-alives went out, the rest of the stream or an error event in it."""
        if self.kept_alive:
            body = reply.body if reply.ok else answers.error_event(path, reply)
        else:
            body = reply.body
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
            await self.begin(reply.status, [*headers, (b"content-length", b"%d" % len(body))])
        for at in range(0, max(len(body), 1), _PIECE):
            await self.write(body[at : at + _PIECE], more=at + _PIECE < len(body))
