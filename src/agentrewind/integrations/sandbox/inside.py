"""The first process of a session's sandbox: starts commands, holds everything still between them, ends with its owner.

Runs inside, under any Python there is, by itself: it imports nothing of ours. What it says to the outside is read there
as the word of a stranger.

    python -I -S inside.py LISTENING KEEPER

Each connection to LISTENING is one command: a line of JSON, with the descriptor of its output; then bytes, each a
signal to send. The answer is a line of JSON, when the command has ended.
KEEPER is readable once nobody needs the sandbox.
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
import time
from typing import Any

LONGEST = 1 << 24
STILL_S = 2.0
SOON_S = 0.005
NOT_STILL = b"[what was left running can't all be held still: what it writes now may not be saved with this step]\n"


class Command:
    """One connection, from the request to the answer."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.request = b""
        self.output = -1
        self.pid = 0


Open = dict[int, Command]
"""The connections, by descriptor."""


def main(listening: int, keeper: int) -> None:
    """Serve until the keeper is gone; then this process ends, and with it the whole namespace."""
    server = socket.socket(fileno=listening)
    server.settimeout(0)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in (listening, keeper):  # noqa: PLR2004
            with contextlib.suppress(OSError):
                os.close(int(name))
    for fd in (listening, keeper):
        os.set_inheritable(fd, False)  # noqa: FBT003
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    open_ones: Open = {}
    poll = select.poll()
    for fd in (listening, keeper, woken):
        poll.register(fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == keeper:
                os._exit(0)
            elif fd == woken:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
                reap(open_ones, poll)
            elif fd == listening:
                accept(server, open_ones, poll)
            elif fd in open_ones:
                hear(fd, open_ones, poll)


def accept(server: socket.socket, open_ones: Open, poll: select.poll) -> None:
    with contextlib.suppress(OSError):
        line, _ = server.accept()
        line.settimeout(0)
        open_ones[line.fileno()] = Command(line)
        poll.register(line, select.POLLIN)


def hear(fd: int, open_ones: Open, poll: select.poll) -> None:
    """More of a request, a signal to send, or the end of whoever asked: then of the command too."""
    command = open_ones[fd]
    try:
        data, fds, _, _ = socket.recv_fds(command.line, 65536, 1)
    except BlockingIOError:
        return
    except OSError:
        data, fds = b"", []
    for found in fds:
        command.output = found
    if not data:
        send(command, signal.SIGKILL)
        forget(fd, open_ones, poll)
    elif command.pid:
        for number in data:
            send(command, number)
    else:
        command.request += data
        if b"\n" in command.request:
            begin(command, open_ones, poll)
        elif len(command.request) > LONGEST:
            forget(fd, open_ones, poll)


def begin(command: Command, open_ones: Open, poll: select.poll) -> None:
    asked = json.loads(command.request.partition(b"\n")[0])
    everyone(signal.SIGCONT)
    if "end" in asked:
        end(asked["end"])
        still_if_idle(open_ones)
        answer(command, {"code": 0}, open_ones, poll)
        return
    command.pid = start(asked, command.output)
    if asked.get("lasts"):
        pid, command.pid = command.pid, 0
        still_if_idle(open_ones)
        answer(command, {"pid": pid}, open_ones, poll)


def start(asked: dict[str, Any], output: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        for number in (1, 2):
            os.dup2(output if output >= 0 else null, number)
        for name, value in asked["limits"].items():
            kind = getattr(resource, name)
            most = resource.getrlimit(kind)[1]
            least = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (least, least))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.chdir(asked["cwd"])
        words = [os.fsencode(word) for word in asked["words"]]
        os.execve(  # noqa: S606
            words[0], words, {os.fsencode(k): os.fsencode(v) for k, v in asked["environ"].items()}
        )
    except BaseException as error:  # noqa: BLE001 (nothing may come back to the loop of the parent)
        os.write(2, f"The command could not be started: {error}\n".encode(errors="replace"))
    os._exit(126)


def reap(open_ones: Open, poll: select.poll) -> None:
    """Take the exit codes of whatever has ended; once no command runs, hold the rest still, then answer."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        ended[pid] = os.waitstatus_to_exitcode(status)
    over = [item for item in open_ones.values() if item.pid in ended]
    if not over:
        return
    idle = all(item.pid in ended or not item.pid for item in open_ones.values())
    still = hold_still() if idle else True
    for command in over:
        if not still and command.output >= 0:
            with contextlib.suppress(OSError):
                os.write(command.output, NOT_STILL)
        answer(command, {"code": ended[command.pid]}, open_ones, poll)


def answer(command: Command, said: dict[str, int], open_ones: Open, poll: select.poll) -> None:
    command.pid = 0
    with contextlib.suppress(OSError):
        command.line.settimeout(5)
        command.line.sendall(json.dumps(said).encode() + b"\n")
    forget(command.line.fileno(), open_ones, poll)


def still_if_idle(open_ones: Open) -> None:
    if not any(item.pid for item in open_ones.values()):
        hold_still()


def forget(fd: int, open_ones: Open, poll: select.poll) -> None:
    command = open_ones.pop(fd, None)
    if command is not None:
        poll.unregister(fd)
        if command.output >= 0:
            os.close(command.output)
        command.line.close()


def send(command: Command, number: int) -> None:
    """To the process group of a command."""
    if command.pid:
        with contextlib.suppress(OSError):
            os.killpg(command.pid, number)


def end(pid: int) -> None:
    """A lasting command: TERM to its group, then KILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(pid, number)
        until = time.monotonic() + STILL_S
        while time.monotonic() < until:
            try:
                os.killpg(pid, 0)
            except OSError:
                return
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-pid, os.WNOHANG)
            time.sleep(SOON_S)


def everyone(number: int) -> None:
    """To all processes of the namespace but this one, at once."""
    with contextlib.suppress(OSError):
        os.kill(-1, number)


def hold_still() -> bool:
    """Whether nothing moves any more when this returns."""
    everyone(signal.SIGSTOP)
    until = time.monotonic() + STILL_S
    while not all_still():
        if time.monotonic() > until:
            return False
        time.sleep(SOON_S)
    return True


def all_still() -> bool:
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] not in b"T t Z X".split():
                    return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
