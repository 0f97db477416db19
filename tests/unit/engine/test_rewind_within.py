"""The two tools where an agent calls them inside of its harness (`Session.rewind_tool`)."""

from __future__ import annotations

import pytest

from agentrewind.core.records import Rewound
from agentrewind.engine.holdings import Held
from agentrewind.engine.signal import RewindSignal
from tests.unit.engine.test_session import Rig, say, shell


def test_a_granted_rewind_stops_all_tools_and_is_made_at_the_next_call() -> None:
    run = Rig([shell(1), shell(2), say("done")])
    run.step()
    run.step()
    note = {"record_uid": "rec_000001", "memory_summary": "not that way"}
    with pytest.raises(RewindSignal):
        run.session.rewind_tool("backtrack_commit", note)
    with pytest.raises(RewindSignal):
        run.session.tool("shell", {}, lambda: pytest.fail("it ran"))
    assert run.events(Rewound) == []
    run.step()
    assert [move.target for move in run.events(Rewound)] == ["rec_000001"]
    assert run.session.tool("shell", {}, lambda: "runs again") == "runs again"


def test_a_refusal_is_an_answer_and_stops_nothing() -> None:
    run = Rig([shell(1), say("done")])
    run.step()
    told = run.session.rewind_tool("backtrack_commit", {"record_uid": "rec_000099", "memory_summary": "m"})
    assert "rec_000099" in told
    assert run.session.tool("shell", {}, lambda: "runs") == "runs"


def test_what_the_agent_holds_is_in_no_record() -> None:
    run = Rig([shell(1), shell(2), say("done")])
    run.session.hold(Held(b"xqzz-secret"))
    run.step()
    run.session.hold(Held(b"xqzz-secret too"))
    run.step()
    assert run.session.held() is None
    assert "xqzz" not in repr(run.log.tree)
