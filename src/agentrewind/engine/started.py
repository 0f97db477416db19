"""Following a command that was started: its output is taken, its end awaited or brought about.

What was started, and how its processes are told to end, is a `Started`: a shell, a sandbox, a container.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Protocol

from agentrewind.engine.output import CHUNK, Kept

GRACE_S = 2.0
"""How long a command that must end may take after TERM before KILL."""
TIMED_OUT = 124
"""The exit code of a command that was ended by its time-out, as that of timeout(1)."""

_LATE_OUTPUT_S = 0.1
_POLL_S = 0.02
_LONGEST_WAIT_S = 3600.0  # poll(2) takes no more than 24 days
_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Started(Protocol):
    """A command under way."""

    def fileno(self) -> int:
        """Readable once it has ended; -1 where there is no such thing, and it has to be asked."""

    def has_ended(self) -> bool: ...

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes that can be reached; nothing happens where none is left."""

    def wait(self) -> int:
        """Its exit code, negative for one that died of a signal, once it has ended. Called once."""


Start = Callable[[int], Started]
"""Starts a command with this descriptor as its standard output and standard error."""


class Process:
    """A program that was started as a session of its own."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        try:
            self._pidfd = os.pidfd_open(popen.pid)
        except (OSError, AttributeError):  # an old kernel, a sandbox or another system: we ask every 20 ms
            self._pidfd = -1

    @property
    def pid(self) -> int:
        return self._popen.pid

    def fileno(self) -> int:
        return self._pidfd

    def has_ended(self) -> bool:
        """The process is not reaped, so that its number, and that of its group, can't mean another one yet."""
        return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def signal(self, number: signal.Signals) -> None:
        """To its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    def wait(self) -> int:
        code = self._popen.wait()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        return code


def follow(start: Start, kept: Kept, timeout_s: float | None) -> tuple[int, bool]:
    """Start a command and return when it has ended: (exit code, whether its time was up).

    A time-out, and any exception (Ctrl-C), ends it: TERM, then KILL.
    """
    # A pipe and not a file: a program that opens /dev/stdout or /dev/stderr by name would truncate a file, and one
    # that writes without end would fill the disk.
    source, sink = os.pipe()
    try:
        try:
            # A Ctrl-C while it is being started would leave it running with nobody who knows it.
            with _interruptions_held() as held:
                running = _Running(start(sink), source, kept)
        finally:
            os.close(sink)
        return running.finish(timeout_s, held)
    finally:
        os.close(source)


def _hold(
    held: list[Callable[[], object]],
    handler: Callable[[int, FrameType | None], object],
    number: int,
    frame: FrameType | None,
) -> None:
    held.append(functools.partial(handler, number, frame))


@contextlib.contextmanager
def _interruptions_held() -> Iterator[list[Callable[[], object]]]:
    """Inside, what handles Ctrl-C and its like isn't called; the list holds the calls to make up for afterwards."""
    held: list[Callable[[], object]] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    usual = {number: signal.getsignal(number) for number in _INTERRUPTIONS}
    mine = {number: handler for number, handler in usual.items() if callable(handler)}
    for number, handler in mine.items():
        signal.signal(number, functools.partial(_hold, held, handler))
    try:
        yield held
    finally:
        for number, handler in mine.items():
            signal.signal(number, handler)


class _Running:
    """A started command, its output pipe, and what is kept of the output."""

    def __init__(self, command: Started, source: int, kept: Kept) -> None:
        os.set_blocking(source, False)
        self._command = command
        self._source = source
        self._kept = kept
        self._open = True

    def finish(self, timeout_s: float | None, held: Sequence[Callable[[], object]] = ()) -> tuple[int, bool]:
        """Wait for the end: (exit code, whether we had to end it). `held` is called first; where it raises, we end."""
        try:
            for call in held:
                call()
            ended = self._pump_until_ended(timeout_s)
            if not ended:
                self._end()
        except BaseException:
            self._end()
            raise
        finally:
            code = self._command.wait()
        self._drain()
        if not ended:
            return TIMED_OUT, True
        return (code if code >= 0 else 128 - code), False

    def _pump_until_ended(self, timeout_s: float | None) -> bool:
        """Read output until the command has ended (True) or the time is up (False)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._command.has_ended():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._wait(left)
            self._read()
        return True

    def _wait(self, seconds: float | None) -> None:
        poll = select.poll()
        if self._open:
            poll.register(self._source, select.POLLIN)
        if self._command.fileno() >= 0:
            poll.register(self._command.fileno(), select.POLLIN)
        else:
            seconds = _POLL_S if seconds is None else min(seconds, _POLL_S)
        poll.poll(None if seconds is None else min(seconds, _LONGEST_WAIT_S) * 1000 + 1)

    def _read(self) -> bool:
        """Take one chunk of what is there; whether there was one."""
        try:
            chunk = os.read(self._source, CHUNK)
        except BlockingIOError:
            return False
        self._kept.add(chunk)
        self._open = bool(chunk)
        return self._open

    def _end(self) -> None:
        try:
            self._command.signal(signal.SIGTERM)
            self._pump_until_ended(GRACE_S)
        finally:
            self._command.signal(signal.SIGKILL)

    def _drain(self) -> None:
        """Take what was written before the end; leave the pipe to a reader where a child still holds it."""
        deadline = time.monotonic() + _LATE_OUTPUT_S
        while self._open and (left := deadline - time.monotonic()) > 0:
            if not self._read():
                poll = select.poll()
                poll.register(self._source, select.POLLIN)
                poll.poll(left * 1000)
        if self._open:
            _leave_a_reader(self._source)


def _leave_a_reader(source: int) -> None:
    """Start a process that reads `source` to its end and forgets it.

    Without it a server that the command left running would die of SIGPIPE, or block, at its next line of log. It is a
    process of its own because it must outlive us; the shell in between ends at once and is waited for.
    """
    os.set_blocking(source, True)
    with contextlib.suppress(OSError):
        subprocess.run(
            ["sh", "-c", "exec 3<&0 </dev/null; cat <&3 >/dev/null 2>&1 &"],
            cwd="/",
            env={"PATH": os.defpath},
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
