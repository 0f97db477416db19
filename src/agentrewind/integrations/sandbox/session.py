"""A sandbox that stays: servers live on between commands, and stand still there, so that no writer is at work when the
state is saved.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentError
from agentrewind.engine.commands import encoded
from agentrewind.engine.processes import descendants
from agentrewind.engine.started import Start
from agentrewind.integrations.sandbox.confined import Confined, Wanted, wanted
from agentrewind.integrations.sandbox.environment import environment
from agentrewind.integrations.sandbox.running import Sandboxed, blamed, in_memory, shell, start_bwrap
from agentrewind.integrations.sandbox.side import mount_points
from agentrewind.integrations.sandbox.spec import Limits, Sandbox
from agentrewind.integrations.sandbox.view import shows

_CONTROL = "control"
_ANSWER = 4096
_ANSWER_S = 10.0


def interpreter() -> str:
    """The Python that runs the first process inside."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def installation() -> tuple[str, ...]:
    """What has to be seen inside for it to run, where the system has no Python of its own."""
    if os.path.exists("/usr/bin/python3"):
        return ()
    return (os.path.dirname(os.path.dirname(interpreter())),)


class Session:
    """Owns the sandbox: it is there until `close`, or until this process has ended.

    Raises:
        AgentError: it can't be started.
    """

    def __init__(self, sandbox: Sandbox, environ: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        mount_points(sandbox)
        python = next((path for path in ("/usr/bin/python3", interpreter()) if shows(sandbox, path)), "")
        if not python:
            raise AgentError(
                f"The sandbox of a session needs a Python inside, and {interpreter()} isn't seen there; name its"
                f" directory with --sandbox-read, or use --sandbox bwrap."
            )
        keeper, self._keep = os.pipe()
        with _listening(Path(sandbox.side)) as server, open(Path(sandbox.side) / "session.log", "ab") as log:
            # The program of the first process inside, which can't see the file that it is in.
            code = in_memory("inside", Path(__file__).with_name("inside.py").read_bytes())
            try:
                line = [python, "-I", "-S", f"/proc/self/fd/{code}", str(server.fileno()), str(keeper)]
                variables = environment(sandbox, environ, (), sandbox.at)
                self._running: Sandboxed = start_bwrap(
                    sandbox,
                    sandbox.at,
                    line,
                    variables,
                    sink=log.fileno(),
                    descriptors=(server.fileno(), keeper, code),
                    lasting=True,
                )
            finally:
                os.close(keeper)
                os.close(code)
        if self._running.first is None:
            self.close()
            raise AgentError(f"The sandbox of the session could not be made; see {log.name}.")

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that are no part of the agent's doing, as they are seen outside."""
        return tuple(pid for pid in (self._running.pid, self._running.first) if pid is not None)

    def close(self) -> None:
        """End it and all that runs inside; nothing of it is alive when this returns."""
        if self._keep >= 0:
            os.close(self._keep)
            self._keep = -1
            self._running.signal(signal.SIGKILL)
            self._running.wait()


@contextlib.contextmanager
def _listening(side: Path) -> Iterator[socket.socket]:
    """A socket at a name that only this user can reach. Its path may be longer than a socket's name can be."""
    with contextlib.suppress(FileNotFoundError):
        (side / _CONTROL).unlink()
    fd = os.open(side, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as server:
            server.bind(f"/proc/self/fd/{fd}/{_CONTROL}")
            server.listen(16)
            yield server
    finally:
        os.close(fd)


def confined(sandbox: Sandbox) -> Confined:
    """Commands in the sandbox that a `Session` owns, in this process or in another one.

    What a command left running stands still when its `run` returns.
    """
    return Confined(sandbox, _prepared, blamed)


def _last(sandbox: Sandbox, asked: Wanted) -> int:
    """Start a command that stays, with its output nowhere; its number inside. Raises: OSError."""
    with closing(_connected(sandbox)) as line:
        socket.send_fds(line, [_line({**_request(sandbox, asked), "lasts": True})], [])
        return int(_answer(line)["pid"])


def _end(sandbox: Sandbox, pid: int) -> None:
    """End one that `_last` started, and its process group. Raises: OSError."""
    with closing(_connected(sandbox)) as line:
        line.sendall(_line({"end": pid}))
        _answer(line)


def _request(sandbox: Sandbox, asked: Wanted) -> Json:
    script = os.fsdecode(encoded(asked.command))
    return {
        "words": [*map(os.fsdecode, shell()), "-c", script],
        "cwd": asked.cwd,
        "environ": asked.variables,
        "limits": _limits(sandbox.confinement.limits),
    }


def _limits(limits: Limits) -> dict[str, int]:
    wanted = {"RLIMIT_CORE": 0, "RLIMIT_NPROC": limits.processes, "RLIMIT_FSIZE": limits.file_size}
    return {name: value for name, value in wanted.items() if value is not None and hasattr(resource, name)}


def _line(request: Json) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _connected(sandbox: Sandbox) -> socket.socket:
    fd = os.open(sandbox.side, os.O_RDONLY | os.O_DIRECTORY)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(f"/proc/self/fd/{fd}/{_CONTROL}")
    except OSError as error:
        line.close()
        raise OSError(error.errno, f"the sandbox of this session is gone ({error.strerror})") from error
    finally:
        os.close(fd)
    return line


@contextlib.contextmanager
def _prepared(sandbox: Sandbox, asked: Wanted) -> Iterator[Start]:
    with closing(_connected(sandbox)) as line:
        yield lambda sink: _Asked(line, _request(sandbox, asked), sink)


class _Asked:
    """A command under way in the session."""

    def __init__(self, line: socket.socket, request: Json, sink: int) -> None:
        self._line = line
        data = _line(request)
        sent = socket.send_fds(line, [data], [sink])
        line.sendall(data[sent:])

    def fileno(self) -> int:
        return self._line.fileno()

    def has_ended(self) -> bool:
        return bool(select.select([self._line], [], [], 0)[0])

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            self._line.sendall(bytes([number]))

    def wait(self) -> int:
        """Raises: OSError: the sandbox has ended before the command."""
        code = int(_answer(self._line).get("code", -1))
        return code if -signal.NSIG < code <= 255 else 255  # noqa: PLR2004


def _answer(line: socket.socket) -> dict[str, int]:
    """What the first process inside says: numbers by name, and anything else is no answer. Raises: OSError."""
    line.settimeout(_ANSWER_S)
    data = b""
    while b"\n" not in data and len(data) < _ANSWER:
        chunk = line.recv(_ANSWER)
        if not chunk:
            raise OSError(0, "the sandbox of this session ended before the command did")
        data += chunk
    try:
        said = json.loads(data)
        return {str(name): int(value) for name, value in said.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise OSError(0, "the first process of the sandbox doesn't say what it should") from error


class SessionHost:
    """Services in the sandbox of a session: a `Host`. Their numbers are those inside."""

    def __init__(self, sandbox: Sandbox, first: int, cwd: Path, environ: Mapping[str, str]) -> None:
        self._sandbox, self._first, self._cwd, self._environ = sandbox, first, cwd, environ

    def start(self, command: str) -> int:
        """See `Host`."""
        return _last(self._sandbox, wanted(self._sandbox, command, self._cwd, self._environ))

    def alive(self, number: int) -> bool:
        """See `Host`."""
        asked = confined(self._sandbox).run(f"kill -0 {number}", cwd=self._cwd, environ=self._environ)
        return asked.exit_code == 0

    def end(self, number: int) -> None:
        """See `Host`."""
        _end(self._sandbox, number)

    def pids(self, numbers: Collection[int]) -> set[int]:
        """See `Host`."""
        wanted = set(numbers)
        return {item.pid for item in descendants(self._first) if _inside(item.pid) in wanted} if wanted else set()


def _inside(pid: int) -> int:
    """The number of a process in its own namespace; 0 where it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0
