"""The way to one provider for what is passed on as it is: in the event loop, body by body as it comes."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from agentrewind.integrations.proxy import upstream
from agentrewind.integrations.proxy.upstream import Upstream

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that a proxy may repeat where nobody asked for that (RFC 9110, 9.2.1 and 9.2.2)."""


class Passage:
    """Connections to one upstream, kept for a while. Upstreams on loopback are never reached through a proxy."""

    def __init__(self, to: Upstream, trusted: ssl.SSLContext, silence_s: float) -> None:
        self._kept, self._fresh = (
            httpx.AsyncClient(
                trust_env=not to.on_loopback,
                verify=trusted,
                timeout=httpx.Timeout(silence_s, connect=upstream.CONNECT_S, pool=None),
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=kept, keepalive_expiry=upstream.IDLE_S
                ),
            )
            for kept in (upstream.KEPT, 0)
        )

    async def send(self, request: httpx.Request, *, has_body: bool) -> httpx.Response:
        """The answer, whose body is still to come.

        The upstream may hang up on a kept connection at the moment at which it is used: then what only asks is asked
        once more, over a new one.

        Raises: httpx.HTTPError: there is none.
        """
        if has_body or request.method not in _HARMLESS:
            return await self._kept.send(request, stream=True)
        connections = _Connections()
        request.extensions["trace"] = connections.traced
        try:
            return await self._kept.send(request, stream=True)
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            if connections.made:
                raise
        return await self._fresh.send(request, stream=True)

    async def close(self) -> None:
        await self._kept.aclose()
        await self._fresh.aclose()


class _Connections:
    """How many were made for a request; none, where it went over a kept one."""

    def __init__(self) -> None:
        self.made = 0

    async def traced(self, event: str, _: Mapping[str, Any]) -> None:
        self.made += event.endswith("connect_tcp.started")
