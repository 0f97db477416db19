"""The socket at which a run answers its tools, and the programs that ask it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.tool_program import socket_of
from agentrewind.core.errors import UsageError
from agentrewind.engine.by_program import Told
from agentrewind.integrations.tool_program import ToolSocket, ask, client, server

RUN = "20261201-101500-demo-0a1b"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Deeper than the name of a socket may be long."""
    made = tmp_path / ("d" * 100)
    made.mkdir()
    return made


class Answers:
    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []
        self.told = Told("line one\nläuft", ok=True)

    def __call__(self, tool: str, arguments: object) -> Told:
        self.asked.append((tool, arguments))
        return self.told


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def at(place: Path, answers: Answers) -> Iterator[Path]:
    with ToolSocket(place / "tools", answers):
        yield place / "tools"
    assert not (place / "tools").exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("agentrewind tool")]


def test_a_call_goes_there_and_its_answer_comes_back(at: Path, answers: Answers):
    assert ask(str(at), "backtrack_commit", {"memory_summary": "ü\n" * 1000}) == ("line one\nläuft", True)
    assert answers.asked == [("backtrack_commit", {"memory_summary": "ü\n" * 1000})]
    answers.told = Told("no", ok=False)
    assert ask(str(at), "x", {}) == ("no", False)


def test_only_the_user_reaches_it(at: Path):
    assert at.stat().st_mode & 0o777 == 0o600


def test_a_socket_that_a_crash_left_is_no_obstacle(place: Path, answers: Answers):
    with socket.socket(socket.AF_UNIX) as stale:
        fd = os.open(place, os.O_RDONLY)
        stale.bind(f"/proc/self/fd/{fd}/tools")
        os.close(fd)
    with ToolSocket(place / "tools", answers):
        assert ask(str(place / "tools"), "x", {})[1]


def test_signals_are_left_to_the_thread_that_waits_for_them(place: Path):
    """Whoever runs a child waits for its end by a signal, which must come to nobody else."""
    masks: list[set[int]] = []

    def answer(tool: str, arguments: object) -> Told:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return Told("")

    mine = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    socket_ = ToolSocket(place / "tools", answer)
    with socket_:
        ask(str(place / "tools"), "x", {})
        ident = socket_._thread.native_id
        blocked = next(
            line for line in Path(f"/proc/self/task/{ident}/status").read_text().splitlines() if "SigBlk" in line
        )
    assert signal.SIGCHLD in masks[0]
    assert int(blocked.split()[1], 16) >> (signal.SIGCHLD - 1) & 1
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mine


