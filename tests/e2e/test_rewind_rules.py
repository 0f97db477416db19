"""Memory, selectors, triggers and hints by the command line: what is asked for holds, and the run says so."""

from __future__ import annotations

import json

import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say
from tests.e2e.test_fresh import Place, commit, here, importable, is_sound, notes, shell  # noqa: F401 (fixtures)

CHECK = "test -f right.txt || { echo 'FAIL right.txt is missing'; exit 1; }"


def stubborn(request: Request) -> Step:
    """Submits the wrong work twice; taken back, it does the right thing."""
    if "in a row were rejected" in json.dumps(request.messages):
        return say("Done.") if request.says("righted") else shell("echo righted | tee right.txt")
    return say("Done.") if request.says("wronged") else shell("echo wronged | tee wrong.txt")


@pytest.mark.parametrize("mode", ["in-place", "fresh"])
def test_after_equal_failures_the_run_is_taken_back_unasked(here: Place, mode: str) -> None:  # noqa: F811
    with ScriptedModel(stubborn) as model:
        done = here.run(model, "--mode", mode, "--check", CHECK, "--trigger", "failures:2", "--strategy", "continue")
        assert done.returncode == 0, done.stderr
        assert "back to before rec_000001, by strategy failures:2, " in done.stderr
        assert len(model.requests) == 5
        assert "wronged" not in json.dumps(model.last["messages"])
        (note,) = notes(model.last["messages"])
    assert "FAIL right.txt is missing" in note
    assert sorted(path.name for path in here.workspace.iterdir()) == ["kept", "right.txt"]
    assert "back to before rec_000001, by strategy failures:2: 2 submissions in a row" in here.cli("log", "last").stdout
    (move,) = here.json("log", "last")["moves"]
    assert move["by"] == "strategy failures:2"
    is_sound(here)


def test_a_selector_takes_the_place_of_the_agents_choice(here: Place) -> None:  # noqa: F811
    def play(request: Request) -> Step:
        if request.says("NOTE"):
            return say("Done.")
        count = len(request.results)
        return shell(f"echo {count} > f{count}; echo {count}") if count < 4 else commit("rec_000001", "NOTE")

    with ScriptedModel(play) as model:
        done = here.run(model, "--selector", "previous")
        assert done.returncode == 0, done.stderr
    assert "chosen by previous in place of rec_000001" in here.cli("log", "last").stdout
    (move,) = here.json("log", "last")["moves"]
    assert (move["asked"], move["to"], move["selector"]) == ("rec_000001", "rec_000007", "previous")
    assert not (here.workspace / "f3").exists()
    assert (here.workspace / "f2").exists()


@pytest.mark.parametrize("mode", ["in-place", "fresh"])
def test_notes_over_the_budget_are_put_into_one_by_the_model(here: Place, mode: str) -> None:  # noqa: F811
    long = [f"NOTE {number}: " + "what was tried and failed. " * 20 for number in range(3)]

    def play(request: Request) -> Step:
        if request.says("Write one note"):
            return say("ALL IN SHORT")
        made = sum(request.says(f"NOTE {number}:") for number in range(3)) or 2 * request.says("ALL IN SHORT")
        if request.says("NOTE 2:"):
            return say("Done.")
        if len(request.results) == 1:
            return shell(f"echo {made} > bad; echo bad{made}")
        return commit("rec_000003", long[made]) if len(request.results) == 2 else shell("echo first > a; echo first")

    with ScriptedModel(play) as model:
        done = here.run(model, "--memory", "budget:200", "--mode", mode)
        assert done.returncode == 0, done.stderr
        assert notes(model.last["messages"])[-1] == long[2].strip()
        assert "ALL IN SHORT" in json.dumps(model.last["messages"])
        assert sum("Write one note" in json.dumps(request) for request in model.requests) == 1
    (merge,) = here.json("log", "last")["merges"]
    assert merge["covers"] == ["b1", "b2"]
    assert "the notes of b1, b2 were put into one by the model: ALL IN SHORT" in here.cli("log", "last").stdout
    is_sound(here)


def test_a_loop_is_told_and_shown(here: Place) -> None:  # noqa: F811
    def play(request: Request) -> Step:
        return say("Done.") if len(request.results) == 3 else shell("ls kept")

    with ScriptedModel(play) as model:
        assert here.run(model).returncode == 0
        results = [m["content"] for m in model.last["messages"] if m["role"] == "tool"]
    assert ["[agentrewind]" in text for text in results] == [False, True, False]
    shown = here.cli("log", "last").stdout
    assert "! told before rec_000005 (loop): [agentrewind] You did exactly this before" in shown
    assert is_told(here.json("show", "last", "rec_000005"))


def is_told(facts: dict) -> bool:
    return facts["hint"]["kind"] == "loop" and facts["hint"]["seen"] == ["rec_000001", "rec_000003"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--memory", "most"), "no memory policy 'most'"),
        (("--selector", "best"), "no selector 'best'"),
        (("--trigger", "often"), "no trigger 'often'"),
        (("--notice", "everything"), "'everything'"),
        (("--paper", "--memory", "latest"), "--paper settles --memory"),
    ],
)
def test_what_names_nothing_is_refused_in_one_sentence(here: Place, options, said) -> None:  # noqa: F811
    with ScriptedModel([say("Done.")]) as model:
        done = here.run(model, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert list(here.home.run_ids()) == []


def test_the_paper_profile_is_fresh_and_without_limit(here: Place) -> None:  # noqa: F811
    with ScriptedModel([call("shell", {"command": "true"}), say("Done.")]) as model:
        assert here.run(model, "--paper").returncode == 0
    facts = here.json("log", "last")
    assert facts["mode"] == "fresh"
