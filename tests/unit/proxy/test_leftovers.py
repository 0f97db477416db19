"""Which processes a rewind ends beside a program that it must not end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentrewind.core.records import NodeBegan, RecordUid, RewindIntended, RunStarted, ThreadId
from agentrewind.core.tree import RunTree
from agentrewind.engine.processes import Process, ticks_now
from agentrewind.integrations.proxy import Callers
from agentrewind.integrations.proxy.leftovers import Leftovers, holders, needed

SINCE = 100


def table(*rows: tuple[int, int, int]) -> dict[int, Process]:
    """Processes from (pid, parent, started)."""
    return {pid: Process(pid, parent, started, zombie=False, command=f"p{pid}") for pid, parent, started in rows}


def test_a_program_that_asks_by_itself_is_needed_and_nothing_else_is():
    found = table((10, 1, 50), (11, 10, 120), (12, 1, 130))
    assert needed(10, found, SINCE) == {10}


def test_those_above_the_one_that_asks_are_needed_even_where_they_are_young():
    found = table((10, 1, 50), (11, 10, 110), (12, 11, 120))
    assert {10, 11, 12} <= needed(12, found, SINCE)


def test_a_young_client_in_a_pipeline_is_needed_with_those_that_wait_for_it():
    curl, jq, leftover = (20, 10, 140), (21, 10, 140), (15, 10, 120)
    found = table((10, 1, 50), leftover, curl, jq, (22, 21, 141))
    assert needed(20, found, SINCE) == {10, 20, 21, 22}


def test_a_subshell_that_was_made_for_the_call_is_needed_whole():
    found = table((10, 1, 50), (15, 10, 120), (16, 15, 121), (19, 10, 139), (20, 19, 140), (18, 19, 140))
    assert needed(20, found, SINCE) == {10, 18, 19, 20}


def test_an_orphan_that_is_younger_than_the_program_is_not_needed():
    found = table((10, 1, 50), (30, 1, 150), (20, 10, 140))
    assert 30 not in needed(20, found, SINCE)


# --- real processes ---------------------------------------------------------------------------------------------------

PARENT = """
import subprocess, sys, time
kinds = sys.argv[1:]
made = [subprocess.Popen([sys.executable, '-c', kind]) for kind in kinds]
print(*[one.pid for one in made], flush=True)
for line in sys.stdin:
    late = subprocess.Popen(['sleep', '60'])
    print(late.pid, flush=True)
