"""A real OpenAI-compatible server on loopback that plays a script instead of a model.

::

    def script(request: Request) -> Step:
        if request.turn == 0:
            return call("bash", {"command": "ls"})
        return say(f"The files are {request.results[-1]}")

    with ScriptedModel(script) as model:
        client = OpenAI(base_url=model.base_url, api_key="any")
        ...
        assert model.last["messages"][-1]["role"] == "tool"

A script is a function of the request, which keeps it free of state (`request.turn` counts the assistant messages in
it) and is called for one request at a time; or a list of steps, played in the order in which requests come. The server
refuses, with status 400, what a strict provider refuses: broken pairs of calls and results, empty messages, tools
declared twice.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import ClassVar, Self

from agentrewind.core.codec import Json, canonical, digest

CREATED = 1_700_000_000
_CHARACTERS_PER_TOKEN = 4
_CALL_ID = re.compile(r"call_(\d{6,})")
_PIECE = 24
_ROLES = ("system", "developer", "user", "assistant", "tool")


# --- steps of a script ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. Arguments that are text are sent as they are, for JSON that doesn't parse."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer of the model."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    """Goes out as `reasoning_content`, where there is any."""
    finish: str = ""
    """The finish reason; empty for the usual one."""


@dataclass(frozen=True, slots=True)
class Error:
    """An answer with an error status. In a list of steps it is played `times` times."""

    status: int
    message: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer for so many seconds (None: until the server is closed), then the connection ends."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """An answer that stops after so many events of its stream: by an error in the stream or, without one, by a dropped
    connection. With none (and to a plain request) not one byte is sent.
    """

    turn: Turn = field(default_factory=Turn)
    events: int = 0
    error: str = ""


Step = Turn | Error | Hang | Broken


def say(text: str, *, reasoning: str = "") -> Turn:
    """The model answers with text."""
    return Turn(text, reasoning=reasoning)


def call(name: str, args: Json, text: str = "") -> Turn:
    """The model calls one tool."""
    return Turn(text, (Call(name, args),))


def calls(items: Sequence[tuple[str, Json]], text: str = "") -> Turn:
    """The model calls several tools at once."""
    return Turn(text, tuple(itertools.starmap(Call, items)))


def fail(status: int, message: str, times: int = 1) -> Error:
    """The provider answers with an error. In a function, count with `request.attempt` instead of `times`."""
    return Error(status, message, times)


def hang(seconds: float | None = None) -> Hang:
    """The provider doesn't answer."""
    return Hang(seconds)


def drop(turn: Turn | None = None, *, events: int = 0) -> Broken:
    """The connection is dropped: at once, or after so many events of a streamed `turn`."""
    return Broken(turn or Turn(), events)


def break_off(turn: Turn, *, events: int, error: str) -> Broken:
    """A streamed answer ends in an error object after so many events."""
    return Broken(turn, events, error)


