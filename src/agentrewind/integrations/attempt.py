"""The inside of one process of an agent: the harness runs here, everything that lasts is asked of the supervisor.

Imports no harness before it is told which one, so that a process which imported it may be forked.
"""

from __future__ import annotations

import importlib
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from agentrewind.core.codec import Json, from_plain, to_plain
from agentrewind.core.edits import Message
from agentrewind.core.records import Failure
from agentrewind.core.strategy import Decision, GoOn, Stop
from agentrewind.core.wire import Send, WireReply
from agentrewind.engine.attempts import error_of
from agentrewind.engine.channel import Gone, Line
from agentrewind.engine.holdings import Held
from agentrewind.engine.signal import RewindSignal
from agentrewind.engine.written import jsonable
from agentrewind.integrations.clients import install
from agentrewind.integrations.harnesses.contract import Harness, Job
from agentrewind.integrations.parked import park
from agentrewind.integrations.sandbox.spec import Sandbox

T = TypeVar("T")

TRACEBACK = 2000


class Woken(BaseException):
    """A parked copy of this process was woken, in which this is raised: it asks again, on a line of its own."""


class Remote:
    """Interposer and recorder of this process: every entry is a question to the supervisor.

    Once the process has been told to leave, every later entry of every thread raises `RewindSignal` at once.
    """

    def __init__(self, control: Line) -> None:
        self._control = control
        self._over = threading.Event()
        self._open = 0
        """How many questions are under way; a copy of this process could go on with one only."""

    # --- Interposer ---------------------------------------------------------------------------------------------------

    def wants(self, method: str, host: str, path: str) -> bool:
        found, _ = self._ask({"ask": "wants", "method": method, "host": host, "path": path})
        return bool(found["value"])

    def call(self, path: str, body: Json, send: Send) -> WireReply:
        """See `Interposer`. Raises: RewindSignal."""

        def sent(asked: Json) -> tuple[Json, bytes]:
            reply = send(asked["body"])
            return {"status": reply.status, "headers": reply.headers}, reply.body

        found, data = self._ask({"ask": "call", "path": path, "body": body}, sent, "provider")
        return WireReply(found["status"], tuple((name, value) for name, value in found["headers"]), data)

    def undelivered(self, reply: WireReply) -> None:
        """What the supervisor knows of a process that is over, it knows by itself; one that stays asks again."""

    # --- Recorder -----------------------------------------------------------------------------------------------------

    def tool(self, name: str, arguments: Json, run: Callable[[], T], *, call_id: str | None = None) -> T:
        """See `Recorder`; a recorded value is returned without running anything. Raises: RewindSignal."""
        values: list[T] = []

        def ran(_: Json) -> tuple[Json, bytes]:
            values.append(run())
            return {"value": jsonable(values[0])}, b""

        ask = {"ask": "tool", "name": name, "arguments": jsonable(arguments), "call_id": call_id}
        found, _ = self._ask(ask, ran, "tool")
        return values[0] if values else cast("T", found["value"])

    def rewind_tool(self, name: str, arguments: Json) -> str:
        """See `Recorder`. Raises: RewindSignal."""
        found, _ = self._ask({"ask": "rewind", "name": name, "arguments": jsonable(arguments)})
        return str(found["value"])

    def hold(self, held: Held) -> None:
        self._ask({"ask": "hold", "lost": list(held.lost)}, data=held.data)

    def held(self) -> Held | None:
        found, data = self._ask({"ask": "held"})
        return None if found["lost"] is None else Held(data, tuple(found["lost"]))

    def submit(self, answer: str) -> Decision:
        found, _ = self._ask({"ask": "submit", "answer": answer})
        return Stop(**found["value"]) if found["kind"] == "stop" else GoOn(**found["value"])

    def say(self, line: str) -> None:
        self._ask({"ask": "say", "line": line})

    def ended(self, *, ok: bool, reason: str, answer: str) -> None:
        """The last words, where it has come to its end."""
        self._tell({"ask": "ended", "ok": ok, "reason": reason, "answer": answer})

    def failed(self, error: BaseException) -> None:
        """The last words, where something ended it. `RewindSignal` needs none."""
        if not self._over.is_set():
            self._tell({"ask": "failed", "type": type(error).__name__, "text": str(error)})

    def _tell(self, message: Json) -> None:
        try:
            with self._control.dial() as line:
                line.send(message)
        except Gone:
            self._over.set()

    def _ask(
        self,
        ask: Json,
        work: Callable[[Json], tuple[Json, bytes]] | None = None,
        boundary: str = "harness",
        *,
        data: bytes = b"",
    ) -> tuple[Json, bytes]:
        """The answer, after doing what the supervisor asks for meanwhile. What `work` raises goes on its way."""
        self._open += 1
        try:
            while True:
                try:
                    return self._answered(ask, data, work, boundary)
                except Woken:
                    continue
        finally:
            self._open -= 1

    def _answered(
        self, ask: Json, given: bytes, work: Callable[[Json], tuple[Json, bytes]] | None, boundary: str
    ) -> tuple[Json, bytes]:
        """Raises: Woken."""
        if self._over.is_set():
            raise RewindSignal
        raised: BaseException | None = None
        try:
            with self._control.dial() as line:
                line.send(ask, given)
                while True:
                    found, data = line.receive()
                    if found["do"] == "park":
                        self._park(line, found["parent"])
                        continue
                    if found["do"] not in ("send", "run") or work is None:
                        return self._settled(found, raised), data
                    try:
                        answer, more = work(found)
                    except BaseException as error:  # noqa: BLE001 (raised again when it is recorded)
                        raised = error
                        line.send({"raised": to_plain(_failure(error, boundary))})
                    else:
                        line.send(answer, more)
        except Gone:
            self._over.set()
            raise RewindSignal from raised

    def _park(self, line: Line, parent: int) -> None:
        """Fork a copy of this process that goes on from here when it is woken. Raises: Woken: in the copy. Gone."""
        end = line.take_over()
        inside = {"unfit": "the agent calls the model from inside a tool"} if self._open > 1 else None
        told = inside or park(end, parent)
        if told is None:
            self._control = Line(end)
            raise Woken
        end.close()
        line.send(told)

    def _settled(self, found: Json, raised: BaseException | None) -> Json:
        match found["do"]:
            case "leave":
                self._over.set()
                raise RewindSignal from raised
            case "raise" if raised is not None:
                raise raised
            case "fail":
                raise error_of(found["type"], found["text"]) from raised
        return found


