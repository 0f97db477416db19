"""The two tools for an agent that reaches them by a program: asked for while a tool runs, made before the next call."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.budgets import Budget
from agentrewind.core.records import RewindRejected, Rewound
from agentrewind.core.wire import WireReply
from agentrewind.engine.by_program import Told
from agentrewind.strategies.rewind_rules import RuleNames
from tests.unit.engine.test_session import Rig, say, shell
from tests.unit.engine.wire import PATH, SHELL, Harness, answer


class WithProgram(Harness):
    """A shell in which `agentrewind tool` is a command: text that is JSON is a call of it."""

    def __init__(self, session, world) -> None:
        super().__init__(session, world)
        self.told: list[Told] = []

    def write(self, arguments: dict) -> str:
        if arguments["name"] != "tool":
            return super().write(arguments)
        tool, given = json.loads(arguments["text"])
        self.told.append(self.session.by_program.call(tool, given))
        return self.told[-1].text


def by_program(number: int, tool: str, given: object):
    return shell(number, "tool", json.dumps([tool, given]))


def commit(number: int, uid: str, note: str = "it failed; do otherwise"):
    return by_program(number, "backtrack_commit", {"record_uid": uid, "memory_summary": note})


def rig(*turns, **settings) -> Rig:
    return Rig(list(turns), WithProgram, **settings)


def test_a_rewind_is_made_before_the_next_call_and_the_model_never_reads_what_the_program_said() -> None:
    run = rig(shell(1), shell(2), commit(3, "rec_000003"), say("done"))
    for _ in range(3):
        run.step()
    assert run.harness.told[0].ok
    assert run.world.files == {"a": "2"}, "nothing moves while the harness is at work"
    before = run.provider.bodies[1]["messages"]
    assert run.step()["content"] == "done"
    assert run.world.files == {"a": "1"}
    assert run.last[: len(before)] == before
    assert [message["role"] for message in run.last[len(before) :]] == ["system"]
    assert "it failed; do otherwise" in run.last[-1]["content"]
    assert "Accepted" not in json.dumps(run.last)
    (move,) = run.events(Rewound)
    assert (move.target, move.by) == ("rec_000003", "agent")


def test_it_is_made_once_and_later_calls_keep_the_cut() -> None:
    run = rig(shell(1), shell(2), commit(3, "rec_000003"), shell(4, "b"), say("done"))
    for _ in range(5):
        run.step()
    assert len(run.events(Rewound)) == 1
    assert json.dumps(run.last).count("it failed; do otherwise") == 1
    assert run.world.files == {"a": "1", "b": "4"}


def test_candidates_are_those_of_the_tool_in_the_answer() -> None:
    run = rig(shell(1), by_program(2, "backtrack_candidates", {"reason": "lost"}), say("done"))
    run.step()
    run.step()
    (told,) = run.harness.told
    assert told.ok
    assert told.text.startswith("Checkpoints, oldest first.")
    assert "rec_000001" in told.text


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("backtrack_commit", {"record_uid": "rec_000099", "memory_summary": "m"}, "no record rec_000099"),
        ("backtrack_commit", {"record_uid": "rec_000002", "memory_summary": "m"}, "tool call"),
        ("backtrack_commit", {"record_uid": "rec_000001", "memory_summary": " "}, "memory_summary is empty"),
        ("backtrack_commit", {"record_uid": "rec_000003", "memory_summary": "m"}, "where you are now"),
        ("backtrack_commit", {"record_uid": 3, "memory_summary": ["m"]}, "both as text"),
        ("backtrack_commit", {}, "both as text"),
        ("backtrack_commit", None, "not valid JSON"),
        ("backtrack_commit", "rec_000001", "both as text"),
        ("undo", {}, "There is no tool 'undo'"),
    ],
)
def test_a_bad_call_moves_nothing_and_says_what_to_do(tool: str, arguments: object, told: str) -> None:
    run = rig(shell(1), by_program(2, tool, arguments), say("done"))
    for _ in range(3):
        run.step()
    (said,) = run.harness.told
    assert not said.ok
    assert told in said.text
    assert run.events(Rewound) == []
    assert said.text in json.dumps(run.last), "the model is told by its own tool"


def test_one_rewind_at_a_time() -> None:
    run = rig(shell(1), shell(2), lambda _: two_commits(), say("done"))
    for _ in range(4):
        run.step()
    first, second = run.harness.told
    assert (first.ok, second.ok) == (True, False)
    assert "rec_000003 has been asked for already" in second.text
    assert [move.target for move in run.events(Rewound)] == ["rec_000003"]


def two_commits() -> bytes:
    asked = [["backtrack_commit", {"record_uid": uid, "memory_summary": "m"}] for uid in ("rec_000003", "rec_000001")]
    return answer(
        calls=[(f"k{at}", "shell", {"name": "tool", "text": json.dumps(item)}) for at, item in enumerate(asked)]
    )


def test_no_more_rewinds_than_the_tools_of_the_model_have() -> None:
    run = rig(shell(1), commit(2, "rec_000001"), shell(3), commit(4, "rec_000001", "again"), budget=Budget(rewinds=1))
    for _ in range(4):
        run.step()
    assert [told.ok for told in run.harness.told] == [True, False]
    assert "All 1 rewinds of this run are used up" in run.harness.told[1].text


def test_a_run_that_only_records_offers_nothing() -> None:
    run = rig(shell(1), commit(2, "rec_000001"), say("done"), offers_rewind=False)
    for _ in range(3):
        run.step()
    assert "records only" in run.harness.told[0].text
    assert run.events(Rewound) == []


def test_a_run_without_injected_tools_takes_them_by_program_all_the_same() -> None:
    run = rig(shell(1), commit(2, "rec_000001"), say("done"), inject="never")
    for _ in range(3):
        run.step()
    assert run.provider.bodies[0]["tools"] == [SHELL]
    assert len(run.events(Rewound)) == 1


def test_the_rules_of_the_run_choose_the_target() -> None:
    rules = RuleNames(selector="oracle:rec_000003").rules()
    run = rig(shell(1), shell(2), commit(3, "rec_000001"), say("done"), rules=rules)
    for _ in range(4):
        run.step()
    (move,) = run.events(Rewound)
    assert (move.asked, move.target) == ("rec_000001", "rec_000003")


def test_where_it_cannot_be_made_any_more_the_model_is_told_why() -> None:
    run = rig(shell(1), shell(2), commit(3, "rec_000003"), say("done"))
    for _ in range(3):
        run.step()
    run.world.fails_to_restore = {run.session.tree.node("rec_000003").began.snapshot}
    assert run.step()["content"] == "done"
    assert run.events(Rewound) == []
    assert "is damaged" in run.events(RewindRejected)[0].told
    assert "is damaged" in run.last[-1]["content"]


def test_another_conversation_cannot_be_moved() -> None:
    """A sub-agent is at work: what it asks for can't be meant for the one that waits for it, nor the reverse."""
    run = rig(shell(1), say("done"))
    run.step()
    messages = [{"role": "user", "content": "A part of it."}]
    asked = answer(calls=[("s1", "x_backtrack_commit", {})])
    run.session.call(PATH, {"model": "m", "messages": messages, "tools": [SHELL]}, lambda _: WireReply(200, (), asked))
    told = run.session.by_program.call("backtrack_commit", {"record_uid": "rec_000001", "memory_summary": "m"})
    assert not told.ok
    assert "belongs to another conversation" in told.text


def test_after_the_end_nothing_is_moved() -> None:
    run = rig(shell(1), say("done"))
    run.step()
    run.session.end("over", ok=True)
    told = run.session.by_program.call("backtrack_commit", {"record_uid": "rec_000001", "memory_summary": "m"})
    assert told == Told("The run has ended, so nothing was moved.", ok=False)
