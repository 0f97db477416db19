"""Restart, review and the ablations by the command line, with the built-in agent."""

from __future__ import annotations

import json

import pytest

from agentrewind.compose.runs import Run
from agentrewind.testing.scripted import Request, ScriptedModel, Step, say
from tests.e2e.test_fresh import Place, here, importable, is_memory, is_sound, notes, shell  # noqa: F401 (fixtures)

CHECK = "test -f right.txt || { echo 'FAIL right.txt is missing'; exit 1; }"


def learning(request: Request) -> Step:
    """Does the right thing once two attempts are written down."""
    attempt = sum(request.says(f"Attempt {number} failed") for number in (1, 2, 3))
    if request.results:
        return say("Done.")
    return shell(f"echo {attempt} > {'right' if attempt == 2 else 'wrong'}.txt")


@pytest.mark.parametrize("mode", ["in-place", "fresh"])
def test_restart_begins_each_attempt_on_the_first_files_with_all_that_failed(here: Place, mode: str) -> None:  # noqa: F811
    with ScriptedModel(learning) as model:
        done = here.run(model, "--mode", mode, "--check", CHECK, "--strategy", "restart", "--max-rewinds", "1")
        assert done.returncode == 0, done.stderr
        assert model.refused == []
        last = model.last["messages"]
    roles = [message["role"] for message in last if not is_memory(message)]
    assert roles == ["system", "user", "assistant", "tool"], "nothing of an earlier attempt but the notes"
    assert "backtrack" not in json.dumps(last)
    first, second = notes(last)
    assert first.startswith("Attempt 1 failed at FAIL right.txt is missing.")
    assert second.startswith("Attempt 2 failed")
    assert "no other attempt is made" in second
    assert "new attempt at the task" in next(message["content"] for message in last if is_memory(message))
    assert sorted(path.name for path in here.workspace.iterdir()) == ["kept", "right.txt"]
    assert [move["by"] for move in here.json("log", "last")["moves"]] == ["strategy restart"] * 2
    is_sound(here)


def test_restart_ends_after_five_equal_failures(here: Place) -> None:  # noqa: F811
    with ScriptedModel(lambda request: say("Done.")) as model:
        done = here.run(model, "--check", CHECK, "--strategy", "restart")
        assert done.returncode == 1
        assert len(model.requests) == 5
    assert "5 times in a row at the same point" in done.stdout


@pytest.mark.parametrize("mode", ["in-place", "fresh"])
def test_a_guard_by_rules_holds_a_call_back_and_the_agent_goes_on(here: Place, mode: str) -> None:  # noqa: F811
    def play(request: Request) -> Step:
        steps = (shell("rm -rf ./*"), shell("touch right.txt"), say("Done."))
        return steps[len(request.results)]

    with ScriptedModel(play) as model:
        done = here.run(model, "--mode", mode, "--check", CHECK, "--strategy", "review")
        assert done.returncode == 0, done.stderr
        told = [message["content"] for message in model.last["messages"] if message["role"] == "tool"]
    assert "safety review held this call back" in told[0]
    assert (here.workspace / "kept" / "file.txt").exists()
    assert "safety review held this call back" in here.cli("show", "last", "rec_000002").stdout


def test_a_guard_model_is_asked_beside_the_run_and_not_recorded_in_it(here: Place) -> None:  # noqa: F811
    def play(request: Request) -> Step:
        if request.body["model"] == "guard":
            bad = "touch bad" in request.said[-1].text.splitlines()[-1]
            return say(json.dumps({"decision": "UNSAFE" if bad else "SAFE", "reason": "as it is"}))
        return (shell("touch bad"), shell("touch right.txt"), say("Done."))[len(request.results)]

    with ScriptedModel(play) as model:
        guard = f"guard@{model.base_url}"
        done = here.run(model, "--check", CHECK, "--strategy", "review", "--guard", guard)
        assert done.returncode == 0, done.stderr
        asked = [body["model"] for body in model.requests]
    assert asked == ["m", "guard", "m", "guard", "m"]
    assert not (here.workspace / "bad").exists()
    run = Run(here.home, here.home.find("last"))
    assert sum(node.is_llm for node in run.records()) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--strategy", "review", "--guard", "nobody"), "no guard 'nobody'"),
        (("--keep", "context", "--mode", "fresh"), "needs --mode in-place"),
    ],
)
def test_what_can_not_be_is_refused_in_one_sentence(here: Place, options, said) -> None:  # noqa: F811
    with ScriptedModel([say("Done.")]) as model:
        done = here.run(model, *options)
    assert done.returncode == 2
    assert said in done.stderr
