"""The way to one provider for recorded calls: blocking, in the thread of the call, and cut off from another thread.

A recorded call has a thread of its own anyway, and a blocking request costs a third of the processor time of one that
an event loop makes.
"""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from typing import Any

import httpcore
import httpx

from agentrewind.core.wire import WireReply
from agentrewind.integrations.proxy import upstream
from agentrewind.integrations.proxy.connections import Attempt, Attempts, Caller, Network
from agentrewind.integrations.proxy.upstream import Headers, Upstream


class Line:
    """Connections to one upstream, kept for a while. Thread-safe. Made in the event loop that connects them.

    Args:
        silence_s: how long the upstream may send nothing.
    """

    def __init__(self, to: Upstream, trusted: ssl.SSLContext, silence_s: float) -> None:
        self._to = to
        self._attempts = Attempts()
        network = Network(asyncio.get_running_loop(), self._attempts)
        self._pool, self._fresh = (_pool(to, trusted, network, kept) for kept in (upstream.KEPT, 0))
        self._extensions = {
            "timeout": {"connect": upstream.CONNECT_S, "read": silence_s, "write": silence_s, "pool": None}
        }

    def ask(self, target: bytes, headers: Headers, content: bytes, caller: Caller) -> WireReply:
        """The answer to a POST to this path and query of the upstream, read and decoded.

        The upstream may hang up on a kept connection at the moment at which it is used. So a call over such a one that
        breaks before a byte of an answer is made once more, over a new one, as browsers do. A call over a new one never
        is. In the worst case the upstream has worked on both.

        Raises:
            httpx.HTTPError: there is none. ClientLeft.
        """
        base = self._to.base
        url = httpcore.URL(scheme=base.raw_scheme, host=base.raw_host, port=base.port, target=target)
        request = {"url": url, "headers": headers, "content": content, "extensions": self._extensions}
        try:
            answer = self._answer(request, caller)
        except _ERRORS as error:
            raise _as_httpx(error) from error
        return WireReply(answer.status, upstream.of_read_answer(answer.headers), _decoded(answer))

    def _answer(self, request: dict[str, Any], caller: Caller) -> httpcore.Response:
        first = Attempt(caller)
        try:
            return self._attempt(self._pool, request, first)
        except _BROKEN:
            if first.heard or not first.kept:
                raise
        return self._attempt(self._fresh, request, Attempt(caller))

    def _attempt(self, pool: httpcore.ConnectionPool, request: dict[str, Any], attempt: Attempt) -> httpcore.Response:
        self._attempts.current = attempt
        try:
            return pool.request("POST", **request)
        finally:
            del self._attempts.current

    def close(self) -> None:
        self._pool.close()
        self._fresh.close()


def _decoded(answer: httpcore.Response) -> bytes:
    """Raises: httpx.DecodingError: it is packed otherwise than it says."""
    if any(name.lower() == b"content-encoding" for name, _ in answer.headers):  # although we asked for none
        return httpx.Response(answer.status, headers=answer.headers, content=answer.content).content
    return answer.content


_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
)
_BROKEN = (httpcore.NetworkError, httpcore.RemoteProtocolError)


def _as_httpx(error: Exception) -> httpx.HTTPError:
    """The error that httpx has for it: both call theirs alike."""
    kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__, httpx.TransportError)
    return kind(str(error))


# --- pools ------------------------------------------------------------------------------------------------------------


def _pool(
    to: Upstream, trusted: ssl.SSLContext, network: httpcore.NetworkBackend, kept: int
) -> httpcore.ConnectionPool:
    """Raises: ImportError: the environment names a SOCKS proxy, and `socksio` isn't there."""
    common: dict[str, Any] = {
        "ssl_context": trusted,
        "max_connections": None,
        "max_keepalive_connections": kept,
        "keepalive_expiry": upstream.IDLE_S,
        "network_backend": network,
    }
    name = None if to.on_loopback else _proxy_of(to.base)
    if name is None:
        return httpcore.ConnectionPool(**common)
    proxy = httpx.Proxy(name)
    raw = proxy.url
    at = httpcore.URL(scheme=raw.raw_scheme, host=raw.raw_host, port=raw.port, target=raw.raw_path)
    if raw.scheme == "https":  # TLS inside of TLS, which the library does; its calls aren't cut off, nor made again
        common["network_backend"] = httpcore.SyncBackend()
    if raw.scheme.startswith("socks"):
        return httpcore.SOCKSProxy(proxy_url=at, proxy_auth=proxy.raw_auth, **common)
    return httpcore.HTTPProxy(proxy_url=at, proxy_auth=proxy.raw_auth, **common)


def _proxy_of(url: httpx.URL) -> str | None:
    """The proxy that the environment names for this address."""
    named = urllib.request.getproxies()
    found = named.get(url.scheme) or named.get("all")
    if not found or urllib.request.proxy_bypass(url.netloc.decode("ascii")):
        return None
    return found if "://" in found else f"http://{found}"
