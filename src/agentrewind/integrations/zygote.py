"""A process that has imported a harness and never called anything: each process of the agent is a fork of it.

`python -m agentrewind.integrations.zygote FD PARENT fork|once` is started by `engine`'s supervisor (see
`integrations.launcher`) with one end of a socket at FD. `once` becomes the process of the agent itself, without a fork.
Forking is safe as long as there is one thread and no open connection; that is looked at, not assumed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import threading
import traceback
from typing import NoReturn

from agentrewind.core.codec import Json
from agentrewind.engine.channel import Gone, Line
from agentrewind.integrations import attempt

_PR_SET_PDEATHSIG = 1
_STANDARD = 3


def main(arguments: list[str]) -> None:
    """Serve until the supervisor is gone."""
    fd, parent, how = int(arguments[0]), int(arguments[1]), arguments[2]
    _die_with(parent)
    supervisor = Line(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)  # noqa: FBT003
    with contextlib.suppress(Gone):
        if how == "once":
            _become(supervisor)
        else:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _preload(supervisor)
            _serve(supervisor)


def _die_with(parent: int) -> None:
    """Be killed when the parent dies, also if it already has."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _preload(supervisor: Line) -> None:
    """Import what is asked for, and say whether this process may be forked."""
    wanted, _ = supervisor.receive()
    try:
        for name in wanted["preload"]:
            importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 (code of others; the agent's own process will fail of it and say so)
        supervisor.send({"unfit": f"importing the agent failed ({type(error).__name__}: {error})"})
        return
    gc.collect()
    gc.freeze()
    supervisor.send({"unfit": unfit(supervisor.fileno())})


def unfit(control: int = -1) -> str:
    """Why this process may not be forked; empty where it may. `control` is a socket that doesn't count."""
    threads = threading.active_count()
    tasks = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threads
    if max(threads, tasks) > 1:
        return f"importing the agent started threads ({threads} of Python, {tasks} in all)"
    sockets = _sockets() - {control}
    return f"importing the agent opened {len(sockets)} connections" if sockets else ""


def _sockets() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(OSError):
            if int(name) >= _STANDARD and os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found.add(int(name))
    return found


def _serve(supervisor: Line) -> None:
    """One process of the agent at a time, and how it ended."""
    while True:
        control = supervisor.take_over()
        job, _ = supervisor.receive()
        pid = os.fork()
        if pid == 0:
            supervisor.close()
            _run(job, Line(control), os.getppid())
        control.close()
        supervisor.send({"pid": pid})
        supervisor.receive()  # until the supervisor has hold of it, nobody may reap it
        _, status = os.waitpid(pid, 0)
        supervisor.send({"status": os.waitstatus_to_exitcode(status)})


def _become(supervisor: Line) -> NoReturn:
    control = supervisor.take_over()
    job, _ = supervisor.receive()
    supervisor.send({"pid": os.getpid()})
    supervisor.close()
    _run(job, Line(control), os.getppid())


def _run(job: Json, control: Line, parent: int) -> NoReturn:
    """The process of the agent: as if it had just been started, with the environment and the directory of the run."""
    code = 1
    try:
        _die_with(parent)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(job["process_environ"])
        attempt.run(job, control)
        code = 0
    except BaseException:  # noqa: BLE001 (the outermost edge of this process: what is lost here is seen nowhere)
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