def _failure(error: BaseException, boundary: Any) -> Failure:
    text = "".join(traceback.format_exception(error))[-TRACEBACK:]
    return Failure(type(error).__name__, str(error), boundary, text)


def run(job: Json, control: Line) -> None:
    """Run a harness to its end in this process, and say how it ended."""
    os.chdir(job["cwd"])
    remote = Remote(control)
    try:
        harness = _named(job["harness"])
        with install(remote):
            outcome = harness.run(_job(job, remote))
    except BaseException as error:  # noqa: BLE001 (the outermost edge of this process)
        remote.failed(error)
    else:
        remote.ended(ok=outcome.ok, reason=outcome.reason, answer=outcome.answer)


def _named(name: str) -> Harness:
    """The harness `package.module:Class`."""
    module, _, cls = name.partition(":")
    made: Harness = getattr(importlib.import_module(module), cls)()
    return made


def _job(job: Json, remote: Remote) -> Job:
    return Job(
        job["task"],
        Path(job["workspace"]),
        job["model"],
        remote,
        remote.submit,
        job["base_url"],
        job["api_key"],
        tuple(job["seed"]),
        dict(job["environ"]),
        remote.say,
        job["settings"],
        offers_rewind=job["offers_rewind"],
        sandbox=None if job["sandbox"] is None else from_plain(Sandbox, job["sandbox"]),
    )


def job_of(harness: str, job: Job, seed: Sequence[Message]) -> Json:
    """A job as JSON for `run`, with the seed of this process."""
    return {
        "harness": harness,
        "task": job.task,
        "workspace": str(job.workspace),
        "model": job.model,
        "base_url": job.base_url,
        "api_key": job.api_key,
        "seed": list(seed),
        "environ": dict(job.environ),
        "settings": dict(job.settings),
        "offers_rewind": job.offers_rewind,
        "sandbox": None if job.sandbox is None else to_plain(job.sandbox),
        "cwd": os.getcwd(),
    }
