"""The server: HTTP around a script and the APIs that it is played through."""

from __future__ import annotations

import itertools
import json
import re
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from agentrewind.core.codec import Json, digest
from agentrewind.testing.scripted.api import CREATED, Api, openai_error
from agentrewind.testing.scripted.chat import Chat
from agentrewind.testing.scripted.messages import Messages
from agentrewind.testing.scripted.request import Request, Script
from agentrewind.testing.scripted.responses import Responses
from agentrewind.testing.scripted.steps import Broken, Error, Hang, Step, Turn

_CALL_ID = re.compile(r"(?:call|toolu)_(\d{6,})")


class ScriptedModel:
    """The server, as a context manager. It listens on 127.0.0.1 only, on a free port.

    Leaving the `with` block ends every connection and thread, and raises what the script raised, if it did.

    Args:
        script: see the module.
        api_key: where given, requests without this key get status 401. It stands where each API has it:
            `Authorization: Bearer` or `x-api-key`.
        models: what `/v1/models` lists.
        remember: whether `requests`, `header_names`, `refused` and `Request.attempt` count what came; without, a server
            that answers for days doesn't grow.
        port: where to listen; 0 for any free port.
    """

    def __init__(
        self,
        script: Script,
        *,
        api_key: str = "",
        models: Sequence[str] = ("scripted",),
        remember: bool = True,
        port: int = 0,
    ) -> None:
        self._play = script if callable(script) else _Played(script)
        self._api_key = api_key
        self._models = tuple(models)
        self._lock = threading.Lock()
        self._asked: dict[str, int] = {}
        self._answers = itertools.count(1)
        self._calls = 0
        self._responses = Responses()
        self._apis: tuple[Api, ...] = (Chat(), self._responses, Messages())
        self._remember = remember
        self._number = itertools.count()
        self._server = _Server(self, port)
        self.requests: list[Json] = []
        """The bodies of all requests for an answer, refused ones too, in the order in which they came."""
        self.header_names: list[tuple[str, ...]] = []
        """The names (not the values) of their headers."""
        self.refused: list[str] = []
        """What was said of each request that got status 400."""
        self.failures: list[Exception] = []
        """What the script raised."""

    @property
    def root_url(self) -> str:
        """`http://127.0.0.1:PORT`: what Anthropic's SDK calls its base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT/v1`: what OpenAI's SDK calls so."""
        return f"{self.root_url}/v1"

    @property
    def last(self) -> Json:
        """The body of the newest request."""
        return self.requests[-1]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="scripted model")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.close()
        self._thread.join()
        if error is None and self.failures:
            raise self.failures[0]

    def api(self, path: str) -> Api | None:
        """The one behind this path."""
        return next((api for api in self._apis if api.path == path), None)

    def admits(self, headers: Mapping[str, str], apis: Sequence[Api] = ()) -> bool:
        """Whether a request shows the key, in the place of one of these APIs (of any, without)."""
        return not self._api_key or any(api.key(headers) == self._api_key for api in apis or self._apis)

    def kept(self, response_id: str) -> Json | None:
        """A response that was stored."""
        return self._responses.kept.get(response_id)

    def listing(self) -> Json:
        """The answer to `/v1/models`."""
        models = [{"id": name, "object": "model", "created": CREATED, "owned_by": "script"} for name in self._models]
        return {"object": "list", "data": models}

    def step(self, api: Api, body: Json, header_names: tuple[str, ...]) -> Step:
        """What the script answers to this request; an error where a strict provider refuses it."""
        with self._lock:
            number = next(self._number)
            if self._remember:
                self.requests.append(body)
                self.header_names.append(header_names)
            problem = api.refusal(body)
            if problem is not None:
                self.refused += [problem] * self._remember
                return Error(400, problem)
            whole = api.whole(body)
            attempt = self._attempt(digest(api.messages(whole))) if self._remember else 0
            try:
                return self._play(Request(body, number, attempt, header_names, api, whole))
            except Exception as error:  # noqa: BLE001 (a test's own code; raised again when the server is closed)
                self.failures.append(error)
                return Error(400, f"The script raised {type(error).__name__}: {error}")

    def _attempt(self, key: str) -> int:
        """How often this was asked before."""
        before = self._asked.get(key, 0)
        self._asked[key] = before + 1
        return before

    def response(self, api: Api, body: Json, turn: Turn) -> Json:
        """A whole response object, kept where the API keeps it. Ids count upwards, past every id in the request."""
        with self._lock:
            whole = api.whole(body)
            held = (int(found) for found in _CALL_ID.findall(json.dumps(api.messages(whole))))
            first = max(self._calls, *held, 0) + 1
            self._calls = first + len(turn.calls) - 1 if turn.calls else self._calls
            response = api.response(body, turn, next(self._answers), first)
            api.keep(whole, response)
            return response


