"""A person in a second terminal: rewinds, pauses and lets go on a run that is alive, whatever drives its agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Step, say
from tests.e2e.test_exec import KEY, Place, here, in_workspace, one_sentence, python, until  # noqa: F401 (a fixture)
from tests.trees import describe, differences

NOTE = "Leave original/ alone; write right.txt instead."
SENT_BACK = "noted when you were brought back"


@dataclass
class Gated:
    """A model whose third command waits until somebody opens the gate; then, unless it was brought back, it is lost."""

    place: Place
    before: dict[str, dict] | None = None
    """The workspace at the second call."""
    after: dict[str, dict] | None = None
    """The same once it was brought back to it."""

    def __call__(self, request: Request) -> Step:
        results, work = request.results, self.place.workspace
        if request.says(SENT_BACK):
            if len(results) == 1:
                self.after = describe(work)
                return in_workspace(work, "echo right > right.txt")
            return say("Done.")
        if not results:
            return in_workspace(work, "echo one > one.txt")
        if len(results) == 1:
            self.before = self.before or describe(work)
            return in_workspace(work, "echo wrong > wrong.txt; rm -r original")
        if len(results) == 2:
            return in_workspace(work, f"touch {self.waiting}; {self.until_open}; echo late > late.txt")
        return say("Lost.")

    @property
    def waiting(self) -> Path:
        return self.place.base / "waiting"

    @property
    def gate(self) -> Path:
        return self.place.base / "open"

    @property
    def until_open(self) -> str:
        return f"until test -e {self.gate}; do sleep 0.05; done"

    def is_waiting(self) -> None:
        until(self.waiting.exists)

    def open(self) -> None:
        self.gate.touch()


def of_exec(place: Place, model: ScriptedModel, *words: str) -> subprocess.Popen[str]:
    return place.start("exec", "--base-url", model.base_url, "--workspace", str(place.workspace), "--", *words)


def of_run(place: Place, model: ScriptedModel, mode: str) -> subprocess.Popen[str]:
    options = ("--model", "m", "--base-url", model.base_url, "--mode", mode, "--sandbox", "none")
    return place.start("run", *options, "--workspace", str(place.workspace), "Put it in order.")


KINDS: dict[str, Callable[[Place, ScriptedModel], subprocess.Popen[str]]] = {
    "exec": lambda place, model: of_exec(place, model, *python("httpx_loop.py")),
    "exec, streamed": lambda place, model: of_exec(place, model, *python("sdk_loop.py", "streamed")),
    **{
        f"run, {mode}": lambda place, model, mode=mode: of_run(place, model, mode)
        for mode in ("in-place", "fresh", "reset")
    },
}


def second(place: Place) -> str:
    """The second checkpoint of the run."""
    return place.json("candidates", "last")["shown"][1]["uid"]


def asked(place: Place) -> list[Path]:
    return list((place.base / "home" / "runs").glob("*/requests/*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_alive_is_brought_back_and_its_agent_goes_on_without_knowing(here: Place, kind: str):  # noqa: F811
    gated = Gated(here)
    with ScriptedModel(gated, api_key=KEY) as model:
        agent = KINDS[kind](here, model)
        gated.is_waiting()
        target = second(here)
        person = here.start("rewind", "last", "--to", target, "--note", NOTE, "--yes")
        until(lambda: asked(here))
        assert person.poll() is None
        gated.open()
        told, complaints = person.communicate(timeout=60)
        out, err = agent.communicate(timeout=60)
        assert person.returncode == 0, complaints
        assert agent.returncode == 0, err
        assert model.refused == []
        last = model.last["messages"]
    assert f"Brought back to before {target}, by a person" in told
    assert "Done." in out + err
    assert differences(gated.before, gated.after) == []
    files = set(os.listdir(here.workspace))
    assert {"one.txt", "right.txt", "original"} <= files
    assert not {"wrong.txt", "late.txt"} & files
    assert json.dumps(last).count(NOTE) == 1
    assert "wrong.txt" not in json.dumps(last)
    run = here.json("log", "last")
    assert (run["state"], run["rewinds"]) == ("done", 1)
    assert [(move["by"], move["to"], move["note"]) for move in run["moves"]] == [("person", target, NOTE)]
    assert asked(here) == []
    assert here.json("check", "last")["ok"] is True


def test_a_program_goes_on_in_the_same_process_with_its_own_history(here: Place):  # noqa: F811
    gated, history = Gated(here), here.base / "history.json"
    with ScriptedModel(gated) as model:
        agent = of_exec(here, model, *python("httpx_loop.py", str(history)))
        gated.is_waiting()
        person = here.start("rewind", "last", "--to", second(here), "--note", NOTE, "--yes")
        until(lambda: asked(here))
        gated.open()
        assert agent.wait(60) == 0
        assert person.wait(60) == 0
    kept = history.read_text()
    assert "wrong.txt" in kept
    assert "right.txt" in kept
    assert NOTE not in kept
    assert "agentrewind" not in kept


def test_a_paused_run_waits_says_so_can_be_rewound_and_goes_on(here: Place):  # noqa: F811
    gated = Gated(here)
    with ScriptedModel(gated) as model:
        agent = KINDS["exec, streamed"](here, model)
        gated.is_waiting()
        paused = here.cli("pause", "last")
        assert paused.returncode == 0, paused.stderr
        assert here.json("runs")[0]["state"] == "paused"
        assert "will wait at its next model call" in here.cli("log", "last").stdout
        gated.open()
        until(lambda: "waits since" in here.cli("log", "last").stdout)
        calls = len(model.requests)
        made = here.json("rewind", "last", "--to", second(here), "--note", NOTE, "--yes")
        assert made["by"] == "person"
        assert not (here.workspace / "wrong.txt").exists()
        assert agent.poll() is None
        assert len(model.requests) == calls
        gone_on = here.cli("unpause", "last")
        assert gone_on.returncode == 0, gone_on.stderr
        assert agent.wait(60) == 0
        assert model.refused == []
    assert (here.workspace / "right.txt").exists()
    assert here.json("runs")[0]["state"] == "done"
    assert "isn't paused" in one_sentence(here.cli("unpause", "last"))
    refused = here.cli("pause", "last")
    assert (refused.returncode, "isn't running" in one_sentence(refused)) == (2, True)


def test_a_paused_run_that_is_ended_ends(here: Place):  # noqa: F811
    gated = Gated(here)
    with ScriptedModel(gated) as model:
        agent = KINDS["exec"](here, model)
        gated.is_waiting()
        assert here.cli("pause", "last").returncode == 0
        gated.open()
        until(lambda: "waits since" in here.cli("log", "last").stdout)
        agent.send_signal(signal.SIGTERM)
        agent.wait(60)
    assert here.json("runs")[0]["state"] != "paused"
    assert here.json("check", "last")["ok"] is True


def test_what_cant_be_is_refused_at_once_and_nothing_is_asked_for(here: Place):  # noqa: F811
    gated = Gated(here)
    with ScriptedModel(gated) as model:
        agent = KINDS["run, in-place"](here, model)
        gated.is_waiting()
        for arguments, word in (
            (("--to", "rec_000009", "--note", NOTE), "There is no record 'rec_000009'"),
            (("--to", "rec_000002", "--note", NOTE), "tool call"),
            (("--to", "rec_000001", "--note", "  "), "note is empty"),
            (("--to", "rec_000001"), "needs a note"),
            (("--to", "rec_000001", "--note", NOTE), "--yes"),
        ):
            refused = here.cli("rewind", "last", *arguments)
            assert (refused.returncode, word in one_sentence(refused)) == (2, True), refused.stderr
        assert asked(here) == []
        offered = here.cli("rewind", "last")
        assert offered.returncode == 2
        assert "rec_000003" in offered.stdout
        assert "--to rec_000005" in offered.stderr
        rehearsed = here.json("rewind", "last", "--to", "rec_000003", "--dry-run")
        assert {act["path"] for act in rehearsed["acts"]} >= {"wrong.txt", "original", "original/sub/file"}
        assert any("sleep" in line or "bash" in line or "sh" in line for line in rehearsed["processes"])
        gated.open()
        assert agent.wait(60) == 0
    assert here.json("log", "last")["rewinds"] == 0


def test_a_request_is_taken_back_by_ctrl_c_and_when_the_run_ends_first(here: Place):  # noqa: F811
    gated = Gated(here)
    with ScriptedModel(lambda request: say("Lost.") if len(request.results) == 3 else gated(request)) as model:
        try:
            agent = KINDS["exec"](here, model)
            gated.is_waiting()
            command = ("rewind", "last", "--to", second(here), "--note", NOTE, "--yes")
            person = here.start(*command)
            until(lambda: asked(here))
            person.send_signal(signal.SIGINT)
            _, complaints = person.communicate(timeout=90)
            assert person.returncode == 130
            assert "taken back; nothing was touched" in complaints
            assert asked(here) == []
            person = here.start(*command)
            until(lambda: asked(here))
            agent.kill()
            _, complaints = person.communicate(timeout=90)
            assert person.returncode == 1
            assert "ended before its agent made another model call" in complaints
            assert asked(here) == []
        finally:
            gated.open()  # else the program, which outlives its proxy, keeps the pipes open


def test_a_run_that_has_ended_is_brought_back_at_once_and_undone(here: Place):  # noqa: F811
    gated = Gated(here)
    gated.open()
    with ScriptedModel(gated) as model:
        assert KINDS["run, in-place"](here, model).wait(60) == 0
        ended = describe(here.workspace)
        (here.workspace / "mine.txt").write_text("a person's\n")
        made = here.json("rewind", "last", "--to", "rec_000003", "--note", "Not so.", "--yes")
        assert (made["by"], made["note"]) == ("person", "Not so.")
        assert not (here.workspace / "wrong.txt").exists()
        assert (here.workspace / "mine.txt").read_text() == "a person's\n"
        assert here.cli("undo", "last").returncode == 0
        assert set(describe(here.workspace)) - {"mine.txt"} == set(ended)
        assert here.cli("rewind", "last", "--to", "rec_000003", "--note", NOTE, "--yes").returncode == 0
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        assert json.dumps(model.last["messages"]).count(NOTE) == 1
    assert (here.workspace / "right.txt").exists()
    assert (here.workspace / "mine.txt").read_text() == "a person's\n"


@pytest.mark.parametrize("word", [(), ("--discard-drift",)], ids=["kept", "discarded"])
@pytest.mark.parametrize("kind", ["exec", "run, fresh"])
def test_what_a_person_wrote_while_the_agent_waited_stays_unless_they_say_otherwise(here: Place, kind: str, word):  # noqa: F811
    gated = Gated(here)

    def play(request: Request) -> Step:
        step = gated(request)
        if len(request.results) == 1 and not request.says(SENT_BACK):
            (here.workspace / "a.txt").write_text("mended by hand\n")
            (here.workspace / "mine.txt").write_text("a person's\n")
        return step

    with ScriptedModel(play, api_key=KEY) as model:
        agent = KINDS[kind](here, model)
        gated.is_waiting()
        target = second(here)
        plan = here.json("rewind", "last", "--to", target, "--dry-run", *word)
        person = here.start("rewind", "last", "--to", target, "--note", NOTE, "--yes", *word)
        until(lambda: asked(here))
        gated.open()
        told, complaints = person.communicate(timeout=60)
        assert person.returncode == 0, complaints
        assert agent.wait(60) == 0
    kept = {gap["path"]: gap["why"] for gap in plan["kept"]}
    changes = {act["path"] for act in plan["acts"]}
    files = set(os.listdir(here.workspace))
    assert {"one.txt", "right.txt", "original"} <= files
    assert not {"wrong.txt", "late.txt"} & files
    if word:
        assert not kept
        assert {"mine.txt", "a.txt", "wrong.txt"} <= changes
        assert (here.workspace / "a.txt").read_text() == "broken\n"
        assert "mine.txt" not in files
    else:
        assert kept["mine.txt"] == "new by somebody else than a run: left as it is"
        assert not {"mine.txt", "a.txt"} & changes
        assert (here.workspace / "a.txt").read_text() == "mended by hand\n"
        assert "left as it is: mine.txt: new by somebody else than a run" in told
