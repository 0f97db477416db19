"""`--effects` on real runs: an agent of ours, a program that knows nothing of us, a person at a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
AGENT = """
import json, subprocess
from openai import OpenAI
tool = {"type": "function", "function": {"name": "bash", "description": "Run it.", "parameters": {"type": "object",
        "properties": {"command": {"type": "string"}}, "required": ["command"]}}}
messages = [{"role": "user", "content": "go"}]
with OpenAI() as client:
    while True:
        message = client.chat.completions.create(model="m", messages=messages, tools=[tool]).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for made in message.tool_calls or ():
            done = subprocess.run(json.loads(made.function.arguments)["command"], shell=True, capture_output=True)
            messages.append({"role": "tool", "tool_call_id": made.id, "content": done.stdout.decode()})
        if not message.tool_calls:
            break
"""


class Bench:
    def __init__(self, base: Path) -> None:
        self.workspace, self.outside = base / "work", base / "outside"
        self.workspace.mkdir()
        (base / "agent.py").write_text(AGENT)
        self.agent = base / "agent.py"
        known = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTREWIND", "OPENAI"))}
        own = {"AGENTREWIND_HOME": str(base / "data"), "HOME": str(base / "home"), "OPENAI_API_KEY": "none"}
        self.environ = {**known, **own}
        (base / "home").mkdir()

    def script(self, request: Request) -> Step:
        """Writes outside, and again where it is told that it may; then inside."""
        tool = next(name for name in ("shell", "bash") if name in request.tools)
        if not request.results or (request.says("make the very same call again") and len(request.results) == 1):
            return call(tool, {"command": f"touch {self.outside}"})
        if not (self.workspace / "inside").exists():
            return call(tool, {"command": "touch inside"})
        return say("done")

    def command(self, kind: str, base_url: str, *options: str) -> list[str]:
        common = ["--base-url", base_url, "--workspace", str(self.workspace), *options]
        if kind == "exec":
            return [PROGRAM, "exec", *common, "--", sys.executable, str(self.agent)]
        return [PROGRAM, "run", "--model", "m", "--sandbox", "none", *common, "go"]

    def run(self, kind: str, base_url: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(kind, base_url, *options),
            env=self.environ,
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def cli(self, *arguments: str) -> str:
        done = subprocess.run(
            [PROGRAM, *arguments], env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def url(bench: Bench) -> Iterator[str]:
    with ScriptedModel(bench.script) as model:
        yield model.base_url


KINDS = pytest.mark.parametrize("kind", ["run", "exec"])


@KINDS
@pytest.mark.parametrize("mode", ["record", "annotate", "block", "confirm"])
def test_each_mode_in_each_mount(bench: Bench, url: str, kind: str, mode: str):
    outcomes = {"record": [], "annotate": ["told"], "block": ["blocked"], "confirm": ["refused"]}[mode]
    done = bench.run(kind, url, "--effects", mode)
    assert done.returncode == 0, done.stderr
    assert (bench.workspace / "inside").exists()
    assert bench.outside.exists() == (mode in ("record", "annotate"))
    nodes = json.loads(bench.cli("log", "last", "--json"))["nodes"]
    assert [gate["outcome"] for node in nodes for gate in node["gated"]] == outcomes
    assert "outside" in {effect["kind"] for node in nodes for effect in node["effects"]}
    shown = bench.cli("show", "last", "rec_000001")
    assert f"touch {bench.outside}" in shown
    assert ("held back" in bench.cli("log", "last")) == bool(outcomes)


def test_the_settings_of_the_workspace_set_the_mode(bench: Bench, url: str):
    (bench.workspace / "agentrewind.toml").write_text('[effects]\nmode = "block"\n')
    assert bench.run("exec", url).returncode == 0
    assert not bench.outside.exists()


@KINDS
def test_wrong_settings_are_refused_before_anything_is_made(bench: Bench, url: str, kind: str):
    (bench.workspace / "agentrewind.toml").write_text('[effects]\nmode = "ask"\n')
    done = bench.run(kind, url)
    assert (done.returncode, "effects.mode must be one of" in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr
    assert json.loads(bench.cli("runs", "--json")) == []


@KINDS
@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_a_person_at_the_terminal_decides(bench: Bench, url: str, kind: str, typed: str):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(bench.workspace)
        os.execve(PROGRAM, bench.command(kind, url, "--effects", "confirm"), bench.environ)
    shown = read_until(terminal, b"[y/N]")
    assert str(bench.outside).encode() in shown
    os.write(terminal, typed.encode())
    read_until(terminal, None)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert bench.outside.exists() == (typed == "y\n")


def read_until(terminal: int, wanted: bytes | None) -> bytes:
    """What the program shows, up to `wanted` or to its end."""
    shown, until = b"", time.monotonic() + 60
    while (wanted is None or wanted not in shown) and time.monotonic() < until:
        if select.select([terminal], [], [], 1)[0]:
            try:
                part = os.read(terminal, 4096)
            except OSError:
                break
            shown += part
            if not part:
                break
    assert wanted is None or wanted in shown, shown
    return shown