HOSTILE = [
    b"",
    b"\n",
    b"\xff\xfe\n",
    b"null\n",
    b"[]\n",
    b'{"tool": 3}\n',
    b'{"tool": ["backtrack_commit"]}\n',
    b"[" * 100_000 + b"\n",
    b'{"tool": "x", "arguments": ' + b"9" * 10_000 + b"}\n",
    b'{"tool": "x"',
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_question_is_refused_and_the_next_one_is_answered(at: Path, answers: Answers, data: bytes):
    with raw(at) as line:
        line.sendall(data)
        line.shutdown(socket.SHUT_WR)
        said = json.loads(line.makefile().readline())
    assert (said["ok"], "nothing was done" in said["text"]) == (False, True)
    assert answers.asked == []
    assert ask(str(at), "x", {})[1]


def test_a_question_without_end_is_refused(at: Path, answers: Answers):
    with raw(at) as line:
        line.sendall(b" " * (client.MOST + 1))
        said = json.loads(line.makefile().readline())
    assert "longer than" in said["text"]
    assert answers.asked == []


def test_who_connects_and_says_nothing_keeps_nobody_out_for_long(
    at: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "QUESTION_S", 0.05)
    silent = [raw(at) for _ in range(3 * server.AT_ONCE)]
    assert ask(str(at), "x", {})[1]
    for line in silent:
        line.close()


def test_who_leaves_without_the_answer_is_no_trouble(at: Path, answers: Answers):
    for _ in range(200):
        with raw(at) as line:
            line.sendall(b'{"tool": "x"}\n')
    assert ask(str(at), "x", {})[1]


def test_the_end_of_the_run_waits_for_nobody_who_is_silent(place: Path, answers: Answers):
    with ToolSocket(place / "tools", answers):
        line = raw(place / "tools")
        assert ask(str(place / "tools"), "x", {})[1]
    line.close()


def raw(at: Path) -> socket.socket:
    fd = os.open(at.parent, os.O_RDONLY)
    line = socket.socket(socket.AF_UNIX)
    line.connect(f"/proc/self/fd/{fd}/{at.name}")
    os.close(fd)
    return line


# --- the program ------------------------------------------------------------------------------------------------------


def program(at: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The client as a sandbox shows it: a file of its own, in an interpreter that knows nothing of agentrewind."""
    return subprocess.run(
        [sys.executable, "-I", "-S", client.__file__, "tool", *words],
        input=stdin,
        env={"AGENTREWIND_TOOLS": str(at)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_stands_on_the_standard_library_alone_and_says_what_the_run_says(at: Path, answers: Answers):
    done = program(at, "candidates", "why", "not")
    assert (done.returncode, done.stdout, done.stderr) == (0, "line one\nläuft\n", "")
    done = program(at, "commit", "rec_000001", "-", "because", stdin="a note\nof two lines")
    given = {"record_uid": "rec_000001", "memory_summary": "a note\nof two lines", "reason": "because"}
    assert answers.asked == [("backtrack_candidates", {"reason": "why not"}), ("backtrack_commit", given)]


def test_what_is_not_done_has_its_own_exit_code(at: Path, answers: Answers):
    answers.told = Told("There is no record rec_000099.", ok=False)
    done = program(at, "commit", "rec_000099", "note")
    assert (done.returncode, done.stdout) == (1, "There is no record rec_000099.\n")


@pytest.mark.parametrize("words", [(), ("undo",), ("commit",), ("commit", "rec_000001")])
def test_bad_use_says_how_it_is_used(at: Path, answers: Answers, words: tuple[str, ...]):
    done = program(at, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "commit RECORD_UID NOTE" in done.stderr
    assert answers.asked == []


def test_in_a_sandbox_all_but_its_tools_is_said_to_the_other_agentrewind(tmp_path: Path):
    shown, other = tmp_path / "shown", tmp_path / "other"
    for place in (shown, other):
        place.mkdir()
    (shown / "agentrewind").write_bytes(b"#!/usr/bin/env python3\n" + Path(client.__file__).read_bytes())
    (other / "agentrewind").write_text("#!/bin/sh\necho other $*\n")
    for place in (shown, other):
        (place / "agentrewind").chmod(0o755)

    path = os.pathsep.join([str(shown), str(other), os.environ["PATH"]])
    words = [shown / "agentrewind", "log", "last"]
    done = subprocess.run(words, env={"PATH": path}, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "other log last\n"


def test_where_nobody_answers_it_says_so(tmp_path: Path):
    for at in (tmp_path / "tools", tmp_path / "no" / "tools", Path()):
        done = program(at, "candidates")
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "Nothing was moved" in done.stderr


def test_the_run_that_a_program_is_inside_of_is_found_by_its_mark(tmp_path: Path):
    home = Home(tmp_path)
    assert socket_of(home, {"AGENTREWIND_RUN": RUN}) == tmp_path / "runs" / RUN / "tools"
    assert socket_of(home, {"AGENTREWIND_RUN": RUN, "AGENTREWIND_TOOLS": "/run/x"}) == Path("/run/x")
    for outside in ({}, {"AGENTREWIND_RUN": ""}, {"AGENTREWIND_RUN": "../../etc"}):
        with pytest.raises(UsageError, match="not started inside of a run"):
            socket_of(home, outside)
