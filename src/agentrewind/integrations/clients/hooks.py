"""The hook on `Client.send` and `AsyncClient.send` of `httpx` and `httpx2`, the one place that all SDK paths pass."""

from __future__ import annotations

import datetime as dt
import functools
import importlib
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Self

from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.core.wire import WireReply
from agentrewind.integrations.bodies import Unreadable
from agentrewind.integrations.clients.exchange import (
    HttpRequest,
    HttpResponse,
    body_of,
    reply_of,
    response_of,
    with_body,
)
from agentrewind.integrations.clients.importing import AfterImport
from agentrewind.integrations.clients.interposer import Interposer

LIBRARIES = ("httpx", "httpx2")

Send = Callable[..., Any]

_inside: ContextVar[bool] = ContextVar("agentrewind_inside_a_call", default=False)
"""Set while an interposer works and while its requests are sent: what happens in there is not handled again."""
_lock = threading.RLock()
_current: Installation | None = None


def install(interposer: Interposer) -> Installation:
    """Send the requests that `interposer` wants through it, from now on, in every client of this process.

    Clients that exist already are covered, and so is a library that is imported later; none is imported by this.
    Installing the same interposer again gives the same installation, which then needs as many `remove()`s.

    Raises:
        UsageError: another interposer is installed; nothing was changed.
    """
    global _current  # noqa: PLW0603 (there is one `Client.send` in a process)
    with _lock:
        if _current is None:
            installation = Installation(interposer)
            installation.hook()
            _current = installation
        elif _current.interposer is not interposer:
            raise UsageError("Another agentrewind interposer is installed in this process; remove it first.")
        _current.count += 1
        return _current


class Installation:
    """What `install` did. Also a context manager that removes it."""

    def __init__(self, interposer: Interposer) -> None:
        self.interposer = interposer
        self.count = 0
        self._hooked: list[tuple[type, Send, Send]] = []
        self._imports = AfterImport(LIBRARIES, self._hook_library)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def hook(self) -> None:
        self._imports.watch()
        for name in LIBRARIES:
            if name in sys.modules:
                # Not sys.modules[name]: another thread may be half-way through importing it, and this waits for it.
                self._hook_library(importlib.import_module(name))

    def _hook_library(self, library: ModuleType) -> None:
        with _lock:
            self._hook(library.Client, functools.partial(_hooked, library))
            self._hook(library.AsyncClient, functools.partial(_hooked_async, library))

    def _hook(self, client: type, hooked: Callable[[Send], Send]) -> None:
        if any(client is known for known, _, _ in self._hooked):  # httpx2 can stand in for httpx
            return
        original = client.__dict__["send"]
        ours = hooked(original)
        client.send = ours  # type: ignore[attr-defined]
        self._hooked.append((client, original, ours))

    def remove(self) -> None:
        """Undo one `install`; after the last one `send` is again exactly what it was. Calls under way end as begun.

        Where somebody else has hooked `send` after us, ours stays below theirs, and only passes requests on.
        Removing more often than installing does nothing.
        """
        global _current  # noqa: PLW0603
        with _lock:
            if self.count == 0:
                return
            self.count -= 1
            if self.count > 0:
                return
            self._imports.stop()
            for client, original, ours in self._hooked:
                if client.__dict__.get("send") is ours:
                    client.send = original  # type: ignore[attr-defined]
            self._hooked.clear()
            _current = None


def _wanting(request: HttpRequest) -> Interposer | None:
    """Who takes this request over; None where it goes its usual way."""
    installation = _current
    if installation is None or _inside.get():
        return None
    wanted = installation.interposer.wants(request.method, request.url.host, request.url.path)
    return installation.interposer if wanted else None


@contextmanager
def unseen() -> Iterator[None]:
    """What is sent within is nobody's call: it goes its usual way."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def _hooked(library: ModuleType, original: Send) -> Send:
    @functools.wraps(original)
    def send(client: Any, request: HttpRequest, *, stream: bool = False, **options: Any) -> HttpResponse:
        interposer = _wanting(request)
        if interposer is None:
            return original(client, request, stream=stream, **options)
        request.read()
        body = body_of(request)
        if isinstance(body, Unreadable):
            return original(client, request, stream=stream, **options)

        def upstream(changed: Json) -> WireReply:
            return reply_of(original(client, with_body(request, changed), stream=False, **options))

        begun = time.perf_counter()
        with unseen():
            reply = interposer.call(request.url.path, body, upstream)
        response = response_of(library, reply, request, _since(begun))
        if not stream:
            response.read()
        return response

    return send


def _hooked_async(library: ModuleType, original: Send) -> Send:
    @functools.wraps(original)
    async def send(client: Any, request: HttpRequest, *, stream: bool = False, **options: Any) -> HttpResponse:
        interposer = _wanting(request)
        if interposer is None:
            return await original(client, request, stream=stream, **options)
        await request.aread()
        body = body_of(request)
        if isinstance(body, Unreadable):
            return await original(client, request, stream=stream, **options)

        async def upstream(changed: Json) -> WireReply:
            return reply_of(await original(client, with_body(request, changed), stream=False, **options))

        begun = time.perf_counter()
        reply = await _bridged(interposer, request.url.path, body, upstream)
        response = response_of(library, reply, request, _since(begun))
        if not stream:
            await response.aread()
        return response

    return send


async def _bridged(
    interposer: Interposer, path: str, body: Json, upstream: Callable[[Json], Awaitable[WireReply]]
) -> WireReply:
    from agentrewind.integrations.clients import bridge

    with unseen():
        return await bridge.run(lambda send: interposer.call(path, body, send), upstream, interposer.undelivered)


def _since(begun: float) -> dt.timedelta:
    return dt.timedelta(seconds=time.perf_counter() - begun)
