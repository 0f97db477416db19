"""Credit by hand: each method on archives small enough to be worked out on paper."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.learn.credit.baselines import gigpo, grpo, lamer, rloo
from agentrewind.learn.credit.groups import left_out, normalised, returns
from agentrewind.learn.credit.retrail import StateAnchored, executions, reflections, state_anchored
from agentrewind.learn.credit.samples import DecisionSample, output_tokens
from agentrewind.learn.trial import Call, Output, Recovery, Segment, Trial

EPS = 1e-6


def call(
    number: int, state: str, reward: float = 0.0, *, history: Sequence[str] = (), did: str = "acted", tokens: int = 1
) -> Call:
    kind = "reflection" if did == "reflected" else "execution"
    context = ({"role": "user", "content": state},)
    output = Output(f"out {number}", tuple(range(tokens)))
    return Call(number, kind, 0, len(history), state, tuple(history), context, output, did, None, reward)  # type: ignore[arg-type]


def segment(index: int, calls: Sequence[Call], endpoint: float, branch: float = 0.0) -> Segment:
    return Segment(index, tuple(calls), 0, len(calls), endpoint, branch)


def archive(task: str, segments: Sequence[Segment], recoveries: Sequence[Recovery] = ()) -> Trial:
    calls = [item for part in segments for item in part.calls] + [item.reflection for item in recoveries]
    return Trial(
        task, "hand", tuple(segments), tuple(recoveries), tuple(sorted(calls, key=lambda c: c.number)), None, "end"
    )


def recovery(
    segment_: int, reflection: Call, abandoned: float, resumed: float | None, trigger: str = "asked"
) -> Recovery:
    return Recovery(segment_, reflection, trigger, 1, 0, "note", abandoned, resumed)


def advantages(samples: Sequence[DecisionSample]) -> dict[tuple[int, int], float]:
    return {(item.trial, item.call.number): item.advantage for item in samples}


def test_norm_of_nothing_one_and_equal_values_is_zero() -> None:
    assert normalised([]) == []
    assert normalised([3.0]) == [0.0]
    assert normalised([2.0, 2.0, 2.0 + 1e-12]) == [0.0, 0.0, 0.0]


def test_norm_uses_the_deviation_of_the_population() -> None:
    assert normalised([0.0, 4.0]) == pytest.approx([-2 / (2 + EPS), 2 / (2 + EPS)])
    assert normalised([0.0, 4.0], ddof=1)[1] == pytest.approx(2 / (math.sqrt(8) + EPS))
    assert normalised([1.0, 2.0, 6.0], scaled=False) == [-2.0, -1.0, 3.0]
    assert left_out([1.0, 2.0, 6.0]) == [-3.0, -1.5, 4.5]
    assert returns([1.0, 0.0, 4.0], 0.5) == [2.0, 2.0, 4.0]


@pytest.mark.parametrize("g", [0.5, 3.0, 100.0])
def test_appendix_d6_a_rewind_request_beside_a_continuation_with_return_g(g: float) -> None:
    """Group returns {0, g}: the request's local term is -λ (g/2) / (Std{0, g} + ε), the continuation's the opposite."""
    asked = archive("u", [segment(0, [call(1, "s", did="went back", history=["a"])], endpoint=1.0)])
    went_on = archive("u", [segment(0, [call(1, "s", g, history=["a"])], endpoint=1.0)])
    found = advantages(state_anchored([asked, went_on], StateAnchored(state_share=0.7)))
    assert found[0, 1] == pytest.approx(-0.7 * (g / 2) / (g / 2 + EPS))
    assert found[1, 1] == pytest.approx(0.7 * (g / 2) / (g / 2 + EPS))


def test_appendix_d6_a_request_that_is_alone_has_its_macro_term_only() -> None:
    alone = archive("u", [segment(0, [call(1, "s", did="went back")], endpoint=0.0)])
    other = archive("u", [segment(0, [call(1, "t", 5.0)], endpoint=4.0)])
    found = advantages(state_anchored([alone, other]))
    assert found == pytest.approx({(0, 1): -2 / (2 + EPS), (1, 1): 2 / (2 + EPS)})


def test_equal_states_with_other_histories_are_not_compared_unless_asked_for() -> None:
    one = archive("u", [segment(0, [call(1, "s", 0.0, history=["a"])], endpoint=0.0)])
    two = archive("u", [segment(0, [call(1, "s", 4.0, history=["b"])], endpoint=0.0)])
    assert set(advantages(state_anchored([one, two])).values()) == {0.0}
    by_state = advantages(state_anchored([one, two], StateAnchored(anchor="state")))
    assert by_state == pytest.approx({(0, 1): -2 / (2 + EPS), (1, 1): 2 / (2 + EPS)})


def test_no_group_crosses_tasks() -> None:
    one = archive("u", [segment(0, [call(1, "s", 0.0)], endpoint=0.0)])
    two = archive("v", [segment(0, [call(1, "s", 4.0)], endpoint=9.0)])
    for method in (state_anchored, grpo, rloo, gigpo, lamer):
        assert set(advantages(method([one, two])).values()) == {0.0}


def three_segments() -> Trial:
    """s -a-> t -b-> x (rewind to s, across two segments later) ; s -c-> y -rewind to s-> ; s -a-> t -d-> done."""
    first = segment(
        0,
        [call(1, "s", 1.0), call(2, "t", 0.0, history=["a"]), call(3, "x", history=["a", "b"], did="went back")],
        1.0,
        1.0,
    )
    second = segment(1, [call(5, "s", 2.0), call(6, "y", history=["c"], did="went back")], 2.0, 2.0)
    third = segment(2, [call(8, "s", 1.0), call(9, "t", 10.0, history=["a"])], 11.0, 11.0)
    back = [
        recovery(0, call(4, "x", did="reflected", tokens=3), 1.0, 2.0),
        recovery(1, call(7, "y", did="reflected", tokens=1), 2.0, 11.0),
    ]
    return archive("u", [first, second, third], back)


def test_a_trial_of_three_segments() -> None:
    found = advantages(state_anchored([three_segments()], StateAnchored(gamma=0.5)))
    macro = dict(zip((0, 1, 2), normalised([1.0, 2.0, 11.0]), strict=True))
    at_s = normalised([1.0, 2.0, 1.0 + 0.5 * 10.0])
    at_t = normalised([0.0, 10.0])
    expected = {
        (0, 1): macro[0] + at_s[0],
        (0, 2): macro[0] + at_t[0],
        (0, 3): macro[0],
        (0, 5): macro[1] + at_s[1],
        (0, 6): macro[1],
        (0, 8): macro[2] + at_s[2],
        (0, 9): macro[2] + at_t[1],
    }
    reflected = normalised([2.0 - 1.0, 11.0 - 2.0])
    assert found == pytest.approx(expected | {(0, 4): reflected[0], (0, 7): reflected[1]})


def test_a_reflection_without_a_decision_after_it_is_no_sample() -> None:
    last = recovery(0, call(2, "s", did="reflected"), 1.0, None)
    trial = archive("u", [segment(0, [call(1, "s", 1.0)], 1.0)], [last])
    assert reflections([trial]) == []
    assert {item.kind for item in state_anchored([trial])} == {"execution"}


def test_the_two_masks_are_disjoint_and_each_decision_is_one_row() -> None:
    rows = state_anchored([three_segments(), three_segments()])
    keys = [(item.trial, item.call.number) for item in rows]
    assert len(keys) == len(set(keys)) == 18
    assert sum(item.kind == "reflection" for item in rows) == 4


def test_progress_in_place_of_advancement_forgets_where_the_branch_began() -> None:
    found = reflections([three_segments()], StateAnchored(reward="progress"))
    assert [item.advantage for item in found] == pytest.approx(normalised([2.0, 11.0]))


def test_credit_across_the_boundary_rewards_the_request_and_what_led_to_it() -> None:
    plain, across = (executions([three_segments()], StateAnchored(gamma=0.5, boundary=share)) for share in (0.0, 1.0))
    gained = {item.call.number: item.advantage for item in across}
    before = {item.call.number: item.advantage for item in plain}
    at_s = normalised([1.0 + 0.25 * 1.0, 2.0 + 0.5 * 9.0, 6.0])
    macro = normalised([1.0, 2.0, 11.0])
    assert gained[1] == pytest.approx(macro[0] + at_s[0])
    assert gained[5] == pytest.approx(macro[1] + at_s[1])
    assert gained[3] == before[3]  # alone in its group


def test_grpo_rloo_by_hand() -> None:
    trials = [archive("u", [segment(0, [call(1, "s", value), call(2, "t", 1.0)], 0.0)]) for value in (0.0, 2.0, 7.0)]
    whole = [1.0, 3.0, 8.0]
    for method, expected in ((grpo, normalised(whole)), (rloo, left_out(whole))):
        assert advantages(method(trials)) == pytest.approx(
            {(n, number): expected[n] for n in range(3) for number in (1, 2)}
        )


def test_gigpo_compares_equal_states_whatever_led_there() -> None:
    one = archive("u", [segment(0, [call(1, "s", 0.0), call(2, "t", 4.0, history=["a"])], 0.0)])
    two = archive("u", [segment(0, [call(1, "r", 0.0), call(2, "t", 0.0, history=["b"])], 0.0)])
    whole, at_t = normalised([4.0, 0.0]), normalised([4.0, 0.0])
    assert advantages(gigpo([one, two])) == pytest.approx(
        {(0, 1): whole[0], (0, 2): whole[0] + at_t[0], (1, 1): whole[1], (1, 2): whole[1] + at_t[1]}
    )


def test_lamer_discounts_across_attempts_through_the_reflection() -> None:
    back = recovery(0, call(2, "s", did="reflected"), 0.0, 10.0, "failed")
    won = archive("u", [segment(0, [call(1, "s", -1.0)], 0.0), segment(1, [call(3, "s", 10.0)], 0.0)], [back])
    found = advantages(lamer([won], gamma=0.5, across=0.6))
    first, second = -1.0 + 0.6 * 10.0, 10.0
    mean = (first + second) / 2
    assert found == pytest.approx({(0, 1): first - mean, (0, 3): second - mean, (0, 2): 0.0})


def surrogate(ratio: float, advantage: float, clip: float = 0.2) -> float:
    return min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Trial], dict[tuple[int, int], list[float]]]:
    """Trials of a few tasks, with a ratio of new to old policy for every output token."""
    trials: list[Trial] = []
    for number in range(draw(st.integers(1, 5))):
        numbers = itertools.count(1)
        count = draw(st.integers(1, 3))
        segments, back = [], []
        for index in range(count):
            calls = [
                call(
                    next(numbers), draw(st.sampled_from("abc")), draw(st.floats(-2, 2)), tokens=draw(st.integers(1, 3))
                )
                for _ in range(draw(st.integers(1, 3)))
            ]
            segments.append(segment(index, calls, draw(st.floats(-3, 3))))
            if index + 1 < count or draw(st.booleans()):
                look = call(next(numbers), "z", did="reflected", tokens=draw(st.integers(1, 4)))
                after = draw(st.floats(-3, 3)) if index + 1 < count else None
                back.append(recovery(index, look, draw(st.floats(-3, 3)), after))
        trials.append(replace(archive(draw(st.sampled_from("uv")), segments, back)))
        del number
    ratios = {
        (number, item.number): draw(
            st.lists(st.floats(0.5, 1.5), min_size=output_tokens(item), max_size=output_tokens(item))
        )
        for number, trial in enumerate(trials)
        for item in trial.calls
    }
    return trials, ratios


@settings(max_examples=150, deadline=None)
@given(batches(), st.sampled_from([0.0, 0.5, 1.0]))
def test_one_weighted_advantage_a_row_is_exactly_the_objective(
    batch: tuple[list[Trial], dict[tuple[int, int], list[float]]], share: float
) -> None:
    """Task means, decision means and the pooled mean of reflection tokens, written out as in the paper, and folded."""
    trials, ratios = batch
    chosen = StateAnchored(reflection_share=share)
    tasks = sorted({trial.task for trial in trials})
    literal = 0.0
    for task in tasks:
        decided = [item for item in executions(trials, chosen) if item.task == task]
        looked = [item for item in reflections(trials, chosen) if item.task == task]
        means = [
            sum(surrogate(ratio, item.advantage) for ratio in ratios[item.trial, item.call.number])
            / len(ratios[item.trial, item.call.number])
            for item in decided
        ]
        pooled = [surrogate(ratio, item.advantage) for item in looked for ratio in ratios[item.trial, item.call.number]]
        literal += sum(means) / len(means) if means else 0.0
        literal += share * sum(pooled) / len(pooled) if pooled else 0.0
    literal /= len(tasks)
    rows = state_anchored(trials, chosen)
    folded = [
        sum(surrogate(ratio, row.folded(len(rows))) for ratio in ratios[row.trial, row.call.number])
        / len(ratios[row.trial, row.call.number])
        for row in rows
    ]
    assert sum(folded) / len(rows) == pytest.approx(literal, abs=1e-9)
