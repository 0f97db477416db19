"""One process of an agent as its supervisor sees it: started, answered, and in any case ended."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentrewind.core import errors
from agentrewind.core.codec import Json, from_plain, to_plain
from agentrewind.core.errors import AgentError, AgentRewindError
from agentrewind.core.records import Failure
from agentrewind.core.strategy import Decision, Stop
from agentrewind.core.wire import Send, WireReply
from agentrewind.engine.channel import Gone, Line, pair
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.holdings import Held
from agentrewind.engine.parking import Copies, Copy
from agentrewind.engine.signal import RaisedElsewhere, RewindSignal

GRACE_S = 10.0
"""How long a process that must end may take to do so by itself."""
TICK_MS = 500
LAST_WORDS_S = 5.0
"""How long what a process that is gone had asked for may take; then what runs for it is ended."""


class Running(Protocol):
    """A process that was started for us."""

    pid: int

    def fileno(self) -> int:
        """A pidfd: readable once it has ended."""

    def signal(self, number: signal.Signals) -> None:
        """Nothing happens where it has ended."""

    def status(self) -> str:
        """How it ended, in words. Called once it has."""


Start = Callable[[socket.socket], Running]
"""Starts a process of the agent, which has this as its control line."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process of the agent ended: with an outcome, with an error, or without a word (`died` says how)."""

    ok: bool = False
    reason: str = ""
    answer: str = ""
    error: AgentRewindError | None = None
    died: str = ""


