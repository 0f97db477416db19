"""What a node costs: the same agent, the same scripted model, the same steps, with and without agentrewind.

    python benchmarks/node_overhead.py [--files 1000] [--steps 20] [--rounds 7] [--agents builtin mini-swe-agent]

A step is one LLM call and one shell command that changes one file: two nodes, two snapshots, four journal lines.
Rounds alternate between the two arms; medians are printed, and the difference next to the harness's own step time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import tempfile
import time
from pathlib import Path

import agentrewind
from agentrewind.core.strategy import Stop
from agentrewind.integrations.harnesses.contract import Job
from agentrewind.testing.scripted import ScriptedModel, call, say

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Bare:
    """A recorder that records nothing."""

    def tool(self, name, arguments, run, *, call_id=None):
        return run()


def lay_out(root: Path, files: int) -> None:
    for number in range(files):
        folder = root / f"d{number // 50}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.txt").write_text(f"line {number}\n" * (number % 200 + 1))


def script(agent: str, steps: int):
    name = "bash" if agent == "mini-swe-agent" else "shell"

    def play(request):
        if request.turn < steps:
            return call(name, {"command": f"echo {request.turn} >> d{request.turn % 10}/f{request.turn % 10 * 50}.txt"})
        return call(name, {"command": SUBMIT}) if name == "bash" else say("done")

    return play


def harness(agent: str):
    if agent == "mini-swe-agent":
        from agentrewind.integrations.harnesses.mini import MiniSweAgent

        return MiniSweAgent()
    from agentrewind.integrations.harnesses.builtin import BuiltinAgent

    return BuiltinAgent()


def one_round(agent: str, workspace: Path, steps: int, *, recorded: bool) -> float:
    """Milliseconds a step."""
    with ScriptedModel(script(agent, steps)) as model:

        def job(recorder) -> Job:
            return Job(
                task="touch files",
                workspace=workspace,
                model="scripted",
                recorder=recorder,
                submit=lambda _: Stop(ok=True, reason="done"),
                base_url=model.base_url,
                api_key="any",
            )

        if not recorded:
            begun = time.perf_counter()
            harness(agent).run(job(Bare()))
            return (time.perf_counter() - begun) * 1000 / (steps + 1)
        with agentrewind.session(workspace=workspace) as session:
            begun = time.perf_counter()
            harness(agent).run(job(session))
            return (time.perf_counter() - begun) * 1000 / (steps + 1)


def measure(agent: str, files: int, steps: int, rounds: int) -> None:
    bare, recorded = [], []
    with tempfile.TemporaryDirectory() as base:
        workspace = Path(base) / "work"
        os.environ["AGENTREWIND_HOME"] = str(Path(base) / "home")
        lay_out(workspace, files)
        one_round(agent, workspace, 2, recorded=False)
        one_round(agent, workspace, 2, recorded=True)
        for _ in range(rounds):
            bare.append(one_round(agent, workspace, steps, recorded=False))
            recorded.append(one_round(agent, workspace, steps, recorded=True))
    own, with_us = statistics.median(bare), statistics.median(recorded)
    extra = with_us - own
    print(
        f"{agent}: {files} files, {steps} steps, {rounds} rounds alternating: own step {own:.1f} ms, recorded"
        f" {with_us:.1f} ms; a node adds {extra / 2:.1f} ms ({extra / own:.2f} x the harness's own step time)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--agents", nargs="+", default=["builtin", "mini-swe-agent"])
    options = parser.parse_args()
    for agent in options.agents:
        if agent == "mini-swe-agent" and importlib.util.find_spec("minisweagent") is None:
            print("mini-swe-agent: not installed here (pip install 'agentrewind[mini]'), left out")
            continue
        measure(agent, options.files, options.steps, options.rounds)


if __name__ == "__main__":
    main()
