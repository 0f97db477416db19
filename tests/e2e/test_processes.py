"""What an abandoned branch left running is gone after the rewind, and nobody else's process is touched."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrewind.core.records import Rewound
from agentrewind.integrations.sandbox import probe
from agentrewind.journal.reader import read_run
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say
from tests.e2e.test_cli_run import Place, place
from tests.e2e.test_exec import last_line

EARLY = (
    "(setsid nohup sh -c 'while :; do date >> early.log; sleep 0.1; done' >/dev/null 2>&1 & echo $! > early.pid);"
    " sleep 0.3"
)
SERVER = "python3 -m http.server -b 127.0.0.1 0 >server.log 2>&1 & echo $! > server.pid"
WRITER = "(setsid nohup sh -c 'while :; do date >> late.log; sleep 0.05; done' >/dev/null 2>&1 & echo $! > late.pid)"
LATE = f"{SERVER}; {WRITER}; sleep 0.5; cat server.pid late.pid"
AFTER = (
    "sleep 0.5; ls; kill -0 $(cat early.pid) && echo the early one is alive; wc -l < early.log; sleep 0.4;"
    " wc -l < early.log;"
    " for pid in PIDS; do case $(ps -o stat= -p $pid) in ''|Z*) ;; *) echo $pid is alive;; esac; done;"
    " echo looked"
)
PIDS: list[str] = []
"""Those of the abandoned branch, as they are seen where it ran."""
NOTE = "Starting the server was wrong."


sandboxed = pytest.mark.skipif(not probe.bubblewrap().works, reason=f"no sandbox here: {probe.bubblewrap().what}")


@pytest.fixture
def here(tmp_path):
    with place(tmp_path) as made:
        yield made


def script(request: Request) -> Step:
    if request.says("[agentrewind]"):
        if request.says("looked"):
            return say("Done.")
        return call("shell", {"command": AFTER.replace("PIDS", " ".join(PIDS))})
    results = request.results
    if not results:
        return call("shell", {"command": EARLY})
    if len(results) == 1:
        return call("shell", {"command": LATE})
    if len(results) == 2:
        PIDS[:] = re.findall(r"^(\d+)$", results[-1], re.MULTILINE)
        return call("backtrack_candidates", {"reason": "the server"})
    uid = re.search(r"(rec_\d+)[^\n]*http.server", results[-1])
    assert uid, results[-1]
    return call("backtrack_commit", {"record_uid": uid[1], "memory_summary": NOTE})


@contextmanager
def editor(workspace: Path) -> Iterator[None]:
    """A program of the user's, in the workspace, with a file of it open: no descendant of any run, and left alone."""
    theirs = subprocess.Popen(["sh", "-c", "exec 5<a.txt; exec sleep 600"], cwd=workspace, start_new_session=True)
    try:
        yield
        assert theirs.poll() is None, "the editor of the user is alive"
    finally:
        theirs.kill()
        theirs.wait()


def run(here: Place, *options: str) -> tuple[subprocess.CompletedProcess[str], list[dict]]:
    with ScriptedModel(script) as model:
        done = here.run(model.base_url, *options)
        return done, list(model.requests)


def told_after(requests: list[dict]) -> str:
    return [message["content"] for message in requests[-1]["messages"] if message["role"] == "tool"][-1]


def ended(here: Place) -> list[str]:
    run_dir = next((here.home / "runs").iterdir())
    moves = [event for event in read_run(run_dir).events if isinstance(event, Rewound)]
    assert len(moves) == 1
    return list(moves[0].ended_processes)


def check_workspace(here: Place, after: str) -> None:
    names = after.split("\n")
    assert "early.pid" in names
    for name in ("late.log", "late.pid", "server.log", "server.pid"):
        assert name not in names, "the files of the abandoned branch are gone, and nobody writes them again"
    assert "is alive" not in after.replace("the early one is alive", ""), after
    assert not (here.workspace / "late.log").exists()


def grows(after: str) -> bool:
    counts = [int(line) for line in after.split("\n") if re.fullmatch(r"\d+", line.strip())]
    return counts[-1] > counts[-2]


