"""A raw provider, an interposer that only looks on, and a proxy between them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from agentrewind.core.wire import WireReply
from agentrewind.integrations.proxy import Callers, Listening, Proxy, Upstream
from agentrewind.integrations.proxy.app import Limits

CHAT = "/v1/chat/completions"


@dataclass
class Passing:
    """An interposer that sends what it gets, adds a field, and keeps what it saw."""

    seen: list = field(default_factory=list)
    outcomes: list = field(default_factory=list)
    act: Callable | None = None
    lost: list = field(default_factory=list)

    def undelivered(self, reply: WireReply) -> None:
        self.lost.append(reply)

    def wants(self, method: str, host: str, path: str) -> bool:
        del host
        return method == "POST" and path.endswith(("/chat/completions", "/messages", "/responses"))

    def call(self, path: str, body, send) -> WireReply:
        self.seen.append((path, body))
        try:
            reply = self.act(body, send) if self.act else send({**body, "added": True})
        except BaseException as error:
            self.outcomes.append(error)
            raise
        self.outcomes.append(reply)
        return reply


@dataclass
class Asked:
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class Provider:
    """A raw HTTP server: keeps what it was asked, byte for byte, and answers as `answer` says."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Callable[[Answering], None] = lambda to: to.json({"answered": True})
        self.left = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None: ...

            def handle_any(self) -> None:
                body = self._chunked() if self.headers.get("transfer-encoding") else self._plain()
                asked = Asked(self.command, self.path, self.headers.items(), body)
                provider.asked.append(asked)
                provider.answer(Answering(self, provider, asked))

            def _plain(self) -> bytes:
                return self.rfile.read(int(self.headers.get("content-length") or 0))

            def _chunked(self) -> bytes:
                found = b""
                while size := int(self.rfile.readline(), 16):
                    found += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return found

        for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            setattr(Handler, f"do_{method}", Handler.handle_any)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@dataclass
class Answering:
    handler: BaseHTTPRequestHandler
    provider: Provider
    asked: Asked

    def raw(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.handler.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def json(self, value: object, status: int = 200) -> None:
        self.raw(status, {"content-type": "application/json"}, json.dumps(value).encode())

    def begin_stream(self) -> None:
        self.handler.send_response(200)
        self.handler.send_header("content-type", "text/event-stream")
        self.handler.send_header("transfer-encoding", "chunked")
        self.handler.end_headers()

    def chunk(self, piece: bytes) -> None:
        self.handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.handler.wfile.flush()

    def wait_until_left(self, seconds: float = 10.0) -> None:
        """Answer nothing until the other side hangs up."""
        self.handler.connection.settimeout(seconds)
        try:
            if self.handler.connection.recv(1) == b"":
                self.provider.left.set()
        except OSError:
            pass
        self.handler.close_connection = True


@dataclass
class Front:
    """A running proxy, and a plain way to ask it."""

    proxy: Proxy
    opened: ExitStack
    """Closes what was connected here, also where a test fails in the middle."""

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.proxy.listening.port

    def path(self, rest: str) -> str:
        return f"/{self.proxy.listening.token}{rest}"

    def ask(
        self, method: str, rest: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        try:
            connection.request(method, self.path(rest), body, headers or {})
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def chat(self, body: dict, **headers: str) -> tuple[int, dict[str, str], bytes]:
        return self.ask("POST", CHAT, json.dumps(body).encode(), {"content-type": "application/json", **headers})

    def client(self) -> http.client.HTTPConnection:
        """A connection for any number of requests after one another."""
        return self.opened.enter_context(closing(http.client.HTTPConnection(*self.address, timeout=10)))

    def connect(self, rest: str, body: dict) -> socket.socket:
        """A raw connection on which one POST was sent."""
        made = self.opened.enter_context(socket.create_connection(self.address, timeout=20))
        data = json.dumps(body).encode()
        head = [
            f"POST {self.path(rest)} HTTP/1.1",
            f"Host: 127.0.0.1:{self.address[1]}",
            f"Content-Length: {len(data)}",
        ]
        made.sendall("\r\n".join([*head, "", ""]).encode() + data)
        return made


@contextmanager
def front(
    interposer: object,
    *base_urls: str,
    key: str = "",
    limits: Limits = Limits(),  # noqa: B008
    callers: Callers | None = None,
) -> Iterator[Front]:
    openai, anthropic = (*base_urls, base_urls[0].removesuffix("/v1"))[:2]
    upstreams = {
        "openai": Upstream(openai, api_key=key),
        "anthropic": Upstream(anthropic, "anthropic", key),
    }
    with Proxy(interposer, upstreams, Listening(), callers=callers, limits=limits) as proxy, ExitStack() as opened:
        yield Front(proxy, opened)


class Fickle:
    """A server on raw sockets that answers the first requests of a connection, and hangs up on the next in some way.

    Args:
        patience: how many requests are answered on the first connection, on the second one, …; the last holds on.
        hang_up: called when more than that comes; nothing of the request has been read by then.
    """

    def __init__(self, patience: list[int], hang_up: Callable[[socket.socket], object]) -> None:
        self._patience, self._hang_up = patience, hang_up
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            answered = self._patience[min(self.connections, len(self._patience) - 1)]
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=(connection, answered)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket, answered: int) -> None:
        with connection:
            for _ in range(answered):
                if not read_request(connection):
                    return
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            self._hang_up(connection)


def read_request(connection: socket.socket) -> bytes:
    """All of one request; nothing, where the other side leaves instead."""
    found = b""
    while b"\r\n\r\n" not in found:
        piece = connection.recv(1 << 16)
        if not piece:
            return b""
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def until(what: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it didn't come to that"
        time.sleep(0.01)


def dead_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
