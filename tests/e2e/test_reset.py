"""Reset mode: after a rewind the agent's own list of messages is the restored conversation."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from agentrewind.compose.reset import drive
from agentrewind.core.strategy import Stop
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.reset import ResetSession
from agentrewind.integrations.harnesses.contract import Job
from agentrewind.testing.scripted import ScriptedModel
from tests.e2e import fresh_agents
from tests.e2e.test_fresh import both_modes, is_sound, notes, one_rewind, place
from tests.trees import content, differences
from tests.unit.engine.worlds import MemoryLog, MemoryWorld


def test_two_rewinds_send_what_in_place_sends_and_leave_the_same_files(tmp_path: Path) -> None:
    in_place, reset, there, here = both_modes(tmp_path, other="reset")
    assert [request["messages"] for request in in_place] == [request["messages"] for request in reset]
    assert differences(content(there.workspace), content(here.workspace)) == []
    assert there.side == here.side
    assert here.json("log", "last")["mode"] == "reset"
    is_sound(here)


@pytest.mark.parametrize(
    "agent",
    [
        fresh_agents.Loop,
        fresh_agents.SwallowsAndTriesAgain,
        fresh_agents.SwallowsAndSaysItIsDone,
        fresh_agents.SwallowsAndGoesOnWithTools,
        fresh_agents.TurnsItIntoAnError,
        fresh_agents.Grouped,
    ],
)
def test_whatever_the_agent_does_with_the_signal_it_begins_again_from_there(agent, tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    log = MemoryLog()
    session = ResetSession(log, MemoryWorld(), [OpenAIChat()])
    with ScriptedModel(one_rewind) as model:
        job = Job("t", workspace, "m", session, lambda _: Stop(ok=True, reason="done"), model.base_url)
        assert drive(session, agent().run, job).ok
        assert len(model.requests) == 5
        last = model.last["messages"]
    assert [message["role"] for message in last] == [
        "system",
        "user",
        *("assistant", "tool", "system", "assistant"),
        "tool",
    ]
    assert (tmp_path / "side").read_text().split() == ["first", "worse", "better"]
    assert (tmp_path / "starts").read_text() == "xx"


@pytest.mark.parametrize("point", ["rewind.intent written", "rewind.committed", "journal.event-written:17"])
def test_a_run_killed_in_the_middle_is_resumed_to_its_end(tmp_path: Path, point: str) -> None:
    here = place(tmp_path)
    with ScriptedModel(one_rewind) as model:
        killed = here.run(model, "--mode", "reset", AGENTREWIND_CRASH_AT=point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        assert len(notes(model.last["messages"])) == 1
    assert sorted(path.name for path in here.workspace.iterdir()) == ["first.txt", "good.txt", "kept"]
    is_sound(here)
