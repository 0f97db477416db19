"""The socket at which a run answers its two tools, for programs that its agent starts.

Whoever can reach the socket is the user, or a command in the sandbox of this run, and can do with it what the agent can
do with its tools, in this run alone. What comes in is not trusted: it is short, comes at once, and is one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentError
from agentrewind.engine.by_program import Told
from agentrewind.integrations.tool_program.client import MOST

AT_ONCE = 8
"""How many calls are answered at once; more wait for their turn."""
QUESTION_S = 10.0
"""How long a question may take to come in."""
_AGAIN_S = 0.1
_WAITING = 128
UNREADABLE = "The question is not a JSON object with `tool` and `arguments`, so nothing was done."


class ToolSocket:
    """Answers at `path` from the beginning of the `with` block to its end; then nothing is there any more.

    Args:
        answer: carries out a call of a tool, with its arguments.

    Raises:
        AgentError: no socket can be made there.
    """

    def __init__(self, path: Path, answer: Callable[[str, Json], Told]) -> None:
        self._path, self._answer = path, answer
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="agentrewind tool")
        self._open: set[socket.socket] = set()
        self._closing = threading.Event()
        self._socket = _listening(path)
        self._thread = threading.Thread(target=self._accept, name="agentrewind tools", daemon=True)

    def __enter__(self) -> Self:
        # Signals are for the thread that is here: the one that is started, and those that it starts, inherit the mask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for line in (self._socket, *self._open):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        self._pool.shutdown()
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                line, _ = self._socket.accept()
            except OSError:  # it is closed, or there is no room for one more
                self._closing.wait(_AGAIN_S)
                continue
            self._open.add(line)
            self._pool.submit(self._served, line)

    def _served(self, line: socket.socket) -> None:
        try:
            with line, suppress(OSError):
                line.settimeout(QUESTION_S)
                told = self._told(_question(line))
                line.sendall(json.dumps({"text": told.text, "ok": told.ok}).encode() + b"\n")
        finally:
            self._open.discard(line)

    def _told(self, question: bytes | None) -> Told:
        if question is None:
            return Told(f"The question is longer than {MOST:,} bytes, so nothing was done.", ok=False)
        try:
            asked = json.loads(question)
        except (ValueError, RecursionError):
            return Told(UNREADABLE, ok=False)
        if not isinstance(asked, dict) or not isinstance(asked.get("tool"), str):
            return Told(UNREADABLE, ok=False)
        return self._answer(asked["tool"], asked.get("arguments"))


def _question(line: socket.socket) -> bytes | None:
    """What is asked, up to the end of the line; None where it is too long. Raises: OSError."""
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = line.recv(65536)
        if not piece:
            break
        data += piece
        if len(data) > MOST:
            return None
    return bytes(data)


def _listening(path: Path) -> socket.socket:
    """A socket that this user alone can reach. Its path may be longer than the name of a socket can be."""
    with suppress(FileNotFoundError):
        path.unlink()
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found.bind(f"/proc/self/fd/{fd}/{path.name}")
        finally:
            os.close(fd)
        path.chmod(0o600)
        found.listen(_WAITING)
    except OSError as error:
        found.close()
        raise AgentError(f"The tools of the run can't be offered at {path}: {error.strerror}.") from error
    return found
