"""What a rewind leaves as it is, for comparison; and calls that a guard holds back."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.errors import NotRun
from agentrewind.core.memory import MemoryPolicy
from agentrewind.core.records import Gated, Rewound
from agentrewind.core.review import Review
from agentrewind.engine.reviewing import Reviewer
from agentrewind.strategies.rewind_rules import RewindRules
from tests.unit.engine.test_session import Rig, commit, say, shell


def test_with_the_conversation_kept_the_files_go_back_and_all_that_was_said_stays() -> None:
    rig = Rig([shell(1), shell(2), shell(3), commit("rec_000003"), say("done")], keep_context=True)
    for _ in range(3):
        rig.step()
    long = len(rig.provider.bodies[-1]["messages"])
    rig.step()
    assert rig.world.files == {"a": "1"}
    assert [message["role"] for message in rig.last[long + 2 :]] == ["assistant", "tool", "system"]
    assert "c3" in json.dumps(rig.last), "what was abandoned still stands there"
    assert "before rec_000003. This conversation stays" in rig.last[-2]["content"]
    assert "this conversation was not" in rig.last[-1]["content"]
    assert "it failed; do otherwise" in rig.last[-1]["content"]
    (moved,) = rig.events(Rewound)
    assert (moved.keep_context, moved.keep_world) == (True, False)


def test_a_refused_rewind_says_nothing_of_files_that_are_back() -> None:
    rig = Rig([shell(1), commit("rec_000099"), say("done")], keep_context=True)
    rig.step()
    rig.step()
    assert "are back" not in json.dumps(rig.last)
    assert "no record rec_000099" in rig.last[-1]["content"]


def test_with_the_conversation_kept_a_second_rewind_goes_back_as_well() -> None:
    turns = [shell(1), shell(2), commit("rec_000003", "one"), shell(4), commit("rec_000001", "two"), say("done")]
    rig = Rig(turns, keep_context=True)
    for _ in range(4):
        rig.step()
    assert rig.world.files == {"a": "0"}
    text = json.dumps(rig.last)
    assert [text.count(f"\\n{note}\\n") for note in ("one", "two")] == [1, 1]


def test_without_memory_the_context_is_that_of_the_target_and_nothing_else() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000003"), say("done")], rules=RewindRules(memory=MemoryPolicy("none")))
    rig.step()
    before = list(rig.provider.bodies[0]["messages"])
    rig.step()
    at_target = rig.provider.bodies[1]["messages"]
    rig.step()
    assert rig.last == at_target
    assert before == rig.last[: len(before)]
    (moved,) = rig.events(Rewound)
    assert (moved.memory, moved.memory_tokens) == ("none", 0)
    assert rig.session.tree.notes[0].text == "it failed; do otherwise", "it is recorded all the same"


class Strict:
    name = "strict"

    def __init__(self) -> None:
        self.seen = []

    def review(self, proposed):
        self.seen.append(proposed)
        return Review(safe="bad" not in str(proposed.arguments), reason="It is bad.")


def test_a_guard_sees_the_call_before_it_runs_and_one_that_it_holds_back_does_not_run() -> None:
    rig, guard = Rig([shell(1)]), Strict()
    rig.session.reviewer = Reviewer(guard, "The task.")
    rig.step()
    ran = []
    with pytest.raises(NotRun, match=r"safety review held this call back \(It is bad\)"):
        rig.session.tool("shell", {"command": "bad"}, lambda: ran.append(1))
    assert rig.session.tool("shell", {"command": "good"}, lambda: "ran") == "ran"
    assert ran == []
    (held,) = rig.events(Gated)
    assert (held.outcome, held.by) == ("blocked", "strict")
    newest = guard.seen[0]
    assert (newest.task, newest.tool, newest.arguments) == ("The task.", "shell", {"name": "a", "text": "1"})
    assert newest.recent[-1]["role"] == "assistant"
