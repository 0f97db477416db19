"""Rewinds that a strategy wants, and targets that a selector chooses, in a session."""

from __future__ import annotations

from agentrewind.core.budgets import Budget
from agentrewind.core.records import RewindRejected, Rewound
from agentrewind.strategies.rewind_rules import RuleNames
from tests.unit.engine.test_session import Rig, commit, say, shell

LOOP = RuleNames(trigger="loop", notice="off").rules()


def numbered(number: int):
    return shell(number, "same", "same")


def test_a_loop_is_left_before_the_next_call_and_the_harness_never_sees_it() -> None:
    rig = Rig([numbered(1), numbered(2), numbered(3), say("another way"), say("done")], rules=LOOP)
    for _ in range(3):
        rig.step()
    rig.step()
    (move,) = rig.events(Rewound)
    assert move.target == "rec_000003"
    assert move.by == "strategy loop"
    assert "more than once" in rig.last[-1]["content"]
    assert 'by="strategy loop"' in rig.last[-1]["content"]
    assert "taken back, or came back" not in rig.last[-1]["content"]
    assert len(rig.last) == 5, "the task, the first step, and the note"
    assert len(rig.harness.messages) == 9, "what it sent itself it still has"


def test_what_a_strategy_wants_is_capped_like_any_other_and_refused_once() -> None:
    rig = Rig([numbered(n) for n in range(1, 7)], rules=LOOP, budget=Budget(rewinds=0))
    for _ in range(6):
        rig.step()
    assert rig.events(Rewound) == []
    (rejected,) = rig.events(RewindRejected)
    assert rejected.by == "strategy loop"
    assert "All 0 rewinds" in rejected.told


def test_a_selector_decides_for_the_agent_and_both_targets_are_recorded() -> None:
    rules = RuleNames(selector="previous").rules()
    rig = Rig([shell(1), shell(2), shell(3), commit("rec_000001"), say("done")], rules=rules)
    for _ in range(4):
        rig.step()
    (move,) = rig.events(Rewound)
    assert (move.asked, move.target, move.selector) == ("rec_000001", "rec_000005", "previous")


def test_a_call_that_is_no_good_stays_refused_whatever_the_selector() -> None:
    rules = RuleNames(selector="random:3").rules()
    rig = Rig([shell(1), shell(2), commit("rec_009999"), say("done")], rules=rules)
    for _ in range(3):
        rig.step()
    assert rig.events(Rewound) == []
    assert "no record rec_009999" in rig.events(RewindRejected)[0].told
