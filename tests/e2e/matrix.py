"""What every cell of the matrix plays and what must come of it, whoever the agent is and however it is attached.

The model goes wrong, goes back, goes wrong again from there, and goes back to before where it had gone back to. What it
sees at each of its calls, and the files at the end, are written down here by hand or made by running the kept
commands alone: nothing of agentrewind is asked for them. Processes of agents import this module too.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from agentrewind.compose import fresh, reset
from agentrewind.compose.home import Home
from agentrewind.compose.recording import created, header, recorder
from agentrewind.compose.secret import redactor
from agentrewind.compose.worlds import open_world
from agentrewind.core.strategy import Stop
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.processes import become_subreaper
from agentrewind.engine.reset import ResetSession
from agentrewind.engine.session import Session
from agentrewind.integrations.clients import install
from agentrewind.integrations.harnesses.contract import Job, Outcome
from agentrewind.journal.check import check
from agentrewind.strategies import by_name
from agentrewind.testing.scripted import Request, Step, call, calls, say
from agentrewind.testing.scripted.api import Said
from tests.e2e.programs.matrix_loop import AGENTS, TASK, converse, shell
from tests.trees import content

ONE, TWO = "NOTE-ONE: step C was wrong", "NOTE-TWO: step B was wrong already"
ANSWER = "In order."

# --- the script -------------------------------------------------------------------------------------------------------

COMMANDS = {
    "A1": "echo step A1 >> ../side; mkdir -p kept/deep; echo one > kept/one; ln -s one kept/link; echo out A1",
    "A2": "echo step A2 >> ../side; chmod 700 tool.sh; echo two > kept/deep/two; echo out A2",
    "B": "echo step B >> ../side; rm -r original; echo b > b.txt; chmod 600 a.txt; echo out B",
    "C": "echo step C >> ../side; mv kept gone; rm a.txt; mkfifo pipe; echo out C",
    "D": "echo step D >> ../side; rm -f tool.sh link; echo d > kept/one; touch -d 2001-01-01 b.txt; echo out D",
    "E": "echo step E >> ../side; cat kept/one > e.txt; echo out E",
}
KEPT = ("A1", "A2", "E")
"""What the run comes to, in the end."""


@dataclass
class Model:
    """Plays the script in any dialect, and keeps what each request said, in no provider's form."""

    tool: str = "shell"
    submit: str = ""
    """The command that submits the work; empty where saying something does."""
    seen: list[list[tuple]] = field(default_factory=list)

    def __call__(self, request: Request) -> Step:
        assert {"backtrack_candidates", "backtrack_commit"} <= set(request.tools), "the tools were not offered"
        self.seen.append(told(request.said))
        done = [name for kind, *names in self.seen[-1] if kind == "asked" for name in names]
        listing = request.results[-1] if request.results and "Checkpoints" in request.results[-1] else ""
        if request.says(TWO):
            return self.end() if "E" in done else self.step("E")
        if request.says(ONE):
            return self.back(listing, "B", TWO) if "D" in done else self.step("D")
        if "C" in done:
            return self.back(listing, "C", ONE)
        return self.step("C" if "B" in done else "B") if "A1" in done else self.step("A1", "A2")

    def step(self, *names: str) -> Step:
        return calls([(self.tool, {"command": COMMANDS[name]}) for name in names])

    def back(self, listing: str, name: str, note: str) -> Step:
        if not listing:
            return call("backtrack_candidates", {"reason": "that was wrong"})
        found = re.search(rf"(rec_\d+)[^\n]*step {name} ", listing)
        assert found, listing
        return call("backtrack_commit", {"record_uid": found[1], "memory_summary": note})

    def end(self) -> Step:
        return call(self.tool, {"command": self.submit}) if self.submit else say(ANSWER)


def told(said: list[Said]) -> list[tuple]:
    """A conversation as the matrix compares it: the words of the user, which commands, which results, which notes."""
    return [entry for item in said if (entry := _told(item)) is not None]


def _told(item: Said) -> tuple | None:
    if "[agentrewind]" in item.text and item.role != "tool":
        return ("memory", *re.findall(r"<note \d+ from=\"[b\d ]+\">\n(.*?)\n</note>", item.text, re.DOTALL))
    if item.role == "assistant":
        asked = (re.search(r"step ([A-E]\d?) ", str(call.arguments)) for call in item.calls)
        names = [found[1] for found in asked if found]
        return ("asked", *names) if names else ("asked", *(call.name for call in item.calls))
    if item.role == "tool":
        if "Checkpoints" in item.text:
            return ("out", "listing")
        return ("out", *re.findall(r"out ([A-E]\d?)", item.text))
    return ("task",) if TASK in item.text else None


