"""The proxy as an ASGI application: what is let in, what is recorded, what is passed on as it is."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError
from agentrewind.core.wire import Send, WireReply
from agentrewind.integrations import bodies
from agentrewind.integrations.clients import Interposer
from agentrewind.integrations.proxy import answers, upstream
from agentrewind.integrations.proxy.callers import Callers
from agentrewind.integrations.proxy.calls import Call
from agentrewind.integrations.proxy.client import Client, ClientLeft, Receive, Scope, SendEvent
from agentrewind.integrations.proxy.growing import Growing
from agentrewind.integrations.proxy.line import Line
from agentrewind.integrations.proxy.passage import Passage
from agentrewind.integrations.proxy.upstream import Family, Upstream

ANTHROPIC_MOUNT = b"/anthropic"
CONVERSATIONS = 256
"""How many calls are worked on at once; more wait for their turn."""
ENDING = "the run is ending."
NO_WEBSOCKET = "what goes over a websocket can't be recorded; ask the same by plain HTTP."
"""With the status that tells a client so (Codex then uses HTTP from the first call on)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how much."""

    keep_alive_s: float = 5.0
    """A streamed answer that takes longer is announced by a comment, and then so often."""
    body: int = 256 << 20
    """The largest request that is recorded, in bytes, unpacked."""
    silence_s: float = upstream.SILENCE_S
    """How long an upstream may send nothing."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What a client asked for: whose it is, its path here, and where it is there."""

    upstream: Upstream
    path: str
    raw: bytes
    """Path and query there."""

    @property
    def url(self) -> httpx.URL:
        return self.upstream.base.copy_with(raw_path=self.raw)


