"""The page: runs in the browser, on this machine's loopback. Reads journals and snapshots, and asks as a person does.

The work blocks (files, locks), so each request's is done in a thread, one at a time.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from agentrewind.compose.home import Home
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, UnknownRecord, UnknownRun, UsageError
from agentrewind.integrations.loopback import listening
from agentrewind.ui.acting import Acts
from agentrewind.ui.detail import diff_detail, state_detail, step_detail
from agentrewind.ui.guard import Guard
from agentrewind.ui.overview import overview
from agentrewind.ui.source import Source

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = files("agentrewind.ui") / "static"
_TYPES = {"app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}
_MOST_BODY = 1 << 20
_BACKLOG = 64


class Page:
    """The server of the page. A context manager: it answers inside, at `link`.

    Args:
        port: 0 for a free one.

    Raises:
        UsageError: the port is taken, or a package is missing.
    """

    def __init__(self, home: Home, *, port: int = 0) -> None:
        _check_installed()
        self._socket = listening(port, _BACKLOG)
        self._port: int = self._socket.getsockname()[1]
        self._guard = Guard(self._port)
        self._source, self._acts = Source(home), Acts(home)
        self._lock = threading.Lock()
        self._server: Any = None
        self._thread = threading.Thread(target=self._serve, name="agentrewind page", daemon=True)
        self._ready = threading.Event()

    def link(self, run_id: str = "") -> str:
        """Where a run is shown, or the list of all; it holds the key to the page."""
        where = f"run/{run_id}" if run_id else ""
        return f"http://127.0.0.1:{self._port}/{where}?token={self._guard.token}"

    def __enter__(self) -> Self:
        import uvicorn

        config = uvicorn.Config(
            self._guard.around(self._app()), log_config=None, access_log=False, lifespan="off", ws="none",
            server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread.start()
        self._ready.wait()
        return self

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the main thread
        self._ready.set()
        self._server.run(sockets=[self._socket])

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join(5)
        self._socket.close()

    def _app(self) -> Any:
        from starlette.applications import Starlette
        from starlette.routing import Route

        acts, source = self._acts, self._source
        return Starlette(
            routes=[
                Route("/", self._shell),
                Route("/run/{run}", self._shell),
                Route("/static/{name}", self._asset),
                self._get("/api/runs", lambda _: source.runs()),
                self._get("/api/run/{run}", self._overview),
                self._get("/api/run/{run}/version", lambda ask: {"version": source.version(ask.run)}),
                self._get("/api/run/{run}/step/{uid}", self._step),
                self._get("/api/run/{run}/state/{uid}", lambda ask: state_detail(source.run(ask.run), ask.uid)),
                self._get("/api/run/{run}/diff", self._diff),
                self._get("/api/request/{run}", lambda ask: acts.outcome(ask.run)),
                self._post("/api/request/{run}/withdraw", lambda ask: acts.withdraw(ask.run)),
                self._post("/api/run/{run}/preview", lambda ask: acts.preview(
                    source.run(ask.run), ask.text("to"), keep_drift=ask.flag("keep_drift")
                )),
                self._post("/api/run/{run}/rewind", lambda ask: acts.rewind(
                    source.run(ask.run), ask.text("to"), ask.text("note"), keep_drift=ask.flag("keep_drift")
                )),
                self._post("/api/run/{run}/undo", lambda ask: acts.undo(source.run(ask.run))),
                self._post("/api/run/{run}/pause", lambda ask: acts.pause(source.run(ask.run))),
                self._post("/api/run/{run}/unpause", lambda ask: acts.unpause(source.run(ask.run))),
                self._post("/api/run/{run}/fork", lambda ask: acts.fork(
                    source.run(ask.run), ask.text("at"), ask.text("into")
                )),
            ]
        )  # fmt: skip

    # What is asked for

    def _overview(self, ask: Asked) -> Json:
        version = self._source.version(ask.run)
        return {"version": version, **overview(self._source.run(ask.run))}

    def _step(self, ask: Asked) -> Json:
        return step_detail(self._source.run(ask.run), ask.uid, every=ask.query.get("all") == "1")

    def _diff(self, ask: Asked) -> Json:
        return diff_detail(self._source.run(ask.run), ask.query.get("a", ""), ask.query.get("b", ""))

    # How it is answered

    async def _shell(self, _: Request) -> Response:
        from starlette.responses import HTMLResponse

        text = (STATIC / "index.html").read_text("utf-8")
        return HTMLResponse(text.replace("{{forgery}}", self._guard.forgery))

    async def _asset(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse, Response

        name = request.path_params["name"]
        if name not in _TYPES:
            return PlainTextResponse("No such file.", 404)
        return Response((STATIC / name).read_bytes(), media_type=_TYPES[name])

    def _get(self, path: str, answer: Callable[[Asked], Json]) -> Any:
        from starlette.routing import Route

        async def found(request: Request) -> Response:
            return await self._answered(answer, Asked(request, {}))

        return Route(path, found, methods=["GET"])

    def _post(self, path: str, act: Callable[[Asked], Json]) -> Any:
        from starlette.routing import Route

        async def done(request: Request) -> Response:
            try:
                body = await _body(request)
            except UsageError as error:
                return _json({"error": str(error)}, 400)
            return await self._answered(act, Asked(request, body))

        return Route(path, done, methods=["POST"])

    async def _answered(self, work: Callable[[Asked], Json], asked: Asked) -> Response:
        from starlette.concurrency import run_in_threadpool

        def locked() -> tuple[Json, int]:
            with self._lock:
                try:
                    return work(asked), 200
                except (UnknownRun, UnknownRecord) as error:
                    return {"error": str(error)}, 404
                except AgentRewindError as error:
                    return {"error": str(error)}, 409

        return _json(*await run_in_threadpool(locked))


class Asked:
    """A request: what its path, its query and its body say."""

    def __init__(self, request: Request, body: dict[str, Json]) -> None:
        self.run: str = request.path_params.get("run", "")
        self.uid: str = request.path_params.get("uid", "")
        self.query = request.query_params
        self._body = body

    def text(self, name: str) -> str:
        """Raises: UsageError: it is no text."""
        value = self._body.get(name, "")
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a text.")
        return value

    def flag(self, name: str) -> bool:
        """True unless it is said to be false."""
        return self._body.get(name, True) is not False


async def _body(request: Request) -> dict[str, Json]:
    """Raises: UsageError: it is no object in JSON, or too long."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _MOST_BODY:
            raise UsageError("The request is too long.")
    try:
        found = json.loads(data or b"{}")
    except ValueError as error:
        raise UsageError("The request is not JSON.") from error
    if not isinstance(found, dict):
        raise UsageError("The request is not an object.")
    return found


def _json(value: Json, status: int = 200) -> Response:
    """ASCII, for names with undecodable bytes have no other form."""
    from starlette.responses import Response

    return Response(json.dumps(value, separators=(",", ":")), status, media_type="application/json")


def _check_installed() -> None:
    """Raises: UsageError: a package is missing."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise UsageError("The page needs two small packages: pip install 'agentrewind[view]'.")