TASKED = [("task",)]
AFTER_A = [*TASKED, ("asked", "A1", "A2"), ("out", "A1"), ("out", "A2")]
AFTER_B = [*AFTER_A, ("asked", "B"), ("out", "B")]
AFTER_C = [*AFTER_B, ("asked", "C"), ("out", "C")]
LISTED = [("asked", "backtrack_candidates"), ("out", "listing")]
BACK_ONCE = [*AFTER_B, ("memory", ONE)]
AFTER_D = [*BACK_ONCE, ("asked", "D"), ("out", "D")]
BACK_TWICE = [*AFTER_A, ("memory", ONE, TWO)]
AFTER_E = [*BACK_TWICE, ("asked", "E"), ("out", "E")]
EXPECTED = [
    TASKED,
    AFTER_A,
    AFTER_B,
    AFTER_C,
    [*AFTER_C, *LISTED],
    BACK_ONCE,
    AFTER_D,
    [*AFTER_D, *LISTED],
    BACK_TWICE,
    AFTER_E,
]
"""What the model sees at each of its ten calls: no recorded call is made again, in no mode."""

# --- the files --------------------------------------------------------------------------------------------------------


def furnish(workspace: Path) -> None:
    (workspace / "original" / "sub").mkdir(parents=True)
    (workspace / "original" / "sub" / "file").write_text("precious\n")
    (workspace / "a.txt").write_text("broken\n")
    (workspace / "tool.sh").write_text("#!/bin/sh\n")
    (workspace / "link").symlink_to("a.txt")


def expected_files(base: Path) -> dict[str, dict[str, object]]:
    """What the kept commands make of the same workspace, run by nobody but the shell."""
    workspace = base / "expected" / "work"
    furnish(workspace)
    for name in KEPT:
        subprocess.run(["bash", "-c", COMMANDS[name]], cwd=workspace, stdout=subprocess.DEVNULL, check=True)
    return content(workspace)


def every_command_ran_once(workspace: Path) -> None:
    done = (workspace.parent / "side").read_text().split("\n")
    assert done == [*(f"step {name}" for name in ("A1", "A2", "B", "C", "D", "E")), ""]


# --- the SDK loops as harnesses ---------------------------------------------------------------------------------------


class Looping:
    """A loop of `matrix_loop` in a process of ours."""

    kind: ClassVar[str]
    dialect: ClassVar[str]
    streamed: ClassVar[bool]
    seeds: ClassVar[bool] = True
    preload: ClassVar[tuple[str, ...]] = ("tests.e2e.matrix",)
    name = "looping"

    def run(self, job: Job) -> Outcome:
        assert job.base_url
        url = job.base_url.removesuffix("/v1")
        agent = AGENTS[self.kind, self.dialect](url, "k", list(job.seed), streamed=self.streamed)

        def run(call_id: str, command: str) -> str:
            return job.recorder.tool(
                "shell", {"command": command}, lambda: shell(command, str(job.workspace)), call_id=call_id
            )

        answer = converse(agent, run)
        if hasattr(agent, "client"):
            agent.client.close()
        job.submit(answer)
        return Outcome(ok=True, reason="done", answer=answer)


def _looping(kind: str, dialect: str, form: str) -> type[Looping]:
    name = f"{kind}_{dialect}_{form}"
    preload = ("tests.e2e.matrix", kind)
    fields = {"kind": kind, "dialect": dialect, "streamed": form == "streamed", "preload": preload}
    made = type(name, (Looping,), {**fields, "__module__": __name__, "__qualname__": name})
    globals()[name] = made
    return made


LOOPS = {
    (kind, dialect, form): _looping(kind, dialect, form) for kind, dialect in AGENTS for form in ("plain", "streamed")
}
MODES: dict[str, type[Session]] = {"in place": Session, "fresh": FreshSession, "reset": ResetSession}


def play(loop: type[Looping], mode: str, base: Path, base_url: str) -> None:
    """One run of a loop in a mode, to its end; its journal is sound and says two rewinds."""
    become_subreaper()
    workspace = base / "work"
    furnish(workspace)
    home, redact, strategy = Home(base / "home"), redactor({}, workspace), by_name("rewind")
    with (
        closing(open_world(home, workspace)) as world,
        created(home, header(workspace, TASK, redact=redact, mode=mode), redact, "process") as log,
    ):
        kind = MODES[mode]
        session = recorder(log, world, strategy, max_rewinds=50, redact=redact, kind=kind)
        environ = {**os.environ, "AGENTREWIND_RUN": log.run_dir.name}
        stop: Callable[[str], Stop] = lambda _: Stop(ok=True, reason="done")  # noqa: E731
        job = Job(TASK, workspace, "m", session, stop, base_url, environ=environ)
        outcome = _driven(session, loop(), job)
        session.end("over", ok=outcome.ok)
        assert outcome.answer == ANSWER
        assert log.tree.rewinds == 2
        assert log.tree.warnings == []
        assert log.tree.main == "main"
        assert check(log.run_dir) == []


def _driven(session: Session, harness: Looping, job: Job) -> Outcome:
    if isinstance(session, FreshSession):
        return fresh.drive(session, harness, job, None, spawn=False)
    if isinstance(session, ResetSession):
        return reset.drive(session, harness.run, job)
    with install(session):
        return harness.run(job)