def only_the_branch_ended(here: Place, after: str) -> list[str]:
    """The processes that were ended: those of the abandoned branch, and not the one from before it."""
    check_workspace(here, after)
    assert "the early one is alive" in after
    assert grows(after)
    listed = ended(here)
    assert any("http.server" in text for text in listed)
    assert any("late.log" in text for text in listed)
    return listed


def test_without_a_sandbox_a_server_and_a_daemon_of_the_abandoned_branch_are_gone_and_no_one_else(here):
    early = 0
    try:
        with editor(here.workspace):
            done, requests = run(here, "--sandbox", "none")
            early = int((here.workspace / "early.pid").read_text())
            assert done.returncode == 0, done.stderr
            listed = only_the_branch_ended(here, told_after(requests))
        # A child that it had just then is another process: that was started since the checkpoint.
        assert not any(text.startswith(f"{early} (") for text in listed), listed
        assert os.path.exists(f"/proc/{early}")
    finally:
        if early:
            os.kill(early, 9)


@sandboxed
@pytest.mark.parametrize("mode", ["in-place", "fresh"])
def test_in_the_sandbox_of_a_session_too(here, mode):
    with editor(here.workspace):
        done, requests = run(here, "--sandbox", "session", "--mode", mode)
        assert done.returncode == 0, done.stderr
        listed = only_the_branch_ended(here, told_after(requests))
        assert not any("bwrap" in text or "inside" in text for text in listed), listed
    time.sleep(0.1)
    log = (here.workspace / "early.log").read_bytes()
    time.sleep(0.3)
    assert (here.workspace / "early.log").read_bytes() == log, "with the run its sandbox has ended"


@sandboxed
def test_in_a_sandbox_for_each_command_nothing_outlives_it_anyway(here):
    with editor(here.workspace):
        done, requests = run(here, "--sandbox", "bwrap")
        assert done.returncode == 0, done.stderr
        check_workspace(here, told_after(requests))
        assert "the early one is alive" not in told_after(requests)
        assert ended(here) == []


SERVICE = """
[services.web]
start = "python3 -m http.server -b 127.0.0.1 PORT"
ready = "exec 3<>/dev/tcp/127.0.0.1/PORT"

[services.broken]
start = "exit 1"
"""
ASK = "python3 -c 'import urllib.request as u; print(len(u.urlopen(\"http://127.0.0.1:PORT/a.txt\").read()))'"


def using(port: int):
    """Spoils a file, goes back, and asks the service before and after."""

    def script(request: Request) -> Step:
        results, ask = request.results, ASK.replace("PORT", str(port))
        if request.says("[agentrewind]"):
            return say("Done.") if request.says("7 bytes") else call("shell", {"command": f"{ask} | sed 's/$/ bytes/'"})
        if len(results) < 2:
            return call("shell", {"command": "rm a.txt" if results else ask})
        return call("backtrack_commit", {"record_uid": "rec_000003", "memory_summary": "a.txt is needed."})

    return script


@pytest.mark.parametrize("kind", ["none", "session"])
def test_a_declared_service_is_there_before_and_after_a_rewind_and_one_that_fails_is_said(here, kind):
    if kind == "session" and not probe.bubblewrap().works:
        pytest.skip(f"no sandbox here: {probe.bubblewrap().what}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (here.workspace / "agentrewind.toml").write_text(SERVICE.replace("PORT", str(port)))
    with ScriptedModel(using(port)) as model:
        done = here.run(model.base_url, "--sandbox", kind)
        requests = list(model.requests)
    assert done.returncode == 0, done.stderr
    results = [message["content"] for message in requests[1]["messages"] if message["role"] == "tool"]
    assert results[0].startswith("7\n"), results
    assert told_after(requests).startswith("7 bytes"), told_after(requests)
    assert "The service 'broken' did not come up" in done.stderr
    assert ended(here) == [], "it is no leftover of the agent"
    assert '"audits":1' in last_line(here.home), "it is looked after like any other run"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


@sandboxed
def test_services_and_a_sandbox_for_each_command_dont_go_together(here):
    (here.workspace / "agentrewind.toml").write_text("[services.web]\nstart = 'sleep 600'\n")
    done = here.run("http://127.0.0.1:9", "--sandbox", "bwrap")
    assert done.returncode == 2
    assert "--sandbox session" in done.stderr
