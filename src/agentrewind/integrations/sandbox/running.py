"""Commands in a sandbox each: bubblewrap is started for every one, and nothing of it is left afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentrewind.core.errors import AgentError
from agentrewind.engine.commands import ARGUMENT_LIMIT, CANNOT_START, CommandResult, encoded
from agentrewind.engine.processes import descendants
from agentrewind.engine.started import Process, Start
from agentrewind.integrations.sandbox import cgroups
from agentrewind.integrations.sandbox.bwrap import words
from agentrewind.integrations.sandbox.confined import Confined, Wanted
from agentrewind.integrations.sandbox.filter import program
from agentrewind.integrations.sandbox.probe import refuses_namespaces
from agentrewind.integrations.sandbox.side import mount_points
from agentrewind.integrations.sandbox.spec import Limits, Sandbox

_STATUS_S = 10.0
"""How long bubblewrap may take to say which process is the first one inside, and that one to end with it."""
_FIRST_LINE = 4096


def confined(sandbox: Sandbox) -> Confined:
    """A sandbox for each command: when its `run` returns no process of the command is left, whatever it did."""
    return Confined(sandbox, _prepared, blamed)


def blamed(result: CommandResult, sandbox: Sandbox) -> CommandResult:
    """A result that says so where the sandbox could not be made, and where the memory was used up."""
    if result.exit_code == 1 and result.output.startswith("bwrap: "):
        return replace(result, exit_code=CANNOT_START, output=f"The sandbox could not be made: {result.output}")
    if result.exit_code == 128 + signal.SIGKILL and cgroups.out_of_memory(sandbox.cgroup):
        end = "" if not result.output or result.output.endswith("\n") else "\n"
        told = f"{end}[killed: the commands of this run may take no more memory]\n"
        return replace(result, output=result.output + told)
    return result


@contextlib.contextmanager
def _prepared(sandbox: Sandbox, asked: Wanted) -> Iterator[Start]:
    mount_points(sandbox)
    with _script(encoded(asked.command)) as (line, more):
        whole = [*_limited(sandbox.confinement.limits), *line]
        yield lambda sink: start_bwrap(sandbox, asked.cwd, whole, asked.variables, sink=sink, descriptors=more)


@contextlib.contextmanager
def _script(script: bytes) -> Iterator[tuple[list[bytes | str], tuple[int, ...]]]:
    """The words that run a script, and the descriptors that they need: a long one is read from a descriptor."""
    if len(script) < ARGUMENT_LIMIT:
        yield [*shell(), "-c", script], ()
        return
    fd = in_memory("command", script)
    try:
        yield [*shell(), f"/proc/self/fd/{fd}"], (fd,)
    finally:
        os.close(fd)


def shell() -> list[bytes | str]:
    """The shell of the system, as it is seen inside."""
    return [next((path for path in ("/usr/bin/bash", "/bin/bash") if os.path.exists(path)), "/bin/sh")]


def _limited(limits: Limits) -> Sequence[bytes | str]:
    """The words that set the limits of a process, before others that start it."""
    processes = "p" if shell() == ["/bin/sh"] else "u"
    settings = ["ulimit -c 0"]
    if limits.processes is not None:
        settings.append(f"ulimit -{processes} {limits.processes} 2>/dev/null")
    if limits.file_size is not None:
        settings.append(f"ulimit -f {max(limits.file_size // 1024, 1)}")
    return [*shell(), "-c", f'{"; ".join(settings)}; exec "$@"', "limits"]


def start_bwrap(
    sandbox: Sandbox,
    cwd: str,
    line: Sequence[bytes | str],
    variables: dict[str, str],
    *,
    sink: int,
    descriptors: tuple[int, ...] = (),
    lasting: bool = False,
) -> Sandboxed:
    """Start a sandbox with these words inside. Raises: OSError: it can't be started."""
    seccomp = _filter()
    reading, status = os.pipe()
    try:
        options = words(sandbox, cwd, seccomp=seccomp, status=status, nested=refuses_namespaces(), lasting=lasting)
        popen = subprocess.Popen(
            [*cgroups.joining(sandbox.cgroup), *options, *line],
            cwd="/",
            # The very environment of the command and no `--setenv`: the words of a process are everybody's to read, and
            # the first process inside shows what bubblewrap was started with.
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            pass_fds=[fd for fd in (seccomp, status, *descriptors) if fd >= 0],
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(status)
        if seccomp >= 0:
            os.close(seccomp)
    return Sandboxed(popen, reading)


def _filter() -> int:
    """A descriptor of the filter; -1 where there is none for this machine."""
    code = program()
    return -1 if code is None else in_memory("filter", code)


def in_memory(name: str, data: bytes) -> int:
    """A descriptor to read `data` from: of a file that has a name for people only."""
    with open(os.memfd_create(name), "wb") as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())  # which shares the place to read from


class Sandboxed(Process):
    """A sandbox under way: bubblewrap outside, and the first process inside, with which all others die."""

    def __init__(self, popen: subprocess.Popen[bytes], status: int) -> None:
        super().__init__(popen)
        self._status = status  # to its end: bubblewrap writes once more, when it ends
        self.first = _first_process(status)
        self._first_fd = -1
        if self.first is not None:
            with contextlib.suppress(OSError, AttributeError):
                self._first_fd = os.pidfd_open(self.first)

    def signal(self, number: signal.Signals) -> None:
        """TERM to what runs inside, so that it can end in order; KILL to all of it."""
        if number is signal.SIGKILL or self.first is None:
            super().signal(signal.SIGKILL)
            return
        for process in descendants(self.first):
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)

    def wait(self) -> int:
        """As `Process.wait`; by then nothing inside is alive.

        Raises:
            AgentError: something is: it can't be known when it would stop writing.
        """
        code = super().wait()
        os.close(self._status)
        if self._first_fd < 0:
            return code
        poll = select.poll()
        poll.register(self._first_fd, select.POLLIN)
        over = poll.poll(_STATUS_S * 1000)
        os.close(self._first_fd)
        self._first_fd = -1
        if not over:
            raise AgentError(f"A process of a sandbox (below {self.first}) doesn't end although it was killed.")
        return code


def _first_process(status: int) -> int | None:
    """What bubblewrap says of the first process inside; None where it died before that."""
    deadline = time.monotonic() + _STATUS_S
    line = b""
    try:
        poll = select.poll()
        poll.register(status, select.POLLIN)
        while b"\n" not in line and len(line) < _FIRST_LINE and (left := deadline - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                chunk = os.read(status, _FIRST_LINE)
                if not chunk:
                    return None
                line += chunk
        return int(json.loads(line.partition(b"\n")[0])["child-pid"])
    except (ValueError, LookupError, TypeError):
        return None
