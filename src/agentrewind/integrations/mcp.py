"""The two tools and the history of a run, for clients of the Model Context Protocol.

The package `mcp` is an extra. Its server has one name up to version 1 and another one from 2 on; what we use of it is
the same in both.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Annotated, Any

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError
from agentrewind.core.tools import TOOLS, ToolSpec
from agentrewind.engine.by_program import Told
from agentrewind.integrations.proxy.server import Listening

NAME = "agentrewind"
PATH = "/mcp"
INSTRUCTIONS = (
    "Going back: the two tools return this conversation and the files of the workspace to an earlier step. The"
    " resources show the history of the run; they change nothing."
)

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Offered:
    """What a client can ask for. May block; whatever is an `AgentRewindError` is told to the client."""

    call: Callable[[str, Json], Told]
    """One of the two tools, with its arguments."""
    tree: Callable[[], str]
    memory: Callable[[], str]
    diff: Callable[[str], str]
    """From just before this record to the files of now."""


def server(offered: Offered) -> Any:
    """A server that speaks to one client or to many. Nothing that a client does with it changes what it offers."""
    made = _class()(NAME, instructions=INSTRUCTIONS, log_level="CRITICAL")
    for spec in TOOLS:
        made.add_tool(_tool(spec, offered), name=spec.name, description=spec.description, structured_output=False)

    async def tree() -> str:
        return await asyncio.to_thread(_told, offered.tree)

    async def memory() -> str:
        return await asyncio.to_thread(_told, offered.memory)

    async def diff(record: str) -> str:
        return await asyncio.to_thread(_told, lambda: offered.diff(record))

    plain = {"mime_type": "text/plain"}
    made.resource("agentrewind://tree", name="tree", description="The steps of the run and its rewinds.", **plain)(tree)
    made.resource("agentrewind://memory", name="memory", description="The notes that crossed over.", **plain)(memory)
    made.resource(
        "agentrewind://diff/{record}",
        name="diff",
        description="What changed in the files from just before the record (rec_000012) to now.",
        **plain,
    )(diff)
    return made


def _class() -> Any:
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        from mcp.server.fastmcp import FastMCP

        return FastMCP
    return MCPServer


def _failure(text: str) -> Exception:
    """What makes a result an error with this text."""
    try:
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        from mcp.server.fastmcp.exceptions import ToolError
    error: Exception = ToolError(text)
    return error


def _told(ask: Callable[[], str]) -> str:
    """What a resource says; why there is none, where there is none."""
    try:
        return ask()
    except AgentRewindError as error:
        return str(error)


def _tool(spec: ToolSpec, offered: Offered) -> Callable[..., Awaitable[str]]:
    """A function with the parameters of the tool, of which the package makes its schema."""
    from pydantic import Field

    async def called(**given: str) -> str:
        try:
            told = await asyncio.to_thread(offered.call, spec.name, given)
        except AgentRewindError as error:
            raise _failure(str(error)) from error
        if not told.ok:
            raise _failure(told.text)
        return told.text

    required = spec.parameters["required"]
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if name in required else "",
            annotation=Annotated[str, Field(description=schema["description"])],
        )
        for name, schema in spec.parameters["properties"].items()
    ]
    called.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    called.__annotations__ = {item.name: item.annotation for item in parameters} | {"return": str}
    return called


def serve_stdio(offered: Offered) -> None:
    """Serve the client at standard input and output until it leaves."""
    asyncio.run(server(offered).run_stdio_async())


def serve_http(offered: Offered, listening: Listening) -> None:
    """Serve clients at `address` until Ctrl-C or SIGTERM."""
    import uvicorn

    app = Guarded(server(offered).streamable_http_app(), listening)
    config = uvicorn.Config(
        app, log_config=None, log_level="critical", access_log=False, lifespan="on", ws="none", proxy_headers=False
    )
    uvicorn.Server(config).run(sockets=[listening.socket])


def address(listening: Listening) -> str:
    """What a client is told. It holds the token."""
    return f"http://127.0.0.1:{listening.port}/{listening.token}{PATH}"


class Guarded:
    """Lets in what knows the token, names this machine as its host, and isn't a page of somebody else's in a browser.

    All others get status 403, and nothing of the app.
    """

    def __init__(self, app: App, listening: Listening) -> None:
        names = [f"{name}:{listening.port}" for name in ("127.0.0.1", "localhost")]
        self._app, self._token = app, listening.token.encode("ascii")
        self._hosts = frozenset(name.encode() for name in names)
        self._origins = frozenset(f"http://{name}".encode() for name in names)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._admits(scope):
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        path = scope["path"][len(self._token) + 1 :]
        await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    def _admits(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        token = scope["raw_path"].split(b"/", 2)[1:2]
        return (
            headers.get(b"host", b"").lower() in self._hosts
            and headers.get(b"origin", next(iter(self._origins))) in self._origins
            and hmac.compare_digest(b"".join(token), self._token)
        )
