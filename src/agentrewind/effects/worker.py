"""Reading calls in a process of its own: what a parser does with hostile text can't harm the run.

The worker forks for each call, so that every call is read by a process that has read nothing before; the child may take
only so much time and memory. Whatever becomes of it, the call has an effect, if only an unknown one.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import threading
import time
import weakref

from agentrewind.core.codec import Json, canonical, from_plain, to_plain
from agentrewind.core.effects import Effect
from agentrewind.effects.places import Place
from agentrewind.effects.reading import Reading, unread
from agentrewind.effects.rules import Rules

CPU_S = 5
"""Seconds of a processor that one call may take."""
WAIT_S = 60.0
"""How long an answer is waited for, on a machine with other work."""
MEMORY = 2 << 30
ENDS_S = 5.0


class Worker:
    """Reads calls for one process; starts its own at once, and again when that was lost. Thread-safe."""

    def __init__(self, reading: Reading) -> None:
        self._asked = canonical({"place": to_plain(reading.place), "rules": to_plain(reading.rules)})
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def start(self) -> None:
        """Start the process without waiting for it. Raises: OSError."""
        with self._lock:
            self._started()

    def pids(self) -> tuple[int, ...]:
        """Its process, where there is one."""
        process = self._process
        return () if process is None or self._owner != os.getpid() or process.returncode is not None else (process.pid,)

    def _started(self) -> subprocess.Popen[bytes]:
        """One of this process: a fork inherits the pipes of its parent's, and must not use them."""
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                bufsize=0,
                start_new_session=True,  # a Ctrl-C at the terminal isn't for it
            )
            weakref.finalize(self, _end, process, os.getpid())
            self._process, self._owner = process, os.getpid()
            _write(process, self._asked)
        return self._process

    def effects(self, name: str, arguments: Json) -> list[Effect]:
        """As `Reading.effects`, in bounded time and without harm."""
        with self._lock:
            try:
                process = self._started()
                _write(process, canonical([name, arguments]))
                found = json.loads(_line(process))
                return [from_plain(Effect, item) for item in found]
            except (OSError, EOFError, ValueError, TypeError, RecursionError):
                if self._process is not None:
                    _end(self._process, self._owner)
                return [unread(name)]


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner != os.getpid():
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.kill()
    process.wait(ENDS_S)


def _write(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    data = memoryview(line + b"\n")
    while data:
        data = data[process.stdin.write(data) or 0 :]


def _line(process: subprocess.Popen[bytes]) -> bytes:
    """Raises: EOFError: it ended, or didn't answer in time."""
    assert process.stdout is not None
    until, parts = time.monotonic() + WAIT_S, [b""]
    while not parts[-1].endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(until - time.monotonic(), 0.0))
        part = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
        if not part:
            raise EOFError
        parts.append(part)
    return b"".join(parts)


# --- in the other process ---------------------------------------------------------------------------------------------


def main() -> None:
    """The first line says what to read against; each further line is a call, and gets one line back."""
    lines = iter(sys.stdin.buffer.readline, b"")
    asked = json.loads(next(lines, b"null"))
    if asked is None:
        return
    reading = Reading(from_plain(Place, asked["place"]), from_plain(Rules, asked["rules"]))
    reading.effects("shell", {"command": "true"})  # loads the parser and the tables, for every child
    for line in lines:
        sys.stdout.buffer.write(_answer(reading, line) + b"\n")
        sys.stdout.buffer.flush()


def _answer(reading: Reading, line: bytes) -> bytes:
    """What a child finds, or that it came to nothing."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        _read(reading, line, sink)
    os.close(sink)
    with open(source, "rb") as pipe:
        found = pipe.read()
    _, status = os.waitpid(child, 0)
    if status == 0 and found:
        return found
    return json.dumps([to_plain(unread(json.loads(line)[0]))]).encode()


def _read(reading: Reading, line: bytes, sink: int) -> None:
    """In the child, which ends here."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        name, arguments = json.loads(line)
        found = json.dumps([to_plain(effect) for effect in reading.effects(name, arguments)]).encode()
        with open(sink, "wb") as pipe:
            pipe.write(found)
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
