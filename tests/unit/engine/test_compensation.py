"""Commands that take effects back: newest first, once, before the files are restored, with their outcome known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrewind.core.effects import Effect
from agentrewind.core.records import CompensationBegan, CompensationEnded, Rewound
from agentrewind.core.standing import surviving
from agentrewind.engine import compensation, offline
from agentrewind.engine.effects import Effects
from agentrewind.engine.gate import Gate
from tests.unit.engine import test_fresh as fresh
from tests.unit.engine.test_effects import HARNESSES, Harness, Rig, commit, do, say


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Commands write into this directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", str(tmp_path))
    return tmp_path


def undone(undo):
    def classify(name, arguments, annotations=None):
        text = arguments["text"]
        return (Effect("external", text, undo=undo.format(text)) if "push" in text else Effect("workspace", text),)

    return classify


def rig(turns, undo='echo {} >> "$PLACE/log"', harness=Harness):
    made = Rig(turns, None, harness)
    made.session.effects = Effects(undone(undo))
    return made


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@HARNESSES
def test_they_run_newest_first_and_what_is_undone_is_not_said_to_stand(place, harness):
    turns = [do(1, "one"), do(2, "push-a"), do(3, "push-b"), commit("rec_000001"), say("ok")]
    made = rig(turns, harness=harness)
    for _ in range(4):
        made.step()
    assert (place / "log").read_text() == "push-b\npush-a\n"
    assert [event.outcome for event in made.events(CompensationEnded)] == ["done", "done"]
    assert "still stand: none known." in made.last[-1]["content"]


def test_what_was_done_before_the_target_is_left_alone(place):
    made = rig([do(1, "push-a"), do(2, "push-b"), do(3, "c"), commit("rec_000003"), say("ok")])
    for _ in range(4):
        made.step()
    assert (place / "log").read_text() == "push-b\n"


def test_a_failure_is_recorded_and_told_and_the_rewind_is_made(place):
    made = rig([do(1, "one"), do(2, "push-a"), commit("rec_000001"), say("ok")], "echo no luck; exit 3")
    for _ in range(3):
        made.step()
    (ended,) = made.events(CompensationEnded)
    assert (ended.outcome, ended.told) == ("failed", "exit code 3: no luck")
    assert "push-a (undoing it failed)" in made.last[-1]["content"]
    assert len(made.events(Rewound)) == 1


def test_after_a_crash_none_is_run_a_second_time_and_the_rest_is_made_up_for(place, monkeypatch):
    made = rig([do(1, "one"), do(2, "push-a"), do(3, "push-b"), commit("rec_000001")])
    for _ in range(3):
        made.step()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(compensation, "run_shell", killed)
    with pytest.raises(KeyboardInterrupt):
        made.step()
    monkeypatch.undo()
    monkeypatch.setenv("PLACE", str(place))
    assert len(made.events(CompensationBegan)) == 1
    offline.settle(made.log, made.world)
    assert (place / "log").read_text() == "push-a\n"
    assert sorted(made.session.tree.compensations.values()) == ["done", "unknown"]
    assert made.world.files == {"a": "0"}


def test_the_failure_of_one_that_is_cut_off_the_second_time_is_not_its_outcome(place):
    made = rig([do(1, "one"), do(2, "push-a"), commit("rec_000001"), say("ok")], "exit 3")
    for _ in range(3):
        made.step()
    (began,), (ended,) = made.events(CompensationBegan), made.events(CompensationEnded)
    tree = made.session.tree
    assert tree.compensated == {(began.uid, began.number): ended}
    made.log.append(began)
    assert list(tree.compensations.values()) == ["unknown"]
    assert tree.compensated == {}, "what the log goes by"


def test_a_rewind_past_it_again_after_an_undo_runs_nothing(place):
    made = rig([do(1, "one"), do(2, "push-a"), commit("rec_000001"), say("ok")])
    for _ in range(3):
        made.step()
    offline.undo(made.log, made.world)
    assert compensation.due(made.session.tree, "rec_000001") == []


def test_a_secret_that_was_not_kept_is_not_run_as_a_command(place):
    assert "held a secret" in compensation.run_shell("curl -H [redacted key]", {}, str(place))


def test_in_fresh_mode_it_runs_once_and_not_again_when_what_led_there_is_given_again(place):
    run = fresh.Run()
    run.session.effects = Effects(undone('echo {} >> "$PLACE/log"'))
    plan = run.session.depart(run.leave(do(1, "one"), do(2, "push-a"), commit("rec_000003")))
    assert (place / "log").read_text() == "push-a\n"
    run.begin(plan)
    run.harness.step(fresh.Provider([]))
    run.play(say("ok"))
    assert (place / "log").read_text() == "push-a\n"
    kinds = run.kinds()
    assert kinds.count(CompensationBegan) == kinds.count(CompensationEnded) == 1
    assert kinds.index(CompensationEnded) < kinds.index(Rewound)


def test_when_its_time_is_up_what_the_command_started_is_ended_too(place, monkeypatch):
    monkeypatch.setattr(compensation, "TIMEOUT_S", 0.3)
    told = compensation.run_shell('sleep 60 & echo $! > "$PLACE/pid"; wait', {}, str(place))
    assert told == "it was ended after 0 s"
    pid = int((place / "pid").read_text())
    assert not alive(pid)


def test_the_command_reads_what_it_is_about_whatever_its_size(place):
    assert compensation.run_shell('cat > "$PLACE/told"', {"arguments": "x" * 200_000}, str(place)) is None
    assert json.loads((place / "told").read_text()) == {"arguments": "x" * 200_000}


# --- functions of the agent's own program -----------------------------------------------------------------------------


def by_program(name, arguments, annotations=None):
    text = arguments["text"]
    return (Effect("external", text, undo="cancel", by_program=True) if "push" in text else Effect("workspace", text),)


class OwnTools:
    """The session as a program uses it that hands in, with each call, what takes that back."""

    def __init__(self, session, undo) -> None:
        self.session, self.call, self.undo = session, session.call, undo

    def tool(self, name, arguments, run, *, call_id):
        undo = lambda: self.undo(arguments["text"])  # noqa: E731
        return self.session.tool(name, arguments, run, call_id=call_id, undo=undo)


def program(turns, undo):
    made = Rig(turns, None, Harness)
    made.session.effects = Effects(by_program)
    made.harness.session = OwnTools(made.session, undo)
    return made


def test_functions_are_called_newest_first_before_the_files_go_back_and_are_told_of_as_done():
    seen = []
    made = program(
        [do(1, "one"), do(2, "push-a"), do(3, "push-b"), commit("rec_000001"), say("ok")],
        lambda text: seen.append((text, dict(made.world.files))),
    )
    for _ in range(4):
        made.step()
    assert seen == [("push-b", {"a": "push-b"}), ("push-a", {"a": "push-b"})]
    assert {event.undo for event in made.events(CompensationBegan)} == {"cancel"}
    assert [event.outcome for event in made.events(CompensationEnded)] == ["done", "done"]
    assert "still stand: none known." in made.last[-1]["content"]


def test_a_function_that_raises_is_recorded_and_told_and_stops_neither_the_others_nor_the_rewind():
    seen = []

    def undo(text):
        seen.append(text)
        if text == "push-b":
            raise ConnectionError("the shop is closed")

    made = program([do(1, "push-a"), do(2, "push-b"), commit("rec_000001"), say("ok")], undo)
    for _ in range(3):
        made.step()
    assert seen == ["push-b", "push-a"]
    assert [event.told for event in made.events(CompensationEnded)] == ["ConnectionError: the shop is closed", ""]
    assert "push-b (undoing it failed)" in made.last[-1]["content"]
    assert "push-a" not in made.last[-1]["content"]
    assert len(made.events(Rewound)) == 1


def test_what_it_calls_in_turn_is_no_step_of_the_agent():
    made = program(
        [do(1, "push-a"), commit("rec_000001"), say("ok")],
        lambda text: made.session.tool("cancel order", {"text": text}, list),
    )
    made.step()
    made.step()
    assert [event.outcome for event in made.events(CompensationEnded)] == ["done"]
    tools = [node.began.tool.name for node in made.session.tree.nodes.values() if node.began.tool]
    assert tools == ["shell"]


def test_a_call_that_was_held_back_is_not_taken_back():
    seen = []
    made = program([do(1, "one"), do(2, "push-a"), say("no"), commit("rec_000001"), say("ok")], seen.append)
    made.session.effects = Effects(by_program, Gate("block"))
    for _ in range(3):
        made.step()
    assert seen == []
    assert not made.events(CompensationBegan)


def test_a_call_that_was_asked_for_and_never_made_is_not_taken_back():
    """A tool of the program runs through us or not at all."""
    seen = []
    made = program([do(1, "push-a"), commit("rec_000001"), say("ok")], seen.append)
    made.harness.session.tool = lambda *_, **__: "not made"
    made.step()
    made.step()
    assert len(made.events(Rewound)) == 1
    assert not made.events(CompensationBegan)


def test_what_only_may_have_happened_and_was_taken_back_is_not_said_to_stand():
    def unknown(name, arguments, annotations=None):
        return (Effect("unknown", arguments["text"], undo="cancel", by_program=True),)

    made = program([do(1, "pushed?"), commit("rec_000001"), say("ok")], lambda _: None)
    made.session.effects = Effects(unknown)
    made.step()
    made.step()
    assert "still stand: none known." in made.last[-1]["content"]


def test_without_the_program_it_is_said_that_nobody_could_call_it():
    made = program([do(1, "push-a"), do(2, "two")], lambda _: None)
    made.step()
    made.step()
    offline.rewind(made.log, made.world, "rec_000001", "elsewhere")
    (ended,) = made.events(CompensationEnded)
    assert (ended.outcome, ended.told) == (
        "failed",
        "only the agent's program can call it, as long as that runs",
    )
    assert surviving(made.session.tree, "rec_000001") == ["push-a (undoing it failed)"]


def test_an_undo_that_is_interrupted_is_never_called_again():
    def undo(_):
        raise KeyboardInterrupt

    made = program([do(1, "push-a"), commit("rec_000001")], undo)
    made.step()
    with pytest.raises(KeyboardInterrupt):
        made.step()
    offline.settle(made.log, made.world)
    assert list(made.session.tree.compensations.values()) == ["unknown"]
    assert not compensation.taking_back()
