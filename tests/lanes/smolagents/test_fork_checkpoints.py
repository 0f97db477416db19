"""A fork checkpoint of the real CodeAgent: what its interpreter holds and nothing can write down comes back too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.testing.scripted import Request, ScriptedModel, Step, say
from tests.lanes import needs

pytestmark = needs("smolagents", "smolagents")

TARGET = "rec_000004"


def code(*lines: str) -> Step:
    return say("\n".join(("Now.", "<code>", *lines, "</code>")))


STEPS = (
    code(
        "import random",
        "token = random.random()",
        "numbers = (n for n in range(10))",
        "next(numbers)",
        "print(shell(command=f'echo {token} > token'))",
    ),
    code("print(next(numbers))", "print(shell(command='echo wrong > wrong'))"),
    code(f"print(backtrack_commit(record_uid={TARGET!r}, memory_summary='that was wrong'))"),
    code("print(shell(command=f'echo {token} > again; echo {next(numbers)} > number'))"),
    code("final_answer('done')"),
)


@pytest.mark.parametrize("copies", [4, 0])
def test_a_woken_code_agent_holds_what_it_held(tmp_path: Path, copies: int) -> None:
    """A generator can't be kept in any other way: without a parked copy the agent is told that it is gone."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    steps = iter(STEPS)

    def play(_: Request) -> Step:
        return next(steps)

    with ScriptedModel(play) as model:
        command = [sys.executable, "-m", "agentrewind", "run", "--agent", "smolagents", "--mode", "fresh"]
        where = ["--sandbox", "none", "--base-url", model.base_url, "--workspace", str(workspace)]
        environ = {**os.environ, "AGENTREWIND_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "k"}
        done = subprocess.run(
            [*command, "--fork-checkpoints", str(copies), "--model", "any", *where, "Count."],
            env=environ, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    home = Home(tmp_path / "home")
    (run_id,) = home.run_ids()
    tree = Run(home, run_id).tree
    assert tree.rewinds == 1
    assert tree.node(TARGET).is_llm
    assert not (workspace / "wrong").exists()
    if copies:
        assert "1 woken" in done.stderr
        assert (workspace / "again").read_text() == (workspace / "token").read_text()
        assert (workspace / "number").read_text() == "1\n"
    else:
        assert not (workspace / "again").exists()
