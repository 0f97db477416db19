"""Claude Code, Codex, Qwen Code and opencode under `agentrewind exec`: their own programs, and a scripted model.

Where a program isn't in PATH its tests are skipped; `make test-cli-agents` has them all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, fail, say
from tests.e2e.test_exec import PROGRAM
from tests.lanes.cli_agents import AGENTS, KEY, Agent, environ_of
from tests.trees import describe, differences

pytestmark = [pytest.mark.timeout(600)]

TASK = "Put the workspace in order."
LATER = "Now go on."
PATIENCE = 60


@dataclass
class Desk:
    """An agent in a workspace, with a home of its own."""

    agent: Agent
    base: Path
    environ: dict[str, str]

    @property
    def workspace(self) -> Path:
        return self.base / "work"

    def exec(self, model: ScriptedModel, line: str, task: str, *options: str) -> subprocess.CompletedProcess[str]:
        more = {"ANTHROPIC_BASE_URL": model.root_url, "OPENAI_BASE_URL": model.base_url}
        return subprocess.run(
            [PROGRAM, "exec", *options, "--", *self.agent.words(line, task)],
            env=self.environ | more,
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def facts(self, *arguments: str) -> dict:
        done = subprocess.run(
            [PROGRAM, *arguments, "--json"], env=self.environ, capture_output=True, text=True, check=True, timeout=60
        )
        return json.loads(done.stdout)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.program)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    agent: Agent = request.param
    if not agent.installed():
        pytest.skip(f"the program {agent.program} isn't installed; `make test-cli-agents` has it")
    (tmp_path / "work/original").mkdir(parents=True)
    (tmp_path / "work/original/file").write_text("precious\n")
    (tmp_path / "home").mkdir()
    environ = environ_of(agent, tmp_path / "home") | {
        "AGENTREWIND_HOME": str(tmp_path / "data"),
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
        "PWD": str(tmp_path / "work"),
    }
    yield Desk(agent, tmp_path, environ)
    assert KEY.encode() not in b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*.jsonl"))


@dataclass
class Model:
    """Goes wrong in its second step, looks where it can go back to, and goes back there.

    `ends`: how it answers after that and one more step.
    """

    desk: Desk
    ends: Step = field(default_factory=lambda: say("In order."))
    prefix: str = ""
    """What stands before the names of the two tools."""
    requests: list[Request] = field(default_factory=list)
    """Those of the agent's own conversation."""
    before: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)

    def __call__(self, request: Request) -> Step:
        if self.desk.agent.shell not in request.tools:
            return say("A title")
        self.requests.append(request)
        done = "\n".join(str(call.arguments) for item in request.said for call in item.calls)
        if request.says("note: keep"):
            return self._after(request, done)
        if "kept/one" not in done:
            return self._shell("mkdir kept && echo 1 > kept/one")
        if "rm -r original" not in done:
            self.before = describe(self.desk.workspace)
            return self._shell("rm -r original; chmod 700 kept/one; echo 2 > two")
        if "Checkpoints, oldest first" not in request.results[-1]:
            return self._tool(request, "backtrack_candidates", {"reason": "the original is gone"})
        uid = re.search(r"^(rec_\d+) .*rm -r original", request.results[-1].replace("\\n", "\n"), re.MULTILINE)
        note = {"record_uid": uid[1], "memory_summary": "the note: keep the original", "reason": "lost"}
        return self._tool(request, "backtrack_commit", note)

    def _after(self, request: Request, done: str) -> Step:
        if "five" not in done:
            self.after = describe(self.desk.workspace)
            return self._shell("echo 5 > five")
        if request.says(LATER):
            return say("In order.") if "six" in done else self._shell("echo 6 > six")
        return self.ends

    def _shell(self, command: str) -> Step:
        return call(self.desk.agent.shell, self.desk.agent.command(command))

    def _tool(self, request: Request, name: str, arguments: dict) -> Step:
        declared = next((tool for tool in request.tools if tool.endswith(name)), None)
        if declared is None:  # the MCP server is still on its way: agents don't wait for it
            assert len(request.results) < PATIENCE, request.tools
            if self.desk.agent.finds is not None:
                return call(*self.desk.agent.finds(name))
            return self._shell(f"sleep 1 # {len(request.results)}")
        return call(declared, arguments)

    def was_rewound(self) -> None:
        """Files and conversation came back together, and stay so in every later call."""
        assert self.before, self.requests
        assert differences(self.before, self.after) == []
        for request in self.requests:
            if request.says("note: keep"):
                self.holds_nothing_abandoned(request)
        assert self.requests[-1].says("note: keep")

    def holds_nothing_abandoned(self, request: Request) -> None:
        text = json.dumps(request.body)
        assert "rm -r original" not in text
        assert "the original is gone" not in text
        assert "Accepted: before your next turn" not in text
        assert text.count("note: keep the original") == 1
        done = [str(call.arguments) for item in request.said for call in item.calls]
        assert sum("kept/one" in command for command in done) == 1


def test_a_task_with_a_rewind(desk: Desk):
    script = Model(desk)
    with ScriptedModel(script, api_key=KEY) as model:
        done = desk.exec(model, desk.agent.task, TASK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert model.refused == []
    assert "In order." in done.stdout
    script.was_rewound()
    assert sorted(path.name for path in desk.workspace.iterdir()) == ["five", "kept", "original"]
    facts = desk.facts("log", "last")
    (move,) = facts["moves"]
    assert (move["context"], move["by"]) == ("exact", "agent")
    assert facts["warnings"] == []
    threads = {node["thread"] for node in facts["nodes"] if node["calls"]}
    assert threads == {"main"}, "a title writer, say, is another conversation"
    assert desk.facts("check", "last")["ok"] is True


def test_its_own_session_goes_on_with_the_rewind_in_force(desk: Desk):
    script = Model(desk, fail(400, "The script ends here."))
    with ScriptedModel(script, api_key=KEY) as model:
        desk.exec(model, desk.agent.task, TASK)
        run = desk.facts("log", "last")
        assert script.requests[-1].says("note: keep")
        asked = len(script.requests)
        script.ends = say("Nothing to do.")
        done = desk.exec(model, desk.agent.goes_on, LATER, "--resume", "last")
        assert done.returncode == 0, done.stdout + done.stderr
    assert model.refused == []
    assert len(script.requests) > asked
    assert script.requests[asked].says(LATER), "its own session was resumed"
    script.was_rewound()
    facts = desk.facts("log", "last")
    assert facts["run"] == run["run"]
    assert not any("degraded" in warning for warning in facts["warnings"])
    assert sorted(path.name for path in desk.workspace.iterdir()) == ["five", "kept", "original", "six"]


@pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp isn't installed; `make test-cli-agents` has it")
def test_a_rewind_by_the_tools_of_the_mcp_server(desk: Desk):
    assert desk.agent.mcp is not None
    line = (
        f"{desk.agent.task} {desk.agent.mcp(Path(desk.environ['HOME']), [sys.executable, '-m', 'agentrewind', 'mcp'])}"
    )
    script = Model(desk)
    with ScriptedModel(script, api_key=KEY) as model:
        done = desk.exec(model, line, TASK, "--no-inject")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "In order." in done.stdout
    script.was_rewound()
    assert desk.facts("log", "last")["moves"][0]["context"] == "exact"
