"""The public library, as its documentation promises it."""

import os
import re
from pathlib import Path

import httpx
import openai
import pytest

import agentrewind
from agentrewind.compose.asking import Asked, wish_of
from agentrewind.core.errors import UnknownRecord, UnknownRun, WorkspaceRefused
from agentrewind.core.records import Rewound
from agentrewind.core.strategy import GoOn, Stop
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say

TOOLS = [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    return tmp_path / "work"


# --- Workspace --------------------------------------------------------------------------------------------------------


def test_a_workspace_is_saved_compared_verified_and_brought_back(place):
    with agentrewind.Workspace(place) as workspace:
        first = workspace.snapshot("first")
        (place / "a.txt").write_text("two\n")
        (place / "b.txt").write_text("new\n")
        second = workspace.snapshot()
        assert {change.path for change in workspace.diff(first.id, second.id).items} == {"a.txt", "b.txt"}
        assert first.fingerprint != second.fingerprint
        assert first.coverage.complete
        assert workspace.verify(first.id).ok

        plan = workspace.restore(first.id, dry_run=True)
        assert (place / "a.txt").read_text() == "two\n"
        report = workspace.restore(first.id)
        assert set(report.acts) == set(plan.acts)
        assert (place / "a.txt").read_text() == "one\n"
        assert not (place / "b.txt").exists()
        workspace.restore(report.live)
        assert (place / "b.txt").read_text() == "new\n"
        assert workspace.snapshots()[0].label == "first"


def test_it_puts_no_file_into_the_directory(place):
    with agentrewind.Workspace(place) as workspace:
        workspace.snapshot()
    assert os.listdir(place) == ["a.txt"]


def test_a_store_of_ones_own_and_rules(place, tmp_path):
    (place / "agentrewind.toml").write_text('[paths]\nexcluded = ["*.log"]\n')
    (place / "x.log").write_text("")
    with agentrewind.Workspace(place, store=tmp_path / "mine") as workspace:
        snapshot = workspace.snapshot()
        assert [gap.path for gap in snapshot.coverage.excluded] == ["x.log"]
    assert (tmp_path / "mine" / "format").exists()


def test_one_at_a_time(place):
    with agentrewind.Workspace(place), pytest.raises(agentrewind.Busy, match="in use"):
        agentrewind.Workspace(place)
    agentrewind.Workspace(place).close()


def test_what_can_not_be_a_workspace_is_refused(place):
    with pytest.raises(WorkspaceRefused):
        agentrewind.Workspace(place / "missing")
    with pytest.raises(WorkspaceRefused):
        agentrewind.Workspace("/")


@pytest.mark.parametrize("more", [{}, {"store": ""}])
def test_an_empty_name_is_not_the_current_directory(place, more, monkeypatch):
    monkeypatch.chdir(place)
    with pytest.raises(WorkspaceRefused, match="is empty"):
        agentrewind.Workspace(place if more else "", **more)
    for words in ({"workspace": ""}, {"workspace": place, "check": " "}):
        with pytest.raises(agentrewind.UsageError, match="empty"), agentrewind.session(**words):
            pass
    assert os.listdir(place) == ["a.txt"]


def test_a_session_that_somebody_ends_is_interrupted(place):
    with pytest.raises(KeyboardInterrupt), agentrewind.session(place):
        raise KeyboardInterrupt
    assert agentrewind.open_run().state == "interrupted"
    assert not agentrewind.open_run().resumable


# --- session ----------------------------------------------------------------------------------------------------------


def agent(base_url: str, place: Path, task: str = "Go") -> str:
    """A little agent on the official SDK."""
    messages: list = [{"role": "user", "content": task}]
    with openai.OpenAI(base_url=base_url, api_key="k") as client:
        while True:
            answer = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            if not answer.tool_calls:
                return answer.content or ""
            messages += [
                {"role": "tool", "tool_call_id": wanted.id, "content": edit(place, wanted.function.arguments)}
                for wanted in answer.tool_calls
            ]


@agentrewind.tool(name="edit")
def edit(place: Path, arguments: str) -> str:
    (place / "a.txt").write_text(arguments)
    return "ok"


def script(request: Request) -> Step:
    if request.says("[agentrewind]"):
        return say("right")
    if request.turn < 2:
        return call("shell", {"step": request.turn})
    if request.turn == 2:
        return call("backtrack_candidates", {"reason": "hm"})
    uid = re.findall(r"rec_\d+", request.results[-1])[1]
    return call("backtrack_commit", {"record_uid": uid, "memory_summary": "The second edit was wrong."})


def test_every_call_of_a_sdk_is_recorded_and_can_be_rewound(place):
    with ScriptedModel(script) as model, agentrewind.session(place, task="Go", name="my agent") as live:
        assert agent(model.base_url, place) == "right"
        assert live.tree.rewinds == 1
    assert "step" in (place / "a.txt").read_text()
    assert "0" in (place / "a.txt").read_text()
    run = agentrewind.open_run()
    assert run.id == live.id
    assert "my-agent" in run.id
    assert run.state == "done"
    assert [node.began.kind for node in run.records()][:3] == ["llm", "tool", "llm"]
    assert run.messages(run.checkpoints()[0].uid) == [{"role": "user", "content": "Go"}]
    assert "The second edit was wrong." in str(run.messages(run.checkpoints()[-1].uid))


def test_after_the_block_nothing_is_hooked(place):
    with ScriptedModel(lambda _: say("hi")) as model:
        with agentrewind.session(place) as live:
            pass
        httpx.post(
            f"{model.base_url}/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "x"}]}
        )
    assert agentrewind.open_run(live.id).records() == []


def test_an_exception_ends_the_run_badly_and_travels_on(place):
    with pytest.raises(ZeroDivisionError), agentrewind.session(place) as live:
        _ = 1 / 0
    run = agentrewind.open_run(live.id)
    assert run.state == "failed"
    assert "ZeroDivisionError" in run.tree.ended.reason
    agentrewind.Workspace(place).close()


def test_one_session_a_process(place, tmp_path):
    (tmp_path / "other").mkdir()
    with (
        agentrewind.session(place),
        pytest.raises(agentrewind.UsageError, match="one run at a time"),
        agentrewind.session(tmp_path / "other"),
    ):
        pass
    with agentrewind.session(tmp_path / "other"):
        pass


def test_submit_judges_the_work_and_decides_how_the_run_ends(place):
    with agentrewind.session(place, check="grep -q done a.txt", strategy="continue") as live:
        assert isinstance(live.submit(), GoOn)
        (place / "a.txt").write_text("done\n")
        assert live.submit() == Stop(ok=True, reason="The check accepted the work.")
    assert agentrewind.open_run(live.id).state == "done"


def test_a_run_that_was_not_accepted_has_failed(place):
    with agentrewind.session(place, check="false") as live:
        live.submit()
    assert agentrewind.open_run(live.id).state == "failed"


# --- a run afterwards -------------------------------------------------------------------------------------------------


def test_a_person_rewinds_a_run_and_takes_it_back(place):
    with ScriptedModel(script) as model, agentrewind.session(place):
        agent(model.base_url, place)
    run = agentrewind.open_run()
    now = (place / "a.txt").read_text()
    first = run.checkpoints()[0].uid
    moved = run.rewind(first, "Begin again, with the other file.")
    assert moved.target == first
    assert (place / "a.txt").read_text() == "one\n"
    assert run.state == "rewound"
    assert run.tree.rewinds == 2
    run.undo()
    assert (place / "a.txt").read_text() == now


def test_bad_targets_are_refused_and_nothing_moves(place):
    with ScriptedModel(script) as model, agentrewind.session(place):
        agent(model.base_url, place)
    run = agentrewind.open_run()
    before = (place / "a.txt").read_text()
    with pytest.raises(UnknownRecord, match="agentrewind log"):
        run.rewind("rec_999999", "x")
    with pytest.raises(agentrewind.RewindRefused, match="tool call"):
        run.rewind("rec_000002", "x")
    with pytest.raises(agentrewind.RewindRefused):
        run.rewind("rec_000001", " ")
    assert (place / "a.txt").read_text() == before
    assert run.tree.rewinds == 1


def test_a_running_run_can_be_read_and_not_changed(place):
    with ScriptedModel(script) as model, agentrewind.session(place) as live:
        agent(model.base_url, place)
        run = agentrewind.open_run(live.id)
        assert run.state == "running"
        assert run.checkpoints()
        with pytest.raises(agentrewind.Busy, match="still running"):
            run.rewind("rec_000001", "x")


def test_the_files_of_a_workspace_that_is_gone_come_back(place):
    with ScriptedModel(script) as model, agentrewind.session(place):
        agent(model.base_url, place)
    (place / "a.txt").unlink()
    place.rmdir()
    run = agentrewind.open_run()
    assert run.restore_files("rec_000001", dry_run=True).acts
    assert not place.exists()
    run.restore_files("rec_000001")
    assert (place / "a.txt").read_text() == "one\n"


def test_an_unknown_run(place):
    with pytest.raises(UnknownRun):
        agentrewind.open_run("nothing")


def test_a_person_brings_a_session_back_while_it_is_open(place):
    def play(request: Request) -> Step:
        return call("shell", {}) if request.turn < 2 else say("told" if request.says("Do it by hand.") else "lost")

    def ask(client: openai.OpenAI, messages: list) -> openai.types.chat.ChatCompletionMessage:
        found = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
        messages.append(found.model_dump(exclude_none=True))
        for asked in found.tool_calls or ():
            (place / f"made-{len(messages)}").write_text("x")
            messages.append({"role": "tool", "tool_call_id": asked.id, "content": "done"})
        return found

    with ScriptedModel(play) as model, agentrewind.session(place) as live:
        messages: list = [{"role": "user", "content": "Go"}]
        with openai.OpenAI(base_url=model.base_url, api_key="any") as client:
            ask(client, messages)
            ask(client, messages)
            run = agentrewind.open_run(live.id)
            asked = Asked(run, wish_of(run, run.checkpoints()[1].uid, "Do it by hand."), keep_drift=True)
            asked.put()
            assert asked.outcome() is None
            ask(client, messages)
            move = asked.outcome()
        assert isinstance(move, Rewound)
        assert (move.by, move.note) == ("person", "Do it by hand.")
        assert "Do it by hand." in str(model.last["messages"])
