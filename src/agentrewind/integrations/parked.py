"""Forking a parked copy of this process: the other side of `engine.parking`.

The copy is forked twice, so that it isn't a child which the harness could wait for, and becomes one of the
supervisor's. It holds the interpreter as it is now. Where it has what can't be held twice, there
is no copy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import signal
import socket
import stat
import sys
import threading
import time

from agentrewind.core.codec import Json
from agentrewind.engine.channel import Gone, Line
from agentrewind.engine.parking import HELD

_PR_SET_PDEATHSIG = 1
_STANDARD = 3
_ADOPTION_S = 5.0
"""How long a copy waits to become a child of the supervisor; without that it would not die with it."""


def unfit() -> str:
    """Why a copy of this process would not be whole, in words; empty where it would."""
    tasks = len(os.listdir("/proc/self/task"))
    if max(threading.active_count(), tasks) > 1:
        return f"the agent runs {tasks} threads, of which a fork holds one"
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as handle:
            children = handle.read().split()
    except OSError:
        return "the system doesn't say which processes the agent runs"
    if children:
        return f"the agent has {len(children)} processes of its own, which a fork would share"
    return next(filter(None, map(_not_to_be_shared, _open())), "")


def _open() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd") if int(name) >= _STANDARD]


def _not_to_be_shared(fd: int) -> str:
    try:
        mode, name = os.fstat(fd).st_mode, os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # the directory that was listed
        return ""
    if name.startswith("anon_inode:"):
        return "the agent has an event loop or the like (anon_inode), which a fork would share"
    if stat.S_ISFIFO(mode):
        return "the agent holds a pipe, which a fork would share"
    if stat.S_ISSOCK(mode) and _listens(fd):
        return "the agent listens on a socket"
    return ""


def _listens(fd: int) -> bool:
    with socket.socket(fileno=os.dup(fd)) as end:
        return bool(end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def park(end: socket.socket, parent: int) -> Json | None:
    """Fork a copy that waits at `end`; what to tell the supervisor. None: this is the copy, and it was woken."""
    why = unfit()
    if why:
        return {"unfit": why}
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    source, sink = os.pipe()
    places, drawn = _places(), random.getstate()
    try:
        between = os.fork()
    except OSError as error:
        os.close(source)
        os.close(sink)
        return {"unfit": f"the system refuses a fork ({error})"}
    if between == 0:
        _become_copy(source, sink)
        _sleep(end, parent)
        _take_places(places)
        random.setstate(drawn)  # a fork seeds it anew
        return None
    os.close(sink)
    with open(source, "rb") as handle:
        told = handle.read()
    with contextlib.suppress(ChildProcessError):  # a handler of the harness may have waited for it
        os.waitpid(between, 0)
    return {HELD: int(told)} if told else {"unfit": "the system refuses a fork"}


def _become_copy(source: int, sink: int) -> None:
    """Fork once more: the process in between ends, saying the pid of the copy, in which this returns."""
    try:
        os.close(source)
        copy = os.fork()
        if copy:
            os.write(sink, str(copy).encode())
            os._exit(0)
        os.close(sink)
    except BaseException:  # noqa: BLE001 (nothing of the harness may run in here)
        os._exit(1)


def _sleep(end: socket.socket, parent: int) -> None:
    """Hold no line of anybody else, die with the supervisor, and return when woken."""
    try:
        _cut_sockets(end.fileno())
        _belong_to(parent)
        Line(end).receive()
    except Gone:
        os._exit(0)
    except BaseException:  # noqa: BLE001 (nothing of the harness may run before it is woken)
        os._exit(1)


def _cut_sockets(own: int) -> None:
    """Every inherited connection becomes one that the other side has closed.

    It isn't ours: the live process speaks on it. Its number stays taken, so that it never means another one, and
    clients find it at its end and open a new one, as after a server's time-out.
    """
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        for fd in _open():
            with contextlib.suppress(OSError):
                if fd not in (own, ours.fileno()) and stat.S_ISSOCK(os.fstat(fd).st_mode):
                    os.dup2(ours.fileno(), fd, inheritable=os.get_inheritable(fd))


def _belong_to(parent: int) -> None:
    until = time.monotonic() + _ADOPTION_S
    while os.getppid() != parent and time.monotonic() < until:
        select.select([], [], [], 0.001)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _places() -> dict[int, int]:
    """How far each open file was read or written: the copies of a process share that."""
    found = {}
    for fd in _open():
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(fd).st_mode):
                found[fd] = os.lseek(fd, 0, os.SEEK_CUR)
    return found


def _take_places(places: dict[int, int]) -> None:
    for fd, place in places.items():
        with contextlib.suppress(OSError):
            os.lseek(fd, place, os.SEEK_SET)