class Attempt:
    """Answers one process of the agent, from its start to the end of the last thing that it asked for.

    Args:
        submit: judges the work. say: shows a line to a person. copies: where copies of the process are parked.
    """

    def __init__(
        self,
        session: FreshSession,
        submit: Callable[[str], Decision],
        say: Callable[[str], None],
        *,
        grace_s: float = GRACE_S,
        copies: Copies | None = None,
    ) -> None:
        self._session = session
        self._copies = copies
        self._submit = submit
        self._say = say
        self._grace_s = grace_s
        self._handlers: list[threading.Thread] = []
        self._ended: Ended | None = None
        self._failure: Exception | None = None

    def run(self, start: Start) -> Ended:
        """When this returns or raises, the process is gone and nothing of it is under way any more.

        Whether it ended in order to be rewound is the session's to say (`leaving`), not that of its last words.
        """
        control, theirs = pair()
        with control, contextlib.closing(theirs):
            process = start(theirs)
            theirs.close()
            return self._through(control, process)

    def wake(self, copy: Copy) -> Ended:
        """As `run`, for a parked copy, which is woken."""
        with copy.control:
            copy.wake()
            return self._through(copy.control, copy)

    def _through(self, control: Line, process: Running) -> Ended:
        try:
            self._follow(control, process)
        except BaseException:
            self._stop(process, signal.SIGINT)
            raise
        finally:
            self._finish(control)
        how = process.status()
        if self._failure is not None:
            raise self._failure
        return self._ended or Ended(died=how)

    def _follow(self, control: Line, process: Running) -> None:
        """Take lines over until the process has ended; end it where it has to and doesn't."""
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(process, select.POLLIN)
        until = None
        while True:
            ready = [fd for fd, _ in poll.poll(TICK_MS)]
            if control.fileno() in ready and not self._take(control):
                poll.unregister(control)
            if process.fileno() in ready:
                return
            if self._session.leaving is not None or self._ended is not None or self._failure is not None:
                until = until or time.monotonic() + self._grace_s
                if time.monotonic() > until:
                    self._stop(process, signal.SIGTERM)

    def _take(self, control: Line) -> bool:
        """Begin to answer one line; False where no more will come."""
        try:
            line = Line(control.take_over())
        except Gone:
            return False
        handler = threading.Thread(target=self._handle, args=(line,), name="agentrewind call", daemon=True)
        self._handlers = [item for item in self._handlers if item.is_alive()]
        self._handlers.append(handler)
        handler.start()
        return True

    def _stop(self, process: Running, first: signal.Signals) -> None:
        """Ask, then force. The tools that it leaves behind are ended by whoever moves or resumes the run."""
        for number in (first, signal.SIGKILL):
            process.signal(number)
            poll = select.poll()
            poll.register(process, select.POLLIN)
            if poll.poll(min(self._grace_s, 2.0) * 1000):
                return

    def _finish(self, control: Line) -> None:
        """Answer what was asked before the end, and wait for it."""
        poll = select.poll()
        poll.register(control, select.POLLIN)
        while poll.poll(0) and self._take(control):
            pass
        if not self._heard_out():
            self._session.end_processes()
            self._heard_out()

    def _heard_out(self) -> bool:
        until = time.monotonic() + LAST_WORDS_S
        for handler in self._handlers:
            handler.join(max(until - time.monotonic(), 0.0))
        return not any(handler.is_alive() for handler in self._handlers)

    # --- one line -----------------------------------------------------------------------------------------------------

    def _handle(self, line: Line) -> None:
        with line, contextlib.suppress(Gone):
            try:
                ask, data = line.receive()
                self._answer(line, ask, data)
            except RewindSignal:
                line.send({"do": "leave"})
            except RaisedElsewhere:
                line.send({"do": "raise"})
            except AgentRewindError as error:
                line.send({"do": "fail", "type": type(error).__name__, "text": str(error)})
            except Gone:
                raise
            except Exception as error:  # noqa: BLE001 (a thread's own edge: raised again by `run`)
                self._failure = error
                line.send({"do": "leave"})

    def _sender(self, line: Line) -> Send:
        """Has the process send a request, after it was offered to park a copy of itself."""
        copy: Copy | None = None

        def send(body: Json) -> WireReply:
            nonlocal copy
            uid = None if self._copies is None else self._session.asking()
            if self._copies is not None and uid is not None:
                copy = self._copies.offer(line, uid, copy)
            return _sent(line, body)

        return send

    def _answer(self, line: Line, ask: Json, data: bytes) -> None:
        match ask["ask"]:
            case "wants":
                line.send({"do": "return", "value": self._session.wants(ask["method"], ask["host"], ask["path"])})
            case "call":
                reply = self._session.call(ask["path"], ask["body"], self._sender(line))
                line.send({"do": "return", "status": reply.status, "headers": reply.headers}, reply.body)
            case "tool":
                value = self._session.tool(ask["name"], ask["arguments"], lambda: _ran(line), call_id=ask["call_id"])
                line.send({"do": "return", "value": value})
            case "rewind":
                line.send({"do": "return", "value": self._session.rewind_tool(ask["name"], ask["arguments"])})
            case "hold":
                self._session.hold(Held(data, tuple(ask["lost"])))
                line.send({"do": "return"})
            case "held":
                held = self._session.held()
                line.send({"do": "return", "lost": held and held.lost}, held.data if held else b"")
            case "submit":
                line.send({"do": "return", **_plain(self._submit(ask["answer"]))})
            case "say":
                self._say(ask["line"])
                line.send({"do": "return"})
            case "ended":
                self._ended = Ended(ask["ok"], ask["reason"], ask["answer"])
            case "failed":
                self._ended = Ended(error=error_of(ask["type"], ask["text"]))


def _sent(line: Line, body: Json) -> WireReply:
    """Have the process send a request: only it has the keys. Raises: RaisedElsewhere."""
    found, data = _asked(line, {"do": "send", "body": body})
    return WireReply(found["status"], tuple((name, value) for name, value in found["headers"]), data)


def _ran(line: Line) -> Json:
    """Have the process run its tool. Raises: RaisedElsewhere."""
    return _asked(line, {"do": "run"})[0]["value"]


def _asked(line: Line, what: Json) -> tuple[Json, bytes]:
    try:
        line.send(what)
        found, data = line.receive()
    except Gone as error:
        raise RaisedElsewhere(Failure("ProcessEnded", "the process of the agent ended meanwhile", "harness")) from error
    if "raised" in found:
        raise RaisedElsewhere(from_plain(Failure, found["raised"]))
    return found, data


def _plain(decision: Decision) -> Json:
    return {"kind": "stop" if isinstance(decision, Stop) else "go on", "value": to_plain(decision)}


def error_of(kind: str, text: str) -> AgentRewindError:
    """An error that was raised in another process."""
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, AgentRewindError):
        return found(text)
    return AgentError(f"The agent failed by itself: {kind}: {text}")