@dataclass(frozen=True, slots=True)
class Request:
    """What a script may look at."""

    body: Json
    number: int
    """0 for the first request that the server got."""
    attempt: int
    """How many requests with these same messages came before."""
    header_names: tuple[str, ...]
    """Lower case; the values are not kept."""

    @property
    def messages(self) -> list[Json]:
        return list(self.body["messages"])

    @property
    def turn(self) -> int:
        """How many assistant messages the request holds."""
        return sum(message["role"] == "assistant" for message in self.body["messages"])

    @property
    def results(self) -> list[str]:
        """The texts of the tool messages, in order."""
        return [_text(message["content"]) for message in self.body["messages"] if message["role"] == "tool"]

    @property
    def tools(self) -> list[str]:
        """The names of the declared tools."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or ()]

    def says(self, text: str) -> bool:
        """Whether any message contains `text`."""
        return any(text in _text(message.get("content")) for message in self.body["messages"])


Script = Callable[[Request], Step] | Sequence[Step]


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


# --- the server -------------------------------------------------------------------------------------------------------


class ScriptedModel:
    """The server, as a context manager. It listens on 127.0.0.1 only, on a free port.

    Leaving the `with` block ends every connection and thread, and raises what the script raised, if it did.

    Args:
        script: see the module.
        api_key: where given, requests without `Authorization: Bearer` and this key get status 401.
        models: what `/v1/models` lists.
    """

    def __init__(self, script: Script, *, api_key: str = "", models: Sequence[str] = ("scripted",)) -> None:
        self._play = script if callable(script) else _Played(script)
        self._api_key = api_key
        self._models = tuple(models)
        self._lock = threading.Lock()
        self._asked: dict[str, int] = {}
        self._answers = itertools.count(1)
        self._calls = 0
        self._server = _Server(self)
        self.requests: list[Json] = []
        """The bodies of all requests for a completion, refused ones too, in the order in which they came."""
        self.header_names: list[tuple[str, ...]] = []
        """The names (not the values) of their headers."""
        self.refused: list[str] = []
        """What was said of each request that got status 400."""
        self.failures: list[Exception] = []
        """What the script raised."""

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

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

    def authorized(self, header: str) -> bool:
        return not self._api_key or header == f"Bearer {self._api_key}"

    def listing(self) -> Json:
        """The answer to `/v1/models`."""
        models = [{"id": name, "object": "model", "created": CREATED, "owned_by": "script"} for name in self._models]
        return {"object": "list", "data": models}

    def step(self, body: Json, header_names: tuple[str, ...]) -> Step:
        """What the script answers to this request; an error where a strict provider refuses it."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.header_names.append(header_names)
            problem = refusal(body)
            if problem is not None:
                self.refused.append(problem)
                return Error(400, problem)
            key = digest(body["messages"])
            attempt = self._asked.get(key, 0)
            self._asked[key] = attempt + 1
            try:
                return self._play(Request(body, number, attempt, header_names))
            except Exception as error:  # noqa: BLE001 (a test's own code; raised again when the server is closed)
                self.failures.append(error)
                return Error(400, f"The script raised {type(error).__name__}: {error}")

    def response(self, body: Json, turn: Turn) -> Json:
        """A whole response object. Ids count upwards, past every id that the request holds."""
        with self._lock:
            held = (int(found) for found in _CALL_ID.findall(json.dumps(body["messages"])))
            first = max(self._calls, *held, 0) + 1
            self._calls = first + len(turn.calls) - 1 if turn.calls else self._calls
            number = next(self._answers)
        return response_to(body, turn, f"chatcmpl-{number:06d}", first)


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

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

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
    _kinds: ClassVar[dict[int, str]] = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        429: "rate_limit_error",
    }

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def finish(self) -> None:
        self.server.ended(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it)
        """Tests want silence."""

    def do_GET(self) -> None:
        if not self._authorized():
            return
        if self.path.rstrip("/") == "/v1/models":
            self._json(200, self.server.model.listing())
        else:
            self._refuse(404, f"Unknown path {self.path}")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self._authorized():
            return
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._refuse(404, f"Unknown path {self.path}")
            return
        try:
            body = json.loads(data)
        except ValueError as error:
            self._refuse(400, f"The body is not JSON: {error}")
            return
        self._answer(body, self.server.model.step(body, tuple(name.lower() for name in self.headers)))

    def _authorized(self) -> bool:
        known = self.server.model.authorized(self.headers.get("authorization") or "")
        if not known:
            self._refuse(401, "Incorrect API key provided.", "invalid_api_key")
        return known

    def _answer(self, body: Json, step: Step) -> None:
        match step:
            case Turn():
                response = self.server.model.response(body, step)
                if body.get("stream"):
                    self._stream([*_data(chunks(response, usage=_wants_usage(body))), "[DONE]"])
                else:
                    self._json(200, response)
            case Error(status, message):
                self._refuse(status, message)
            case Hang(seconds):
                self.server.closing.wait(seconds)
                self._drop()
            case Broken():
                self._break(body, step)

    def _break(self, body: Json, step: Broken) -> None:
        if body.get("stream") and (step.events or step.error):
            response = self.server.model.response(body, step.turn)
            sent = list(_data(chunks(response, usage=False)))[: step.events]
            if step.error:
                sent.append(json.dumps({"error": {"message": step.error, "type": "server_error", "code": 500}}))
            self._stream(sent, complete=bool(step.error))
        if not step.error:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        _end(self.connection)

    def _refuse(self, status: int, message: str, code: str | None = None) -> None:
        kind = self._kinds.get(status, "server_error")
        self._json(status, {"error": {"message": message, "type": kind, "param": None, "code": code}})

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
            data = f"data: {item}\n\n".encode("ascii")
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if complete:
            self.wfile.write(b"0\r\n\r\n")


# --- answers ----------------------------------------------------------------------------------------------------------


