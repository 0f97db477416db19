"""A long run through the proxy in short form: its memory, its journal, and checkpoints that can still be restored.

make soak            2,000 calls and 200 rewinds; prints what a call costs in memory and in the journal
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import httpx
import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.core.records import RecordUid, record_uid
from agentrewind.engine.offline import restore_files
from agentrewind.journal.check import check
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
CALLS = int(os.environ.get("AGENTREWIND_SOAK_CALLS", "2000"))
EVERY = 10
"""So many calls of the agent after one another there is a rewind."""
SAMPLED = 50
FILES = 20
SHELL = {"type": "function", "function": {"name": "shell", "description": "x", "parameters": {"type": "object"}}}


def look(workspace: Path) -> str:
    """A digest of all files, names and contents."""
    found = hashlib.sha256()
    for path in sorted(workspace.rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(workspace)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


class Model:
    """Says what to do, goes back now and then, and knows what the files were at each of its calls."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.asked = 0
        self.steps = 0
        self.files: dict[RecordUid, str] = {}
        self.path: list[RecordUid] = []
        self.target: RecordUid | None = None
        self.rewinds = 0
        self.forget: Callable[[], object] = lambda: None
        self.random = Random(7)

    def __call__(self, request: Request) -> Step:
        self.forget()
        self.asked += 1
        uid = record_uid(self.asked)
        self.files[uid] = look(self.workspace)
        if self.target is not None:
            assert self.files[uid] == self.files[self.target], f"{uid} is not where {self.target} was"
            assert request.says(f"note {self.rewinds}.")
            self.target = None
        elif len(self.path) > EVERY and self.steps % EVERY == EVERY - 1:
            self.rewinds += 1
            self.steps += 1
            back = self.random.randrange(2, EVERY - 2)
            self.target = self.path[-back]
            del self.path[-back:]
            arguments = {"record_uid": self.target, "memory_summary": f"note {self.rewinds}. This led nowhere."}
            return call("backtrack_commit", arguments)
        self.path.append(uid)
        self.steps += 1
        return call("shell", {"command": f"echo {self.steps} > file"})


def rss(pid: int) -> int:
    """Resident memory in kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def slope(points: list[tuple[int, int]]) -> float:
    """Of the line that fits best."""
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def soak(base: Path, calls: int) -> dict[str, float]:
    """Let an agent make so many calls; what it cost."""
    workspace = base / "work"
    workspace.mkdir()
    for number in range(FILES):
        (workspace / f"file{number}.txt").write_text(f"{number}\n" * 50)
    environ = {**os.environ, "AGENTREWIND_HOME": str(base / "home"), "OPENAI_API_KEY": "any"}
    play = Model(workspace)
    with ScriptedModel(play) as model:
        play.forget = model.requests.clear
        options = ["--base-url", model.base_url, "--workspace", str(workspace), "--max-rewinds", "100000"]
        command = [PROGRAM, "proxy", "--json", "--notice", "off", *options]
        with (
            (base / "said").open("w") as said,
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=said, text=True) as proxy,
        ):
            assert proxy.stdout
            begun = json.loads(proxy.stdout.readline())
            journal = Home(base / "home").run_dir(begun["run"])
            points = work(begun["addresses"]["OPENAI_BASE_URL"], workspace, calls, proxy.pid, journal)
            proxy.send_signal(signal.SIGTERM)
            proxy.communicate()
            assert proxy.returncode == 0
        assert model.refused == []
    run = Run(Home(base / "home"), begun["run"])
    assert check(run.path) == []
    assert (run.tree.rewinds, len(run.tree.nodes)) == (play.rewinds, play.asked)
    restored = restorable(run, workspace, play.files)
    warm = points[len(points) // 4 :]
    size = [(number, bytes_kept) for number, _, bytes_kept in points]
    return {
        "calls": play.asked,
        "rewinds": play.rewinds,
        "memory at the start, kB": points[0][1],
        "memory at the end, kB": points[-1][1],
        "memory a call, kB": round(slope([(number, memory) for number, memory, _ in warm]), 2),
        "journal a call, first half, bytes": round(slope(size[: len(size) // 2])),
        "journal a call, second half, bytes": round(slope(size[len(size) // 2 :])),
        "checkpoints restored": restored,
    }


def work(url: str, workspace: Path, calls: int, pid: int, journal: Path) -> list[tuple[int, int, int]]:
    """The agent: a loop that keeps everything that it ever sent. (call, memory of the proxy, bytes of the journal)."""
    messages: list[dict] = [{"role": "user", "content": "Work for a day."}]
    points = []
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        for number in range(calls):
            if number % max(calls // 40, 1) == 0 or number == calls - 1:
                points.append((number, rss(pid), sum(path.stat().st_size for path in journal.glob("*.jsonl"))))
            answer = client.post("/chat/completions", json={"model": "any", "messages": messages, "tools": [SHELL]})
            answer.raise_for_status()
            message = answer.json()["choices"][0]["message"]
            messages.append(message)
            (workspace / f"file{number % FILES}.txt").write_text(f"after call {number}\n" * 20)
            ids = [asked["id"] for asked in message["tool_calls"]]
            messages += [{"role": "tool", "tool_call_id": name, "content": f"done {number}"} for name in ids]
    return points


def restorable(run: Run, workspace: Path, files: dict[RecordUid, str]) -> int:
    """Restore a sample of all checkpoints, one after the other; each has the files that were there."""
    sample = Random(11).sample(sorted(files), min(SAMPLED, len(files)))
    with run.writing() as opened:
        for uid in sample:
            restore_files(opened.log, opened.world, uid)
            assert look(workspace) == files[uid], uid
    return len(sample)


def test_a_run_of_a_hundred_calls_keeps_its_checkpoints_and_its_journal_grows_evenly(tmp_path: Path) -> None:
    found = soak(tmp_path, 120)
    assert found["rewinds"] >= 10
    assert found["checkpoints restored"] == SAMPLED
    assert found["journal a call, second half, bytes"] < 1.5 * found["journal a call, first half, bytes"]


@pytest.mark.slow
@pytest.mark.timeout(36_000)
def test_a_long_run_keeps_its_checkpoints_and_its_journal_grows_evenly(tmp_path: Path) -> None:
    begun = time.monotonic()
    found = soak(tmp_path, CALLS)
    print(f"\n{CALLS:,} calls of the agent in {time.monotonic() - begun:.0f} s")
    print("\n".join(f"  {name}: {value:,}" for name, value in found.items()))
    assert found["rewinds"] >= CALLS // EVERY * 0.9
    assert found["journal a call, second half, bytes"] < 1.5 * found["journal a call, first half, bytes"]
