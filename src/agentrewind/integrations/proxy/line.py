"""The way to one provider for recorded calls: blocking, in the thread of the call, and cut off from another thread.

A recorded call has a thread of its own anyway, and a blocking request costs a third of the processor time of one that
an event loop makes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import select
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import httpcore
import httpx

from agentrewind.core.wire import WireReply
from agentrewind.integrations.proxy import upstream
from agentrewind.integrations.proxy.upstream import Headers, Upstream


class Caller(Protocol):
    """Whoever waits for an answer, and may go away."""

    def holds(self, cut: Callable[[], object]) -> None:
        """From here on, `cut` ends what it waits for. Raises: ClientLeft: it has gone away already."""


class Line:
    """Connections to one upstream, kept for a while. Thread-safe. Made in the event loop that connects them.

    Args:
        silence_s: how long the upstream may send nothing.
    """

    def __init__(self, to: Upstream, silence_s: float) -> None:
        self._to = to
        self._calls = threading.local()
        self._pool = _pool(to, _Network(asyncio.get_running_loop(), self._calls))
        self._extensions = {
            "timeout": {"connect": upstream.CONNECT_S, "read": silence_s, "write": silence_s, "pool": None}
        }

    def ask(self, target: bytes, headers: Headers, content: bytes, caller: Caller) -> WireReply:
        """The answer to a POST to this path and query of the upstream, read and decoded.

        Raises:
            httpx.HTTPError: there is none. ClientLeft.
        """
        self._calls.caller = caller
        base = self._to.base
        url = httpcore.URL(scheme=base.raw_scheme, host=base.raw_host, port=base.port, target=target)
        try:
            answer = self._pool.request("POST", url, headers=headers, content=content, extensions=self._extensions)
        except _ERRORS as error:
            raise _as_httpx(error) from error
        finally:
            self._calls.caller = None
        return WireReply(answer.status, upstream.of_read_answer(answer.headers), _decoded(answer))

    def close(self) -> None:
        self._pool.close()


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


def _as_httpx(error: Exception) -> httpx.HTTPError:
    """The error that httpx has for it: both call theirs alike."""
    kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__, httpx.TransportError)
    return kind(str(error))


# --- pools ------------------------------------------------------------------------------------------------------------


def _pool(to: Upstream, network: httpcore.NetworkBackend) -> httpcore.ConnectionPool:
    """Raises: ImportError: the environment names a SOCKS proxy, and `socksio` isn't there."""
    common: dict[str, Any] = {
        "ssl_context": httpx.create_ssl_context() if to.base.scheme == "https" else None,
        "max_connections": None,
        "max_keepalive_connections": upstream.KEPT,
        "keepalive_expiry": upstream.IDLE_S,
        "network_backend": network,
    }
    name = None if to.on_loopback else _proxy_of(to.base)
    if name is None:
        return httpcore.ConnectionPool(**common)
    proxy = httpx.Proxy(name)
    raw = proxy.url
    at = httpcore.URL(scheme=raw.raw_scheme, host=raw.raw_host, port=raw.port, target=raw.raw_path)
    if raw.scheme == "https":  # TLS inside of TLS, which the library knows how to do; its calls can't be cut off
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


# --- connections that can be cut off ----------------------------------------------------------------------------------


class _Network(httpcore.NetworkBackend):
    """Connects in the event loop, so that a caller who goes away needn't wait for that either."""

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: threading.local) -> None:
        self._loop, self._calls = loop, calls

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        del local_address, socket_options
        connecting = asyncio.run_coroutine_threadsafe(_connected(host, port), self._loop)
        self._calls.caller.holds(connecting.cancel)
        try:
            return _Stream(connecting.result(timeout), self._calls)
        except concurrent.futures.TimeoutError as error:
            connecting.cancel()
            raise httpcore.ConnectTimeout(str(error)) from error
        except (OSError, concurrent.futures.CancelledError) as error:
            raise httpcore.ConnectError(str(error)) from error


async def _connected(host: str, port: int) -> socket.socket:
    """A socket that is connected to one of the host's addresses. Raises: OSError: to none of them."""
    loop = asyncio.get_running_loop()
    failed = OSError(f"{host} has no address")
    for family, kind, number, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        found = socket.socket(family, kind, number)
        try:
            found.settimeout(0)
            await loop.sock_connect(found, address)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            found.close()
            failed = error
        except BaseException:
            found.close()
            raise
        else:
            return found
    raise failed


class _Stream(httpcore.NetworkStream):
    """A connection that belongs to the call that wrote to it last."""

    def __init__(self, connected: socket.socket, calls: threading.local) -> None:
        self._socket, self._calls = connected, calls
        self._lock = threading.Lock()
        self._owner: Caller | None = None

    def _taken(self) -> None:
        """It belongs to the call of this thread. Raises: ClientLeft."""
        caller: Caller = self._calls.caller
        if self._owner is not caller:
            with self._lock:
                self._owner = caller
        caller.holds(lambda: self._cut(caller))

    def _cut(self, caller: Caller) -> None:
        with self._lock:
            if self._owner is caller and self._socket.fileno() >= 0:
                # Not TLS's own, which would take the object apart that another thread reads from.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._socket.settimeout(timeout)
            return self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:
            return
        self._taken()
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        with self._lock:
            self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._taken()
        try:
            self._socket.settimeout(timeout)
            return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._calls)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error

    def get_extra_info(self, info: str) -> Any:
        """Whether the other side has something to say, or has left: then the pool takes another one."""
        if info == "is_readable":
            return _is_readable(self._socket)
        return self._socket if info == "socket" else None


def _is_readable(connection: socket.socket) -> bool:
    if connection.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
