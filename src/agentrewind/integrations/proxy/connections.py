"""Connections that recorded calls are made over: each is cut off from another thread, and tells how far a call came."""

from __future__ import annotations

import asyncio
import concurrent.futures
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import httpcore

_PIECE = 1 << 16


class Caller(Protocol):
    """Whoever waits for an answer, and may go away."""

    def holds(self, cut: Callable[[], object]) -> None:
        """From here on, `cut` ends what it waits for. Raises: ClientLeft: it has gone away already."""


@dataclass(eq=False, slots=True)
class Attempt:
    """One request, and what is known of the connection that it went over."""

    caller: Caller
    kept: bool = False
    """Whether that had carried a request before."""
    heard: bool = False
    """Whether a byte of an answer has come."""


class Attempts(threading.local):
    """The one that each thread is at."""

    current: Attempt


class Network(httpcore.NetworkBackend):
    """Connects in the event loop, so that a caller who goes away needn't wait for that either."""

    def __init__(self, loop: asyncio.AbstractEventLoop, attempts: Attempts) -> None:
        self._loop, self._attempts = loop, attempts

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        del local_address, socket_options
        try:
            made = _Making(host, port).made_for(self._attempts.current.caller, self._loop, timeout)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except (OSError, concurrent.futures.CancelledError) as error:
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(made, self._attempts)


class _Making:
    """A connection that an event loop makes for a thread. It is taken or closed, whatever comes in between."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._lock = threading.Lock()
        self._wanted = True
        self._made: socket.socket | None = None

    def made_for(self, caller: Caller, loop: asyncio.AbstractEventLoop, timeout: float | None) -> socket.socket:
        """Raises: OSError: there is none. CancelledError: it was cut off. ClientLeft."""
        caller.holds(lambda: None)  # who has gone away needs none
        done = asyncio.run_coroutine_threadsafe(self._make(), loop)
        try:
            caller.holds(done.cancel)
            done.result(timeout)
        except BaseException:
            done.cancel()
            self._give_up()
            raise
        assert self._made is not None
        return self._made

    async def _make(self) -> None:
        made = await _connected(self._host, self._port)
        with self._lock:
            if self._wanted:
                self._made = made
                return
        made.close()

    def _give_up(self) -> None:
        """Also where it was made before it could be cancelled."""
        with self._lock:
            self._wanted = False
            if self._made is not None:
                self._made.close()


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
    """A connection that belongs to the attempt that wrote to it last. What is written goes out when that is a lot, or
    an answer is waited for: head and body of a request in one piece.
    """

    def __init__(self, connected: socket.socket, attempts: Attempts) -> None:
        self._socket, self._attempts = connected, attempts
        self._lock = threading.Lock()
        self._unsent: list[bytes] = []
        self._owner: Attempt | None = None

    def _taken(self) -> None:
        """It belongs to the attempt of this thread. Raises: ClientLeft."""
        attempt = self._attempts.current
        if self._owner is not attempt:
            with self._lock:
                attempt.kept = self._owner is not None
                self._owner = attempt
        attempt.caller.holds(lambda: self._cut(attempt))

    def _cut(self, attempt: Attempt) -> None:
        with self._lock:
            if self._owner is attempt and self._socket.fileno() >= 0:
                # Not TLS's own, which would take the object apart that another thread reads from.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._unsent:
            self._send(timeout)
        try:
            self._socket.settimeout(timeout)
            found = self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        if found:
            self._attempts.current.heard = True
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:
            return
        self._taken()
        self._unsent.append(buffer)
        if sum(map(len, self._unsent)) > _PIECE:
            self._send(timeout)

    def _send(self, timeout: float | None) -> None:
        data, self._unsent = b"".join(self._unsent), []
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(data)
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
        try:
            self._taken()
            self._socket.settimeout(timeout)
            return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._attempts)
        except BaseException as error:
            self.close()  # the library doesn't
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout(str(error)) from error
            if isinstance(error, OSError):
                raise httpcore.ConnectError(str(error)) from error
            raise

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
