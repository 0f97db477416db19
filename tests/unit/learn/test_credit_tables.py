"""Hand-worked examples as tables: a small world whose every reward is written here, played, and credited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentrewind.core.environment import Branch, IllegalAction, Outcome, Transition
from agentrewind.learn.contexts import RestoresThePrefix
from agentrewind.learn.credit.named import CREDITS, gigpo_with_reflections
from agentrewind.learn.credit.retrail import StateAnchored, state_anchored
from agentrewind.learn.credit.samples import DecisionSample, output_tokens
from agentrewind.learn.play import play
from agentrewind.learn.prompts.shared import Saying, Words
from agentrewind.learn.rollout import Request, trial
from agentrewind.learn.rules import Rules
from agentrewind.learn.training.methods import training_of
from agentrewind.learn.trial import Output, Trial
from agentrewind.learn.worlds import World

STEPS = {
    ("s0", "a"): ("s1", 1.0),
    ("s1", "b"): ("s2", 0.0),
    ("s1", "c"): ("s3", 2.0),
    ("s0", "d"): ("s4", 4.0),
    ("s0", "trap"): ("dead", -1.0),
}
DONE = {"s0": 0.0, "s1": 0.25, "s2": 0.25, "s3": 0.75, "s4": 1.0, "dead": 0.0}


class Table:
    """Five states; value is the sum of rewards."""

    name = "table"

    def __init__(self) -> None:
        self._state = "s0"

    def reset(self) -> str:
        self._state = "s0"
        return self.observe()

    def checkpoint(self) -> str:
        return self._state

    def restore(self, checkpoint: str) -> None:
        self._state = checkpoint

    def fingerprint(self) -> str:
        return self._state

    def observe(self) -> str:
        return f"You are at {self._state}."

    def actions(self) -> Sequence[str]:
        return [action for state, action in STEPS if state == self._state]

    def step(self, action: str) -> Transition:
        if (self._state, action) not in STEPS:
            raise IllegalAction("There is no such way.")
        self._state, reward = STEPS[self._state, action]
        return Transition(self.observe(), reward, self.outcome)

    @property
    def outcome(self) -> Outcome | None:
        return {"s4": "solved", "dead": "failed"}.get(self._state)  # type: ignore[return-value]

    def progress(self) -> float:
        return DONE[self._state]

    def endpoint_score(self, path: Branch[str]) -> float:
        return sum(path.rewards)

    branch_score = endpoint_score
    reference_length = 1


def world(rules: Rules) -> World:
    words = Words(Saying("a table", "table", "", ""), rules, "compact")
    return World("u", Table(), words, str.strip, str, str, RestoresThePrefix)


def saying(*texts: str) -> Callable[[Request], Output]:
    """Each text is one action, `back to 1`, or what a reflection says; it has as many tokens as words."""
    left = list(texts)

    def answer(request: Request) -> Output:
        text = left.pop(0)
        tokens = tuple(range(len(text.split())))
        if request.kind == "reflection":
            return Output(f"<remark>{text}</remark>" if text else "", tokens)
        return Output(f"<action>{text.replace('back to', 'rewind to')}</action>", tokens)

    return answer


ANY = Rules()


def played(*texts: str, rules: Rules = ANY) -> Trial:
    rules = replace(rules, calls=len(texts))
    return play(trial(world(rules), rules), saying(*texts))


def by_call(samples: Sequence[DecisionSample]) -> dict[tuple[int, int], float]:
    return {(item.trial, item.call.number): item.advantage for item in samples}


THREE_SEGMENTS = ("a", "b", "back to 1", "b was nothing", "c", "back to 0", "d is better", "d")
"""s0 -a-> s1 -b-> s2, back to s1; s1 -c-> s3, back to s0, which abandons parts of two segments; s0 -d-> s4."""

# gamma 0.5, λ_state 1. Endpoints of the segments: 1, 1 + 2 = 3, 4: mean 8/3, deviation sqrt(14/9) = 1.247219.
#   call  made at   G       its group      A_state  A_macro     A_cont
LAID_OUT = """
    1     s0        1       calls 1, 8     -1       -1.336306   -2.336306
    2     s1        0       calls 2, 5     -1       -1.336306   -2.336306
    3     s2        0       alone           0       -1.336306   -1.336306
    5     s1        2       calls 2, 5     +1        0.267261    1.267261
    6     s3        0       alone           0        0.267261    0.267261
    8     s0        4       calls 1, 8     +1        1.069045    2.069045
