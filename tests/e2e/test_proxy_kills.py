"""kill -9 of the proxy at any instant of a run with rewinds: `exec --resume` goes on with files and a conversation that
belong together, at every call, to the end."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run, verify_snapshots
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say
from tests.e2e.test_exec import KEY, PROGRAMS, Place, here  # noqa: F401 (a fixture)

KILLS = int(os.environ.get("AGENTREWIND_PROXY_KILLS", "10"))
ONE, TWO = "NOTE-ONE: the first file must stay", "NOTE-TWO: the third file was wrong"
DOES = {
    "first": ("a", "echo first > a"),
    "gone": (None, "rm -f a"),
    "second": ("b", "echo second > b"),
    "spoilt": ("spoilt", "echo spoilt > spoilt"),
    "third": ("c", "echo third > c"),
}


class Model:
    """Two rewinds. At each call it looks whether the files are those that the conversation speaks of."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.wrong: list[str] = []

    def __call__(self, request: Request) -> Step:
        done = [text.split()[0] for text in request.results if text.split()[:1] and text.split()[0] in DOES]
        self.look(done)
        said = json.dumps(request.messages)
        if TWO in said:
            return say("In order.") if "third" in done else self.does("third")
        if ONE in said:
            return self.goes_back(request, "spoilt", TWO) if "spoilt" in done else self.does_next(done)
        if "gone" in done:
            return self.goes_back(request, "gone", ONE)
        return self.does("gone") if "first" in done else self.does("first")

    def does_next(self, done: list[str]) -> Step:
        return self.does("spoilt") if "second" in done else self.does("second")

    def does(self, word: str) -> Step:
        there = f"cd '{self.workspace}' || exit"
        return call("shell", {"command": f": {word}; {there}; sleep 0.03; {DOES[word][1]}; sleep 0.03; echo {word}"})

    def goes_back(self, request: Request, word: str, note: str) -> Step:
        listed = next((text for text in reversed(request.results) if text.startswith("Checkpoints")), "")
        found = re.search(rf"(rec_\d+)[^\n]*: {word};", listed)
        if found is None:
            return call("backtrack_candidates", {"reason": f"{word} was wrong"})
        return call("backtrack_commit", {"record_uid": found[1], "memory_summary": note})

    def look(self, done: list[str]) -> None:
        expected: set[str] = set()
        for word in done:
            expected = expected - {"a"} if word == "gone" else expected | {str(DOES[word][0])}
        there = {name for name in os.listdir(self.workspace) if name in {"a", "b", "c", "spoilt"}}
        if there != expected:
            self.wrong.append(f"after {done} the files are {sorted(there)}")


def strike(here: Place, random: Random) -> str:  # noqa: F811
    """One run whose proxy is killed at a random instant, resumed to its end; what the program was at."""
    play = Model(here.workspace)
    with ScriptedModel(play, api_key=KEY) as model:
        words = (sys.executable, str(PROGRAMS / "httpx_loop.py"), str(here.base / "history.json"))
        started = here.start("exec", "--base-url", model.base_url, "--workspace", str(here.workspace), "--", *words)
        wanted = random.randrange(11)
        while started.poll() is None and len(model.requests) <= wanted:
            time.sleep(0.002)
        time.sleep(random.random() * 0.15)
        alive = started.poll() is None
        started.kill()
        started.communicate()
        assert not alive or started.returncode == -signal.SIGKILL
        at = f"call {len(model.requests)}" if alive else "over"
        time.sleep(random.choice([0, 0.3]))
        if here.json("runs")[0]["state"] != "done":
            done = here.cli("exec", "--base-url", model.base_url, "--resume", "last", "--", *words)
            assert done.returncode == 0, (at, done.stderr)
        last = json.dumps(model.last["messages"])
        assert play.wrong == [], at
        assert (last.count(ONE), last.count(TWO)) == (1, 1), at
        assert model.refused == [], at
    assert {name for name in os.listdir(here.workspace) if name in "abc"} == {"a", "b", "c"}, at
    is_sound(here, at)
    return at


def is_sound(here: Place, at: str) -> None:  # noqa: F811
    home = Home(Path(here.environ["AGENTREWIND_HOME"]))
    (run,) = (Run(home, run_id) for run_id in home.run_ids())
    assert here.json("check", "last")["ok"] is True, at
    assert run.state == "done", at
    assert verify_snapshots(run, lambda *_: None)[1] == [], at
    assert not any("degraded" in text for text in run.tree.warnings), (at, run.tree.warnings)


def again(here: Place, number: int) -> Place:  # noqa: F811
    """A place of its own for each kill."""
    base = here.base / str(number)
    (base / "work").mkdir(parents=True)
    environ = {**here.environ, "AGENTREWIND_HOME": str(base / "home")}
    return Place(base, base / "work", environ, here.started)


def test_a_killed_proxy_is_resumed_to_a_consistent_end(here: Place):  # noqa: F811
    for number, seed in enumerate((3, 4)):
        strike(again(here, number), Random(seed))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_proxy_killed_at_random_instants_is_resumed_to_a_consistent_end(here: Place):  # noqa: F811
    counts = Counter(strike(again(here, number), Random(1000 + number)) for number in range(KILLS))
    print(dict(counts))
    assert counts["over"] <= KILLS // 2, "hardly anything was killed"