def response_to(body: Json, turn: Turn, answer_id: str, first_call: int) -> Json:
    """The whole response object; tool calls are numbered from `first_call`."""
    message: dict[str, Json] = {"role": "assistant", "content": turn.text or (None if turn.calls else "")}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    message |= {"refusal": None, "annotations": []}
    if turn.calls:
        message["tool_calls"] = [_tool_call(item, first_call + at) for at, item in enumerate(turn.calls)]
    finish = turn.finish or ("tool_calls" if turn.calls else "stop")
    return {
        "id": answer_id,
        "object": "chat.completion",
        "created": CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(body, message),
    }


def _tool_call(item: Call, number: int) -> Json:
    arguments = item.arguments if isinstance(item.arguments, str) else json.dumps(item.arguments)
    return {"id": f"call_{number:06d}", "type": "function", "function": {"name": item.name, "arguments": arguments}}


def _usage(body: Json, message: Json) -> Json:
    asked = _tokens([body["messages"], body.get("tools") or []])
    answered = _tokens(message)
    reasoning = _tokens(message["reasoning_content"]) if "reasoning_content" in message else 0
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _tokens(value: Json) -> int:
    return -(-len(canonical(value)) // _CHARACTERS_PER_TOKEN)


def _wants_usage(body: Json) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))


def chunks(response: Json, *, usage: bool) -> Iterator[Json]:
    """The response as the chunks of a stream, texts and arguments in pieces; `usage` adds the chunk that carries it."""
    frame = {key: response[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = response["choices"][0]
    for delta in _deltas(choice["message"]):
        yield {**frame, "choices": [_chunk_choice(delta, None)], **({"usage": None} if usage else {})}
    ended = _chunk_choice({}, choice["finish_reason"])
    yield {**frame, "choices": [ended], **({"usage": None} if usage else {})}
    if usage:
        yield {**frame, "choices": [], "usage": response["usage"]}


def _chunk_choice(delta: Json, finish: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _deltas(message: Json) -> Iterator[Json]:
    yield {"role": "assistant", "content": None if message["content"] is None else "", "refusal": None}
    for name in ("reasoning_content", "content"):
        for piece in _pieces(message.get(name) or ""):
            yield {name: piece}
    for index, item in enumerate(message.get("tool_calls", ())):
        function = item["function"]
        head = {"index": index, "id": item["id"], "type": "function"}
        yield {"tool_calls": [head | {"function": {"name": function["name"], "arguments": ""}}]}
        for piece in _pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _data(payloads: Iterator[Json]) -> Iterator[str]:
    return map(json.dumps, payloads)


# --- what a strict provider refuses -----------------------------------------------------------------------------------


def refusal(body: Json) -> str | None:
    """Why a strict provider answers this request with status 400; None where it doesn't.

    Written apart from `agentrewind.dialects`, so that neither hides a mistake of the other.
    """
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "[] is too short - 'messages'"
    if body.get("stream_options") and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    return _tools_refusal(body) or _messages_refusal(messages)


def _tools_refusal(body: Json) -> str | None:
    tools = body.get("tools")
    if tools is None:
        return "'tool_choice' is only allowed when 'tools' are specified." if body.get("tool_choice") else None
    if not isinstance(tools, list) or not tools:
        return "[] is too short - 'tools'"
    names = [tool.get("function", {}).get("name") for tool in tools]
    doubled = next((name for name in names if names.count(name) > 1), None)
    return f"Tool names must be unique: {doubled}" if doubled else None


def _messages_refusal(messages: Sequence[Json]) -> str | None:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return f"Invalid role in {where}"
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"{where}: a 'tool' message must follow a message with 'tool_calls' that has its 'tool_call_id'"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return _unanswered(waiting)
        problem = _form_refusal(message)
        if problem:
            return f"{where}: {problem}"
        waiting += [item["id"] for item in message.get("tool_calls", ())]
    return _unanswered(waiting) if waiting else None


def _unanswered(waiting: Sequence[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(waiting)}"
    )


def _form_refusal(message: Json) -> str | None:
    asked = message.get("tool_calls")
    if "tool_calls" in message and (message["role"] != "assistant" or not isinstance(asked, list) or not asked):
        return "'tool_calls' must be a non-empty list, on an assistant message"
    ids = [item.get("id") for item in asked or ()]
    if len(set(ids)) < len(ids) or not all(isinstance(item, str) for item in ids):
        return "each tool call needs an 'id' of its own"
    content = message.get("content")
    if content is None:
        return None if asked else "'content' is missing"
    return None if isinstance(content, str | list) else "'content' must be a string or an array"
