"""Whether a process may be forked is looked at, not assumed; where it may not, each process is started anew."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from agentrewind.engine.processes import ended
from agentrewind.integrations.launcher import Launcher
from agentrewind.integrations.zygote import unfit


def test_a_thread_makes_a_process_unfit():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert "threads" in unfit()
    finally:
        stop.set()
        thread.join()


def test_a_connection_makes_a_process_unfit_and_without_one_it_is_fit():
    """In a process of its own: this one may have threads."""
    text = (
        "import socket\n"
        "from agentrewind.integrations.zygote import unfit\n"
        "print(repr(unfit()))\n"
        "left, right = socket.socketpair()\n"
        "print(unfit(left.fileno()))\n"
    )
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.splitlines() == ["''", "importing the agent opened 1 connections"]


def test_an_agent_whose_import_starts_a_thread_is_not_forked_and_that_is_said(tmp_path: Path):
    thread = "threading.Thread(target=time.sleep, args=(60,), daemon=True)"
    (tmp_path / "starts_a_thread.py").write_text(f"import threading, time\n{thread}.start()\n")
    said: list[str] = []
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    launcher = Launcher(["starts_a_thread"], environ, say=said.append)
    left, right = socket.socketpair()
    with left, right:
        process = launcher.start({"cwd": "/", "harness": "no:Such"}, right)
        assert process.status() == "exit code 0"
    assert launcher.spared == ()
    assert "threads" in said[0]
    launcher.close()


def test_how_a_process_ended_is_said_in_words():
    assert [ended(0), ended(-9), ended(-250)] == ["exit code 0", "killed by SIGKILL", "killed by signal 250"]


def test_an_agent_that_can_not_be_imported_is_not_forked_and_that_is_said():
    said: list[str] = []
    launcher = Launcher(["no_such_module"], os.environ, say=said.append)
    left, right = socket.socketpair()
    with left, right:
        assert launcher.start({"cwd": "/", "harness": "no:Such"}, right).status() == "exit code 0"
    assert "no_such_module" in said[0]


def test_a_zygote_that_was_killed_is_replaced():
    launcher = Launcher(["json"], os.environ)
    pids = []
    for _ in range(3):
        left, right = socket.socketpair()
        with left, right:
            process = launcher.start({"cwd": "/", "harness": "no:Such"}, right)
            assert process.status() == "exit code 0"
        pids.append(launcher.spared[0])
        if len(pids) == 2:
            os.kill(pids[-1], signal.SIGKILL)
            os.waitid(os.P_PID, pids[-1], os.WEXITED | os.WNOWAIT)
    launcher.close()
    assert pids[0] == pids[1] != pids[2]


def test_a_process_begins_with_the_environment_and_the_directory_of_the_run(tmp_path: Path):
    (tmp_path / "tells.py").write_text(
        "import os, pathlib\n"
        "class Tells:\n"
        "    def __init__(self):\n"
        "        pathlib.Path('told').write_text(os.environ['OF_THE_RUN'] + str(len(os.listdir('/proc/self/task'))))\n"
    )
    environ = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "OF_THE_RUN": "x",
    }
    launcher = Launcher(["json"], environ)
    left, right = socket.socketpair()
    with left, right:
        launcher.start({"cwd": str(tmp_path), "harness": "tells:Tells"}, right).status()
    launcher.close()
    assert (tmp_path / "told").read_text() == "x1"
