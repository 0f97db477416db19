"""Between the requests and responses of an HTTP library and what an interposer sees of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.wire import WireReply
from agentrewind.integrations.bodies import Unreadable, parsed, written

HttpRequest = Any
"""`httpx.Request` or `httpx2.Request`: two libraries with one shape, neither of which we import."""
HttpResponse = Any

_OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OF_THE_BYTES = frozenset({"content-encoding", "content-length"})


def body_of(request: HttpRequest) -> Json | Unreadable:
    """The parsed body of a request that was read."""
    return parsed(request.content, request.headers.get("content-encoding", ""))


def with_body(request: HttpRequest, body: Json) -> HttpRequest:
    """A copy of the request that carries `body`, uncompressed; all else, time limits included, is as it was."""
    headers = _without(request.headers.multi_items(), _OF_THE_BYTES | {"transfer-encoding"})
    return type(request)(
        request.method, request.url, headers=headers, content=written(body), extensions=request.extensions
    )


def reply_of(response: HttpResponse) -> WireReply:
    """A response that was read to its end."""
    headers = _without(response.headers.multi_items(), _OF_THE_CONNECTION | _OF_THE_BYTES)
    return WireReply(response.status_code, tuple(headers), response.content)


def response_of(library: ModuleType, reply: WireReply, request: HttpRequest, elapsed: dt.timedelta) -> HttpResponse:
    """The library's own response for the caller, with its body still to be read, as from the network."""
    headers = _without(reply.headers, _OF_THE_CONNECTION | _OF_THE_BYTES)
    headers.append(("content-length", str(len(reply.body))))
    stream = library.ByteStream(reply.body)
    response = library.Response(reply.status, headers=headers, stream=stream, request=request)
    response.elapsed = elapsed
    return response


def _without(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in names]