"""
# Reflections: call 4 led from 0 (b) to 2 (c): 2; call 7 from 1 + 2 (a, c) to 4 (d): 1. Norm(2, 1) = +1, -1.
REFLECTED = {(0, 4): 1.0, (0, 7): -1.0}


def test_three_segments_with_a_rewind_across_two_of_them() -> None:
    found = played(*THREE_SEGMENTS)
    assert found.solved
    assert [(item.abandoned, item.resumed) for item in found.recoveries] == [(0.0, 2.0), (3.0, 4.0)]
    assert [segment.endpoint for segment in found.segments] == [1.0, 3.0, 4.0]
    across = found.recoveries[1]
    assert (across.source, across.target) == (2, 0), "abandons call 1 of segment 0 and call 5 of segment 1"
    rows = state_anchored([found], StateAnchored(gamma=0.5))
    decided = {(0, int(row.split()[0])): float(row.split()[-1]) for row in LAID_OUT.strip().splitlines()}
    assert by_call(rows) == pytest.approx(decided | REFLECTED, abs=1e-5)
    weights = {item.call.number: item.weight for item in rows}
    assert weights == pytest.approx(dict.fromkeys((1, 2, 3, 5, 6, 8), 1 / 6) | {4: 3 / 6, 7: 3 / 6})


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        # v+ alone: 2 and 4.
        ("sa-grpo-progress", {(0, 4): -1.0, (0, 7): 1.0}),
        ("sa-grpo-boundary", REFLECTED),
        ("sa-grpo-gigpo", REFLECTED),
    ],
)
def test_what_an_ablation_says_of_the_reflections(credit: str, expected: dict[tuple[int, int], float]) -> None:
    rows = CREDITS[credit]([played(*THREE_SEGMENTS)], output_tokens)
    looked = by_call([item for item in rows if item.kind == "reflection"])
    assert looked == pytest.approx(expected, abs=1e-5)


def test_credit_across_the_boundary_by_hand() -> None:
    """Two were at s2 after a and b: one asked to go back, and c then brought 2; the other did nothing of use.

    Without a share both have the return 0: a constant group. With half of 2 they have 1 and 0: +1 and -1.
    """
    asked, went_on = played("a", "b", "back to 1", "hm", "c"), played("a", "b", "b")
    plain, across = (
        by_call(state_anchored([asked, went_on], StateAnchored(gamma=0.5, boundary=share))) for share in (0.0, 0.5)
    )
    assert plain[0, 3] - across[0, 3] == pytest.approx(-1.0, abs=1e-5)
    assert plain[1, 3] - across[1, 3] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "trials", "expected"),
    [
        ("nothing", [], {}),
        ("one trial, one decision: two singletons", ["a"], {(0, 1): 0.0}),
        ("equal trials: two constant groups", ["a", "a"], {(0, 1): 0.0, (1, 1): 0.0}),
        ("one group of two, twice: both terms agree", ["a", "d"], {(0, 1): -2.0, (1, 1): 2.0}),
        # Segments: 1, 1, 4: mean 2, deviation sqrt(2). Returns at s0: the same. Each term -0.707107 or 1.414214.
        ("a group of three", ["a", "a", "d"], {(0, 1): -1.414214, (1, 1): -1.414214, (2, 1): 2.828427}),
    ],
)
def test_singleton_and_constant_groups(name: str, trials: list[str], expected: dict[tuple[int, int], float]) -> None:
    found = by_call(state_anchored([played(action) for action in trials]))
    assert found == pytest.approx(expected, abs=1e-5), name


def test_a_reflection_that_says_nothing_is_not_eligible() -> None:
    silent = played("a", "b", "back to 1", "", "c")
    assert silent.recoveries[0].resumed is not None
    rows = state_anchored([silent, played(*THREE_SEGMENTS)])
    assert {item.trial for item in rows if item.kind == "reflection"} == {1}
    assert {item.trial for item in rows if item.kind == "execution"} == {0, 1}


def test_gigpo_inside_retrospective_trials_is_gigpo_for_decisions_and_advancement_for_reflections() -> None:
    trials = [played(*THREE_SEGMENTS), played("a", "c", "b"), played("trap", "not that", "d", rules=Rules(attempts=2))]
    rows = gigpo_with_reflections(trials)
    decided = [item for item in rows if item.kind == "execution"]
    assert decided == CREDITS["gigpo"](trials, output_tokens)
    anchored = state_anchored(trials)
    assert [item for item in rows if item.kind == "reflection"] == [i for i in anchored if i.kind == "reflection"]
    assert by_call(decided) != by_call([item for item in anchored if item.kind == "execution"])


def test_methods_of_training_that_are_credited_so() -> None:
    trials = [played(*THREE_SEGMENTS), played("a", "c", "b"), played("a", "b", "c")]
    for method, credit in (("beacon", "beacon"), ("retrail-gigpo", "sa-grpo-gigpo"), ("retrail", "sa-grpo")):
        assert training_of(method).credit(trials) == CREDITS[credit](trials, output_tokens)
    assert CREDITS["beacon"](trials, output_tokens) != CREDITS["grpo"](trials, output_tokens)


def test_without_rewinds_of_its_own_a_policy_that_asks_is_told_that_it_cannot() -> None:
    found = played("a", "back to 0", "c", rules=Rules(proactive=0))
    assert [call.did for call in found.calls] == ["acted", "invalid", "acted"]
    assert not found.recoveries


def test_progress_stands_in_the_archive_beside_each_call() -> None:
    found = played("a", "nowhere", "c", "back to 1", "why", "b")
    seen: list[Any] = [call.progress for call in found.calls]
    assert seen == [(0.0, 0.25), (0.25, 0.25), (0.25, 0.75), (0.75, 0.75), (0.75, 0.75), (0.25, 0.25)]