"""
SLEEP = "import time; time.sleep(60)"


@contextmanager
def program(*children: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A program with children; another one is started for each line that it is given."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *children], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as made:
        assert made.stdout
        pids = [int(pid) for pid in made.stdout.readline().split()]
        try:
            yield made, pids
        finally:
            for pid in pids:
                with_no_complaint(pid)
            made.kill()


def with_no_complaint(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


def another(made: subprocess.Popen[str]) -> int:
    assert made.stdin
    assert made.stdout
    made.stdin.write("\n")
    made.stdin.flush()
    return int(made.stdout.readline())


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def tick() -> int:
    time.sleep(0.03)
    now = ticks_now()
    time.sleep(0.03)
    return now


def test_what_was_started_since_is_ended_and_the_rest_stays():
    with program(SLEEP) as (made, old):
        since = tick()
        young = another(made)
        ended, left = Leftovers(Callers(), 1, RunTree, made.pid)(since)
        assert [process.pid for process in ended] == [young]
        assert left == []
        assert not alive(young)
        assert alive(old[0])
        assert alive(made.pid)


def test_before_the_first_answer_nothing_was_a_tool_so_nothing_is_ended():
    with program(SLEEP) as (made, old):
        helper = another(made)
        callers = Callers()
        with callers.calling(1):
            tick()
        tick()
        tool = another(made)
        ended, _ = Leftovers(callers, 1, RunTree, made.pid)(0)
        assert [process.pid for process in ended] == [tool]
        assert all(alive(pid) for pid in (helper, old[0], made.pid))
        with_no_complaint(helper)


def test_a_server_that_stays_and_goes_on_making_children_does_not_stand_in_the_way():
    busy = "import subprocess\nwhile True: subprocess.run(['sleep', '0.01'])"
    with program(busy) as (made, old):
        since = tick()
        young = another(made)
        ended, left = Leftovers(Callers(), 1, RunTree, made.pid)(since)
        assert young in [process.pid for process in ended]
        assert left == []
        assert alive(old[0])


CLIENT = """
import socket, sys, time
made = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print(made.getsockname()[1], flush=True)
time.sleep(60)
"""


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@contextmanager
def client(server: socket.socket) -> Iterator[tuple[int, int]]:
    """A process with a connection to the server: (pid, port)."""
    port = server.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", CLIENT, str(port)], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout
        yield made.pid, int(made.stdout.readline())
        made.kill()


def test_the_holder_of_a_connection_is_found(server: socket.socket):
    with client(server) as (one, first), client(server) as (two, second):
        ours = server.getsockname()[1]
        pids = [one, two, os.getpid()]
        assert holders(ours, {first}, pids) == [one]
        assert holders(ours, {first, second}, pids) == sorted([one, two])
        assert holders(ours, {1}, pids) == []
        assert holders(ours + 1, {first}, pids) == []


def run_tree(*threads: tuple[str, str], target: str) -> RunTree:
    """A run in which the named records belong to the named conversations, in the middle of a rewind."""
    tree = RunTree.fold([RunStarted("r", "/w", 1, "0")])
    for uid, thread in threads:
        began = NodeBegan(RecordUid(uid), "llm", tree.head, tree.branch, ThreadId(thread), "", None, 1)
        tree.apply(began)
    tree.apply(RewindIntended(tree.head, RecordUid(target), "s", "l", "", tree.next_branch(), ThreadId("main")))
    return tree


@pytest.mark.parametrize("stays", [True, False])
def test_another_client_stays_if_its_conversation_began_before_the_target(server: socket.socket, stays: bool):
    order = [("rec_000001", "t1"), ("rec_000002", "main")] if stays else [("rec_000001", "main"), ("rec_000002", "t1")]
    target = "rec_000002" if stays else "rec_000001"
    since = tick()
    with client(server) as (pid, port):
        callers = Callers()
        leftovers = Leftovers(callers, server.getsockname()[1], lambda: run_tree(*order, target=target), os.getpid())
        with callers.calling(port):
            callers.belongs_to(ThreadId("t1"))
            callers._mine.caller = None  # it is the call of another thread
            ended, _ = leftovers(since)
        assert alive(pid) is stays
        assert (pid in [process.pid for process in ended]) is not stays


def test_the_one_who_asks_for_the_rewind_always_stays(server: socket.socket):
    since = tick()
    with client(server) as (pid, port):
        callers = Callers()
        leftovers = Leftovers(callers, server.getsockname()[1], RunTree, os.getpid())
        with callers.calling(port):
            leftovers(since)
        assert alive(pid)


def test_where_the_program_is_not_below_us_only_its_own_descendants_are_ended(server: socket.socket):
    code = CLIENT.replace("time.sleep(60)", "import subprocess; subprocess.Popen(['sleep', '60']); time.sleep(60)")
    since = tick()
    port = server.getsockname()[1]
    bystander = subprocess.Popen(["sleep", "60"])
    with subprocess.Popen([sys.executable, "-c", code, str(port)], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout
        theirs = int(made.stdout.readline())
        time.sleep(0.3)
        callers = Callers()
        with callers.calling(theirs):
            ended, left = Leftovers(callers, port, RunTree, None)(since)
        assert [process.command for process in ended] == ["sleep 60"]
        assert left == []
        assert alive(made.pid)
        assert alive(bystander.pid)
        made.kill()
    bystander.kill()
    bystander.wait()
