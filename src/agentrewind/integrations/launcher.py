"""Starting processes of an agent for a supervisor: as forks of a zygote, or each as an interpreter of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentError
from agentrewind.engine.attempts import Running
from agentrewind.engine.channel import Gone, pair
from agentrewind.engine.processes import ended


class Launcher:
    """Keeps the zygote of one run. `close` ends it.

    Args:
        preload: the modules that the zygote imports. environ: the environment of every process of the agent.
        spawn: never fork. say: told in one line where forking turns out to be unsafe.
    """

    def __init__(
        self,
        preload: Sequence[str],
        environ: Mapping[str, str],
        *,
        spawn: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._preload = list(preload)
        self._environ = dict(environ)
        self._spawn = spawn or not hasattr(os, "pidfd_open") or not os.path.isdir("/proc/self/fd")
        self._say = say
        self._zygote: _Program | None = None

    @property
    def spared(self) -> tuple[int, ...]:
        """The process that is no part of the agent's doing."""
        return () if self._zygote is None else (self._zygote.pid,)

    def start(self, job: Json, control: socket.socket) -> Running:
        """A new process on this job. Raises: AgentError: none could be started."""
        job = {**job, "process_environ": self._environ}
        zygote = None if self._spawn else self._ready()
        if zygote is None:
            return _Spawned(_Program("once", self._environ), job, control)
        return _Forked(zygote, job, control)

    def _ready(self) -> _Program | None:
        """The zygote; None where forking isn't safe."""
        if self._zygote is not None and self._zygote.alive:
            return self._zygote
        self.close()
        self._zygote = _Program("fork", self._environ)
        unfit = self._zygote.asked({"preload": self._preload})["unfit"]
        if not unfit:
            return self._zygote
        self._say(f"Each process of the agent is started anew, which takes longer: {unfit}.")
        self._spawn = True
        self.close()
        return None

    def close(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


class _Program:
    """`integrations.zygote` as a child of this process, and the line to it."""

    def __init__(self, how: str, environ: Mapping[str, str]) -> None:
        self.line, theirs = pair()
        with contextlib.closing(theirs):
            words = [sys.executable, "-P", "-m", "agentrewind.integrations.zygote"]
            self._process = subprocess.Popen(
                [*words, str(theirs.fileno()), str(os.getpid()), how],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def asked(self, message: Json) -> Json:
        """Raises: AgentError: it has died."""
        try:
            self.line.send(message)
            return self.line.receive()[0]
        except Gone:
            raise self.dead() from None

    def begin(self, job: Json, control: socket.socket) -> int:
        """Have a process of the agent begin; its pid. Raises: AgentError."""
        try:
            self.line.hand_over(control)
        except Gone:
            raise self.dead() from None
        return int(self.asked(job)["pid"])

    def dead(self) -> AgentError:
        return AgentError(f"The process that starts the agent has died ({ended(self._process.wait())}).")

    def wait(self) -> int:
        return self._process.wait()

    def close(self) -> None:
        self.line.close()
        self._process.kill()
        self._process.wait()


class _Process:
    """A process by its pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._pidfd)

    def fileno(self) -> int:
        return self._pidfd

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, number)


class _Forked(_Process):
    def __init__(self, zygote: _Program, job: Json, control: socket.socket) -> None:
        self._zygote = zygote
        super().__init__(zygote.begin(job, control))
        zygote.line.send({"held": True})

    def status(self) -> str:
        try:
            return ended(int(self._zygote.line.receive()[0]["status"]))
        except Gone:
            return f"with the process that it was forked from, {ended(self._zygote.wait())}"


class _Spawned(_Process):
    def __init__(self, program: _Program, job: Json, control: socket.socket) -> None:
        self._program = program
        super().__init__(program.begin(job, control))

    def status(self) -> str:
        code = self._program.wait()
        self._program.line.close()
        return ended(code)
