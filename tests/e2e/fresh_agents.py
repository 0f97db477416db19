"""Agents that make it hard to be rewound by ending their process, and the means to run one. Imported by forks too."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import httpx

from agentrewind.compose.fresh import drive
from agentrewind.compose.home import Home
from agentrewind.compose.recording import created, header, recorder
from agentrewind.compose.secret import redactor
from agentrewind.compose.worlds import open_world
from agentrewind.core.errors import AgentRewindError
from agentrewind.core.strategy import Stop
from agentrewind.core.tree import RunTree
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.processes import become_subreaper
from agentrewind.engine.signal import RewindSignal
from agentrewind.integrations.harnesses.contract import Job, Outcome
from agentrewind.strategies import by_name
from agentrewind.testing.scripted import Script, ScriptedModel

SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


class Loop:
    """A plain loop over chat completions with one tool. Each start is counted in `../starts`."""

    preload: ClassVar[tuple[str, ...]] = ("tests.e2e.fresh_agents",)
    seeds: ClassVar[bool] = True
    system = "You are an agent."

    def run(self, job: Job) -> Outcome:
        self.job = job
        starts = job.workspace.parent / "starts"
        with starts.open("a") as file:
            file.write("x")
        self.start = starts.stat().st_size
        with httpx.Client(timeout=30, trust_env=False) as self.client:
            return self.loop(list(job.seed) or self.opening())

    def opening(self) -> list[dict]:
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.job.task}]

    def loop(self, messages: list[dict]) -> Outcome:
        while True:
            message = self.ask(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                self.job.submit(message["content"])
                return Outcome(ok=True, reason="done", answer=message["content"])
            messages += [self.result(item) for item in message["tool_calls"]]

    def ask(self, messages: list[dict]) -> dict:
        body = {"model": "m", "messages": messages, "tools": [SHELL]}
        response = self.client.post(f"{self.job.base_url}/chat/completions", json=body)
        response.raise_for_status()
        return response.json()["choices"][0]["message"]

    def result(self, item: dict) -> dict:
        command = json.loads(item["function"]["arguments"])["command"]
        text = self.job.recorder.tool("shell", {"command": command}, lambda: self.shell(command), call_id=item["id"])
        return {"role": "tool", "tool_call_id": item["id"], "content": text}

    def shell(self, command: str) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.job.workspace,
            env=dict(self.job.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout


class UsesBash(Loop):
    def shell(self, command):
        return super().shell(f"exec bash -c {shlex.quote(command)}")


class SwallowsAndTriesAgain(Loop):
    """As retry libraries do: whatever is raised, the call is made again."""

    def ask(self, messages):
        for _ in range(20):
            try:
                return super().ask(messages)
            except BaseException:  # noqa: BLE001 (the fault that is played)
                time.sleep(0.01)
        return super().ask(messages)


class SwallowsAndSaysItIsDone(Loop):
    def ask(self, messages):
        try:
            return super().ask(messages)
        except:  # noqa: E722 (the fault that is played)
            return {"role": "assistant", "content": "all is well"}


class SwallowsAndGoesOnWithTools(Loop):
    """Runs what it likes after the signal, through the recorder."""

    def ask(self, messages):
        try:
            return super().ask(messages)
        except RewindSignal:
            for _ in range(3):
                try:
                    self.job.recorder.tool("shell", {"command": "x"}, lambda: self.shell("echo bad > bad.txt"))
                except BaseException:  # noqa: BLE001 (the fault that is played)
                    continue
            raise


class SwallowsAndStays(Loop):
    """Never ends by itself."""

    def ask(self, messages):
        try:
            return super().ask(messages)
        except RewindSignal:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(1)


class LeavesByTheBackDoor(Loop):
    def ask(self, messages):
        try:
            return super().ask(messages)
        except RewindSignal:
            os._exit(0)


class Crashes(Loop):
    def ask(self, messages):
        try:
            return super().ask(messages)
        except RewindSignal:
            os.kill(os.getpid(), signal.SIGSEGV)
            raise


class TurnsItIntoAnError(Loop):
    def ask(self, messages):
        try:
            return super().ask(messages)
        except RewindSignal as error:
            raise ValueError("attribute 'generations'") from error


class Grouped(Loop):
    """Async, the call in a task group, which wraps what it raises."""

    def ask(self, messages):
        return asyncio.run(self.grouped(messages))

    async def grouped(self, messages):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.asked(messages))
        return task.result()

    async def asked(self, messages):
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            body = {"model": "m", "messages": messages, "tools": [SHELL]}
            response = await client.post(f"{self.job.base_url}/chat/completions", json=body)
            return response.json()["choices"][0]["message"]


class ReadsTheClock(Loop):
    """Its prompt is another one in each process."""

    def opening(self):
        first, *rest = super().opening()
        return [{**first, "content": f"It is {time.time_ns()}."}, *rest]


class HasAnIdOfItsOwn(Loop):
    """Only what may differ does."""

    def ask(self, messages):
        body = {"model": "m", "messages": messages, "tools": [SHELL], "user": f"user-{os.getpid()}"}
        return self.client.post(f"{self.job.base_url}/chat/completions", json=body).json()["choices"][0]["message"]


class Wanders(Loop):
    """Begins its second and third process with a command that it never ran before."""

    odd: ClassVar[range] = range(2, 4)

    def loop(self, messages):
        if self.start in self.odd and not self.job.seed:
            item = {"id": "call_x", "function": {"arguments": '{"command": "echo wandered >> ../side"}'}}
            self.result(item)
        return super().loop(messages)


class WandersWithoutSeed(Wanders):
    seeds = False


class WandersForEver(WandersWithoutSeed):
    odd = range(2, 99)


class HasAToolThatRaises(Loop):
    def shell(self, command):
        text = super().shell(command)
        if "first" in command:
            raise ValueError("the tool is broken")
        return text

    def result(self, item):
        try:
            return super().result(item)
        except ValueError as error:
            return {"role": "tool", "tool_call_id": item["id"], "content": f"error: {error}"}


class DiesOnItsWayBack(Loop):
    """Its second process dies when it has been given the first recorded answer."""

    def result(self, item):
        if self.start == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().result(item)


class WritesFilesWhileItStarts(Loop):
    def opening(self):
        (self.job.workspace / "started.txt").write_text(f"{self.start}")
        return super().opening()


@dataclass
class Played:
    """What a run left."""

    outcome: Outcome | None
    error: AgentRewindError | None
    tree: RunTree
    requests: list[dict]
    workspace: Path
    run_dir: Path

    @property
    def side(self) -> list[str]:
        """What the commands left outside of the workspace, where no rewind reaches."""
        path = self.workspace.parent / "side"
        return path.read_text().split() if path.exists() else []

    @property
    def starts(self) -> int:
        return len((self.workspace.parent / "starts").read_text())

    @property
    def last(self) -> list[dict]:
        return self.requests[-1]["messages"]


def play(
    agent: type[Loop],
    script: Script,
    base: Path,
    *,
    spawn: bool = False,
    grace_s: float = 10.0,
    fork_checkpoints: int = 0,
    told: Callable[[str], None] = lambda _: None,
    during: Callable[[FreshSession], None] = lambda _: None,
) -> Played:
    """One run of an agent in fresh mode, whatever becomes of it."""
    become_subreaper()
    workspace = base / "work"
    workspace.mkdir(exist_ok=True)
    home = Home(base / "home")
    redact = redactor({}, workspace)
    strategy = by_name("rewind")
    outcome = error = None
    with (
        ScriptedModel(script) as model,
        closing(open_world(home, workspace)) as world,
        created(home, header(workspace, "t", redact=redact, mode="fresh"), redact, "process") as log,
    ):
        session = recorder(log, world, strategy, max_rewinds=50, redact=redact, kind=FreshSession)
        assert isinstance(session, FreshSession)
        during(session)
        job = Job(
            "t",
            workspace,
            "m",
            session,
            lambda _: Stop(ok=True, reason="done"),
            model.base_url,
            environ={**os.environ, "AGENTREWIND_RUN": log.run_dir.name},
            say=told,
        )
        try:
            outcome = drive(
                session, agent(), job, None, spawn=spawn, grace_s=grace_s, fork_checkpoints=fork_checkpoints
            )
        except AgentRewindError as raised:
            error = raised
        session.end("over", ok=outcome is not None)
        return Played(outcome, error, log.tree, model.requests, workspace, log.run_dir)