class App:
    """Answers the requests that carry `token` as the first part of their path; all others get 403.

    Must be made and used in one event loop; `close` ends it.
    """

    def __init__(
        self,
        interposer: Interposer,
        upstreams: Mapping[Family, Upstream],
        token: str,
        port: int,
        *,
        callers: Callers,
        limits: Limits,
    ) -> None:
        self._interposer, self._upstreams, self._callers, self._limits = interposer, upstreams, callers, limits
        self._token = token.encode("ascii")
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self._pool = ThreadPoolExecutor(CONVERSATIONS, thread_name_prefix="agentrewind call")
        trusted = httpx.create_ssl_context()
        self._passages = {family: Passage(to, trusted, limits.silence_s) for family, to in upstreams.items()}
        self._lines = {family: Line(to, trusted, limits.silence_s) for family, to in upstreams.items()}
        self._bodies = Growing()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._closing = False
        self.failures: list[Exception] = []
        """What went wrong in here that should not."""

    async def __call__(self, scope: Scope, receive: Receive, send: SendEvent) -> None:
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            await self._handle(scope, Client(scope, receive, send))
        except httpx.HTTPError:  # in the middle of what is passed on: the client's connection is cut, too
            raise
        except Exception as error:  # the server makes it a 500
            self.failures.append(error)
            raise

    async def close(self, drain_s: float) -> None:
        """Take no more requests; let those under way end, for so long, then cut them off. No thread is left."""
        self._closing = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=drain_s)
        for task in list(self._under_way):
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
        for line in self._lines.values():
            line.close()
        for passage in self._passages.values():
            await passage.close()

    async def _handle(self, scope: Scope, client: Client) -> None:
        refused, path = self._let_in(scope, client)
        if refused is not None:
            await client.answer(refused)
            return
        target = self._target(path, client.query)
        if client.header(b"upgrade").lower() == "websocket":
            await client.answer(answers.refusal(426, NO_WEBSOCKET))
            return
        try:
            if self._interposer.wants(client.method, target.upstream.base.host, target.path):
                await self._recorded(client, target)
            else:
                await self._passed(client, target, None)
        except ClientLeft:
            return
        except asyncio.CancelledError:  # by `close`
            if client.began and not client.kept_alive:
                raise
            await client.answer(answers.refusal(503, ENDING), target.path)

    # --- who may come in, and where to ---

    def _let_in(self, scope: Scope, client: Client) -> tuple[WireReply | None, bytes]:
        """The refusal of a request, or its path without the token."""
        if client.header(b"host").lower() not in self._hosts:
            return answers.refusal(403, "this address is only for programs on this machine (wrong Host header)."), b""
        _, token, rest = (*scope["raw_path"].split(b"/", 2), b"", b"")[:3]
        if not hmac.compare_digest(token, self._token):
            return answers.refusal(403, "the base URL lacks the token of this run; take it as it was printed."), b""
        if self._closing:
            return answers.refusal(503, ENDING), b""
        return None, b"/" + rest

    def _target(self, path: bytes, query: bytes) -> _Target:
        family: Family = "openai"
        if path == ANTHROPIC_MOUNT or path.startswith(ANTHROPIC_MOUNT + b"/"):
            family, path = "anthropic", path.removeprefix(ANTHROPIC_MOUNT)
        found = self._upstreams[family]
        return _Target(found, path.decode("latin-1"), found.target(path, query))

    # --- recorded ---

    async def _recorded(self, client: Client, target: _Target) -> None:
        try:
            content = await client.body(self._limits.body)
            encoding = client.header(b"content-encoding")
            body = bodies.parsed(content, encoding, self._limits.body, self._bodies.read)
        except bodies.TooLarge:
            await client.answer(answers.refusal(413, f"the request is larger than {self._limits.body:,} bytes."))
            return
        if isinstance(body, bodies.Unreadable):
            await self._passed(client, target, content)
            return
        reply = await self._called(client, target, body)
        await client.answer(reply, target.path)

    async def _called(self, client: Client, target: _Target, body: Json) -> WireReply:
        """The interposer's answer, with keep-alives to the client while a streamed one is waited for.

        Raises: ClientLeft: it gets none.
        """
        headers = upstream.for_new_body(target.upstream.headers(client.headers))

        line = self._lines[target.upstream.family]

        def ask(body: Json, caller: Call) -> WireReply:
            return line.ask(target.raw, headers, self._bodies.write(body), caller)

        call = Call(self._pool, self._work(client.port, target.path, body), ask)
        answered = call.start()
        left = asyncio.ensure_future(client.left())
        patience = self._limits.keep_alive_s if isinstance(body, dict) and body.get("stream") else None
        try:
            while not answered.done():
                await asyncio.wait((answered, left), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                _check_here(left)
                if not answered.done():
                    await client.keep_alive()
        except BaseException:
            call.leave()
            if not answered.done():
                await asyncio.wait((answered,))
            if answered.exception() is None:  # an error the journal has
                self._pool.submit(self._interposer.undelivered, answered.result())
            raise
        finally:
            left.cancel()
        return _outcome(answered)

    def _work(self, port: int, path: str, body: Json) -> Callable[[Send], WireReply]:
        def work(send: Send) -> WireReply:
            with self._callers.calling(port):
                return self._interposer.call(path, body, send)

        return work

    # --- passed on ---

    async def _passed(self, client: Client, target: _Target, content: bytes | None) -> None:
        """Byte for byte, both ways; `content` is the body where that was read already."""
        if content is None and not client.has_body:
            await client.body(0)
            content = b""
        headers = target.upstream.headers(client.headers)
        request = httpx.Request(
            client.method, target.url, headers=headers, content=client.chunks() if content is None else content or None
        )
        await client.while_here(self._piped(client, target, request))

    async def _piped(self, client: Client, target: _Target, request: httpx.Request) -> None:
        try:
            answer = await self._passages[target.upstream.family].send(request, has_body=client.has_body)
        except httpx.HTTPError as error:
            await client.answer(answers.unreachable(error))
            return
        try:
            await client.begin(answer.status_code, upstream.of_answer(answer.headers.raw))
            async for piece in answer.aiter_raw():
                await client.write(piece)
            await client.write(b"", more=False)
        finally:
            await answer.aclose()


def _check_here(left: asyncio.Future[None]) -> None:
    """Raises: ClientLeft."""
    if left.done():
        raise ClientLeft


def _outcome(answered: asyncio.Future[WireReply]) -> WireReply:
    """What the interposer made of a call, its failure too, as an answer. Raises: ClientLeft."""
    try:
        return answered.result()
    except httpx.HTTPError as error:
        return answers.unreachable(error)
    except AgentRewindError as error:
        return answers.refusal(500, f"the run can't be recorded any more: {error}")
