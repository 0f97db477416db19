"""A run that somebody ends: its commands end with it, and it is kept as interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentrewind.cli.entry import run as agentrewind
from agentrewind.compose.runs import open_run
from agentrewind.engine.processes import marked
from agentrewind.integrations.sandbox import probe
from agentrewind.testing.scripted import ScriptedModel, call, say

PROGRAM = [sys.executable, "-m", "agentrewind"]
BUSY = (
    "test -e ../again && exit; touch ../again; sleep 300 & echo started > flag;"
    " while :; do echo on >> log; sleep 0.05; done"
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("AGENTREWIND_SANDBOX", "none")  # in one, `../again` would go back with the workspace
    root = tmp_path / "w"
    root.mkdir()
    return root


def begun(model: ScriptedModel, workspace: Path, *options: str, **more) -> subprocess.Popen[str]:
    words = ["run", "--model", "m", "--base-url", model.base_url, "--workspace", str(workspace), *options, "task"]
    return subprocess.Popen(
        [*PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def wait_for(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def processes_in(workspace: Path) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(workspace):
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("number", "code", "options"),
    [
        (signal.SIGINT, 130, ()),
        (signal.SIGTERM, 143, ()),
        (signal.SIGHUP, 129, ()),
        (signal.SIGQUIT, 131, ()),
        (signal.SIGTERM, 143, ("--mode", "fresh")),
        (signal.SIGTERM, 143, ("--mode", "reset")),
    ],
)
def test_a_run_that_is_ended_ends_its_commands_and_is_interrupted(workspace, number, code, options):
    with ScriptedModel([call("shell", {"command": BUSY}), say("done")]) as model:
        run = begun(model, workspace, *options)
        wait_for(lambda: (workspace / "flag").exists() and (workspace / "log").exists())
        run.send_signal(number)
        time.sleep(0.02)
        run.send_signal(signal.SIGTERM)  # those who end things often do it twice
        out, err = run.communicate(timeout=30)
        assert run.returncode == code, err
        assert "Traceback" not in out + err
        assert processes_in(workspace) == []
        assert open_run("last").state == "interrupted"
        assert agentrewind(["check", "last"]) == 0
        assert agentrewind(["resume", "last"]) == 0
    assert open_run("last").state == "done"


@pytest.mark.skipif(not probe.bubblewrap().works, reason=f"no sandbox here: {probe.bubblewrap().what}")
@pytest.mark.parametrize("options", [("bwrap",), ("session",), ("bwrap", "--mode", "fresh")])
def test_a_run_in_a_sandbox_that_is_ended_leaves_nothing(workspace, options):
    with ScriptedModel([call("shell", {"command": BUSY}), say("done")]) as model:
        run = begun(model, workspace, "--sandbox", *options)
        wait_for(lambda: (workspace / "flag").exists() and (workspace / "log").exists())
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=30)
        assert run.returncode == 143, err
        assert "Traceback" not in out + err
    assert processes_in(workspace) == []
    assert not marked(open_run("last").id)
    assert open_run("last").state == "interrupted"
    assert agentrewind(["check", "last"]) == 0


def test_a_hang_up_that_is_ignored_stays_ignored(workspace):
    steps = [call("shell", {"command": "echo started > flag; sleep 0.5"}), say("done")]
    with ScriptedModel(steps) as model:
        run = begun(model, workspace, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        wait_for((workspace / "flag").exists)
        run.send_signal(signal.SIGHUP)
        _, err = run.communicate(timeout=30)
    assert run.returncode == 0, err


def test_runs_shows_it_as_interrupted(workspace, capsys):
    with ScriptedModel([call("shell", {"command": BUSY})]) as model:
        run = begun(model, workspace)
        wait_for((workspace / "flag").exists)
        run.terminate()
        _, err = run.communicate(timeout=30)
    assert "agentrewind: Ended by SIGTERM." in err
    assert "`agentrewind resume last` goes on" in err
    assert agentrewind(["runs"]) == 0
    assert "interrupted" in capsys.readouterr().out
    assert agentrewind(["log", "last"]) == 0
    assert "interrupted: interrupted" not in capsys.readouterr().out
