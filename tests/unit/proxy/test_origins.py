"""Which process a conversation comes from, and when nobody is left to come back to it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from agentrewind.core.records import ThreadId
from agentrewind.engine.processes import Process
from agentrewind.integrations.proxy.origins import PASSING, Origins
from tests.unit.proxy.servers import until

MAIN = ThreadId("main")
CLIENT = """
import socket, sys
made = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(2)]
print(*[item.getsockname()[1] for item in made], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen(16)
        yield made


@contextmanager
def client(server: socket.socket) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A program with two connections, and the ports that they come from."""
    command = [sys.executable, "-c", CLIENT, str(server.getsockname()[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout
        try:
            yield made, [int(port) for port in made.stdout.readline().split()]
        finally:
            made.kill()


def known(origins: Origins, calls: int) -> bool:
    return MAIN in origins._of and origins._of[MAIN].calls >= calls


def test_a_program_that_asked_twice_and_has_ended_is_gone(server: socket.socket) -> None:
    with closing(Origins(server.getsockname()[1])) as origins, client(server) as (program, (one, other)):
        origins.came(MAIN, one)
        until(lambda: known(origins, 1))
        origins.came(MAIN, other)
        until(lambda: known(origins, 2))
        assert origins.gone(MAIN) is None, "it runs"
        program.kill()
        program.wait()
        gone = origins.gone(MAIN)
        assert gone is not None
        assert gone.pid == program.pid
        assert origins.gone(ThreadId("t1")) is None, "of which nothing is known"


def test_calls_over_one_connection_are_of_one_program(server: socket.socket) -> None:
    with closing(Origins(server.getsockname()[1])) as origins, client(server) as (program, (one, _)):
        origins.came(MAIN, one)
        until(lambda: known(origins, 1))
        origins.came(MAIN, one)
        program.kill()
        until(lambda: origins.gone(MAIN) is not None)


def test_one_call_says_nothing_of_the_program_behind_it(server: socket.socket) -> None:
    with closing(Origins(server.getsockname()[1])) as origins, client(server) as (program, (one, _)):
        origins.came(MAIN, one)
        until(lambda: known(origins, 1))
        program.kill()
        program.wait()
        assert origins.gone(MAIN) is None


def test_a_program_that_asks_through_others_is_never_gone_and_soon_not_looked_for() -> None:
    looked: list[int] = []

    def find(_: int, port: int) -> Process:
        looked.append(port)
        return Process(2**22 + port, 1, 1, zombie=False, command="curl")  # no process has such a number any more

    with closing(Origins(1, find)) as origins:
        for port in range(10):
            origins.came(MAIN, port)
            until(lambda port=port: MAIN in origins._of and origins._of[MAIN].processes > min(port, PASSING - 1))
            assert origins.gone(MAIN) is None
    assert looked == list(range(PASSING))
