"""What a rewind in fresh mode waits for: from the decision to start a new process of the agent to its first live call.

    python benchmarks/restart_cost.py [--rounds 7] [--steps 0 20] [--agents builtin mini-swe-agent]

Two arms, alternating: a new interpreter for each process (`--spawn`), and a fork of one that has imported the agent.
The process is given `steps` recorded steps, each an LLM call and a command, before it makes its one live call. The
model is a script on loopback; the moment counts at which its server gets the request. Medians, and their ratio.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from agentrewind.compose.harnesses import harness_by_name
from agentrewind.compose.home import Home
from agentrewind.compose.recording import created, header, recorder
from agentrewind.compose.worlds import open_world
from agentrewind.core.strategy import Stop
from agentrewind.engine.attempts import Attempt
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.plans import Plan
from agentrewind.engine.processes import become_subreaper
from agentrewind.integrations.attempt import job_of
from agentrewind.integrations.harnesses.contract import Job
from agentrewind.integrations.launcher import Launcher
from agentrewind.strategies import by_name
from agentrewind.testing.scripted import ScriptedModel, call, say

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Bench:
    """One run of an agent with `steps` steps, and the means to start another process of it."""

    def __init__(self, agent: str, steps: int, stack: ExitStack) -> None:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workspace = base / "work"
        workspace.mkdir()
        self.asked: list[float] = []
        model = stack.enter_context(ScriptedModel(self.script(agent, steps)))
        home = Home(base / "home")
        world = stack.enter_context(closing(open_world(home, workspace)))
        log = stack.enter_context(
            created(home, header(workspace, "bench", redact=lambda value: value), lambda value: value, "process")
        )
        self.session = recorder(
            log,
            world,
            by_name("rewind"),
            max_rewinds=None,
            keep_world=False,
            redact=lambda value: value,
            kind=FreshSession,
        )
        self.harness = harness_by_name(agent)
        self.job = Job(
            "bench",
            workspace,
            "scripted",
            self.session,
            lambda _: Stop(ok=True, reason="done"),
            model.base_url,
            "any",
            environ=dict(os.environ),
        )
        self.forking, self.spawning = (
            stack.enter_context(closing(Launcher(self.harness.preload, os.environ, spawn=spawn)))
            for spawn in (False, True)
        )
        self.session.begin(Plan(), "served")
        self.run(self.forking)
        llm = [node.uid for node in self.session.tree.nodes.values() if node.is_llm]
        self.target = llm[-1]

    def script(self, agent: str, steps: int):
        name = "bash" if agent == "mini-swe-agent" else "shell"

        def play(request):
            self.asked.append(time.perf_counter())
            if request.turn < steps:
                return call(name, {"command": f"echo {request.turn}"})
            return call(name, {"command": SUBMIT}) if name == "bash" else say("done")

        return play

    def run(self, launcher: Launcher) -> None:
        kind = type(self.harness)
        described = job_of(f"{kind.__module__}:{kind.__qualname__}", self.job, ())
        ended = Attempt(self.session, self.job.submit, lambda _: None).run(
            lambda control: launcher.start(described, control)
        )
        assert ended.ok, ended

    def restart(self, launcher: Launcher) -> float:
        """Seconds from the decision to the first live call."""
        before = len(self.asked)
        begun = time.perf_counter()
        self.session.begin(Plan(self.target), "served")
        self.run(launcher)
        assert len(self.asked) == before + 1, "exactly one live call"
        return self.asked[-1] - begun


def measure(agent: str, steps: int, rounds: int) -> None:
    with ExitStack() as stack:
        bench = Bench(agent, steps, stack)
        spawned, forked = [], []
        for _ in range(rounds):
            spawned.append(bench.restart(bench.spawning))
            forked.append(bench.restart(bench.forking))
    slow, fast = statistics.median(spawned), statistics.median(forked)
    print(
        f"{agent}, {steps} recorded steps, {rounds} rounds alternating: new interpreter {slow * 1000:.0f} ms"
        f" ({min(spawned) * 1000:.0f} to {max(spawned) * 1000:.0f}), fork {fast * 1000:.0f} ms"
        f" ({min(forked) * 1000:.0f} to {max(forked) * 1000:.0f}): {slow / fast:.1f} x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, nargs="+", default=[0, 20])
    parser.add_argument("--agents", nargs="+", default=["builtin", "mini-swe-agent"])
    options = parser.parse_args()
    become_subreaper()
    for agent in options.agents:
        if agent == "mini-swe-agent" and importlib.util.find_spec("minisweagent") is None:
            print("mini-swe-agent: not installed here (pip install 'agentrewind[mini]'), left out")
            continue
        for steps in options.steps:
            measure(agent, steps, options.rounds)


if __name__ == "__main__":
    main()
