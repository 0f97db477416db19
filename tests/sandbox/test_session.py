"""One sandbox for all commands of a run: what stays there between them stands still, or it is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentrewind.engine.commands import CommandResult
from agentrewind.integrations.sandbox import commands_of, probe
from agentrewind.integrations.sandbox.session import Session, installation
from agentrewind.integrations.sandbox.side import prepare
from agentrewind.integrations.sandbox.spec import Confinement, Sandbox
from agentrewind.integrations.sandbox.view import tools_of

pytestmark = pytest.mark.skipif(not probe.bubblewrap().works, reason=f"no sandbox here: {probe.bubblewrap().what}")

Run = Callable[[str], CommandResult]

NEVER_STILL = """
import ctypes, os, time
if ctypes.CDLL(None).vfork() == 0:  # until its child is gone, the kernel lets nothing stop the parent
    open("up", "w").close()
    time.sleep(600)
    os._exit(0)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def run(tmp_path: Path, workspace: Path) -> Iterator[Run]:
    tools = (*tools_of(os.environ, str(tmp_path / "home"), str(workspace)), *installation())
    sandbox = Sandbox(Confinement("session"), str(workspace), str(tmp_path / "side"), tools=tools)
    prepare(sandbox)

    def ran(command: str) -> CommandResult:
        return commands_of(sandbox).run(command, cwd=workspace, environ=os.environ, timeout_s=60)

    with closing(Session(sandbox, os.environ)):
        yield ran


def test_what_stays_stands_still_between_commands_and_nothing_is_said(run: Run, workspace: Path) -> None:
    done = run("(while :; do echo x >> log; sleep 0.01; done) & sleep 0.2; echo begun")
    assert (done.exit_code, done.output) == (0, "begun\n")
    size = (workspace / "log").stat().st_size
    assert run("true").output == ""
    assert (workspace / "log").stat().st_size >= size


def test_what_can_not_be_held_still_is_said_with_the_command(run: Run, workspace: Path) -> None:
    (workspace / "never.py").write_text(NEVER_STILL)
    done = run("python3 never.py & until test -e up; do sleep 0.05; done; echo begun")
    assert done.exit_code == 0
    first, said = done.output.splitlines()
    assert first == "begun"
    assert said.startswith("[what was left running can't all be held still")