class _Played:
    """A list of steps as a script."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = [step for step in steps for _ in range(step.times if isinstance(step, Error) else 1)]
        self._next = iter(self._steps)

    def __call__(self, request: Request) -> Step:
        step = next(self._next, None)
        if step is None:
            raise AssertionError(f"The script has {len(self._steps)} steps; request {request.number + 1} came.")
        return step


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, model: ScriptedModel, port: int) -> None:
        self.model = model
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def opened(self, connection: socket.socket) -> None:
        self._open.add(connection)

    def ended(self, connection: socket.socket) -> None:
        self._open.discard(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is its own affair; anything else is a mistake in here."""
        del request, client_address
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.model.failures.append(error)

    def close(self) -> None:
        """Stop listening, end the connections, wait for their threads."""
        self.closing.set()
        self.shutdown()
        for connection in list(self._open):
            _end(connection)
        self.server_close()


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    connection: socket.socket

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def finish(self) -> None:
        self.server.ended(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it)
        """Tests want silence."""

    def do_GET(self) -> None:
        model = self.server.model
        if not model.admits(self._headers):
            self._refuse(401, "Incorrect API key provided.", code="invalid_api_key")
            return
        path = self.path.rstrip("/")
        kept = model.kept(path.removeprefix("/v1/responses/"))
        if path == "/v1/models":
            self._json(200, model.listing())
        elif kept is not None:
            self._json(200, kept)
        else:
            self._refuse(404, f"Unknown path {self.path}")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        api = self.server.model.api(self.path.partition("?")[0].rstrip("/"))
        if not self.server.model.admits(self._headers, [api] if api else []):
            self._refuse(401, "Incorrect API key provided.", api, "invalid_api_key")
        elif api is None:
            self._refuse(404, f"Unknown path {self.path}")
        else:
            self._take(api, data)

    @property
    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _take(self, api: Api, data: bytes) -> None:
        missing = next((name for name in api.needs if name not in self._headers), None)
        if missing is not None:
            self._refuse(400, f"{missing}: header is required", api)
            return
        try:
            body = json.loads(data)
        except ValueError as error:
            self._refuse(400, f"The body is not JSON: {error}", api)
            return
        self._answer(api, body, self.server.model.step(api, body, tuple(name.lower() for name in self.headers)))

    def _answer(self, api: Api, body: Json, step: Step) -> None:
        match step:
            case Turn():
                response = self.server.model.response(api, body, step)
                if body.get("stream"):
                    self._stream(api.events(body, response))
                else:
                    self._json(200, response)
            case Error(status, message):
                self._refuse(status, message, api)
            case Hang(seconds):
                self.server.closing.wait(seconds)
                self._drop()
            case Broken():
                self._break(api, body, step)

    def _break(self, api: Api, body: Json, step: Broken) -> None:
        if body.get("stream") and (step.events or step.error):
            response = self.server.model.response(api, body, step.turn)
            sent = api.events(body, response)[: step.events]
            self._stream([*sent, api.broken(step.error)] if step.error else sent, complete=bool(step.error))
        if not step.error:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        _end(self.connection)

    def _refuse(self, status: int, message: str, api: Api | None = None, code: str | None = None) -> None:
        self._json(status, api.error(status, message, code) if api else openai_error(status, message, code))

    def _json(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, items: Sequence[str], *, complete: bool = True) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for item in items:
            data = item.encode("ascii")
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if complete:
            self.wfile.write(b"0\r\n\r\n")
