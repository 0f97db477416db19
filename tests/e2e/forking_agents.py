"""Agents with state besides their messages, for fork checkpoints. Imported by forks too."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import ClassVar

from tests.e2e.fresh_agents import Loop


class Remembers(Loop):
    """Draws a number in each step that it keeps in a variable, and nowhere in its messages.

    What each process holds when it asks goes to `../asked`, one line a call: its pid, and the numbers.
    """

    preload: ClassVar[tuple[str, ...]] = ("tests.e2e.forking_agents",)

    def loop(self, messages):
        self.drawn: list[int] = []
        self.begins()
        return super().loop(messages)

    def begins(self) -> None: ...

    def ask(self, messages):
        self.drawn.append(random.SystemRandom().getrandbits(60))
        with (self.job.workspace.parent / "asked").open("a") as file:
            file.write(" ".join(map(str, (os.getpid(), *self.drawn))) + "\n")
        message = super().ask(messages)
        with (self.job.workspace.parent / "held").open("a") as file:
            file.write(" ".join(map(str, (os.getpid(), *self.drawn))) + "\n")
        return message


class DrawsFromRandom(Remembers):
    """`random.random()` after each answer goes to `../random`: the state of the generator is part of a process."""

    def ask(self, messages):
        message = super().ask(messages)
        with (self.job.workspace.parent / "random").open("a") as file:
            file.write(f"{random.random()}\n")
        return message


class ReadsAFile(Remembers):
    """Keeps a file of lines open and reads one in each step, into `../read`."""

    def begins(self):
        path = self.job.workspace.parent / "lines"
        path.write_text("".join(f"{n}\n" for n in range(1000, 1100)))
        self.lines = os.open(path, os.O_RDONLY)

    def ask(self, messages):
        message = super().ask(messages)
        with (self.job.workspace.parent / "read").open("ab") as file:
            file.write(os.read(self.lines, 5))
        return message


class HoldsAConnection(Remembers):
    """What a read of its connection comes to after each answer goes to `../connection`."""

    def begins(self):
        self.near, self.far = socket.socketpair()
        self.near.settimeout(0.05)

    def ask(self, messages):
        message = super().ask(messages)
        try:
            found = "closed" if self.near.recv(1) == b"" else "read"
        except TimeoutError:
            found = "open"
        with (self.job.workspace.parent / "connection").open("a") as file:
            file.write(f"{found}\n")
        return message


class HasAThread(Remembers):
    def begins(self):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


class HasAChild(Remembers):
    def begins(self):
        self.child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)

    def run(self, job):
        try:
            return super().run(job)
        finally:
            self.child.kill()
            self.child.wait()


class HasAnEventLoop(Remembers):
    def begins(self):
        self.events = asyncio.new_event_loop()


class DiesWhenItIsWoken(Remembers):
    def ask(self, messages):
        before = os.getpid()  # a variable as well: in a woken copy it is the pid of the process of then
        message = super().ask(messages)
        if before != os.getpid():
            (self.job.workspace.parent / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return message


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]
