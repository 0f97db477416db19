"""BEACON, our reading: a table by hand, and the laws."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.learn.credit.baselines import grpo
from agentrewind.learn.credit.beacon import beacon, shaped
from agentrewind.learn.trial import Call, Output, Segment, Trial


def stretch(*shares: float, rewards: tuple[float, ...] = (), index: int = 0, first: int = 1) -> Segment:
    """Decisions that lead from each share of the task to the next."""
    calls = tuple(
        Call(first + place, "execution", index, place, f"s{place}", (), (), Output("x", (1,)), "acted", None, reward,
             progress=(before, after))
        for place, ((before, after), reward) in enumerate(
            itertools.zip_longest(itertools.pairwise(shares), rewards, fillvalue=0.0)
        )
    )  # fmt: skip
    return Segment(index, calls, 0, len(calls), shares[-1], shares[-1])


def archive(*segments: Segment, task: str = "u") -> Trial:
    calls = tuple(call for segment in segments for call in segment.calls)
    return Trial(task, "hand", segments, (), calls, None, "end")


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        # (milestone on the way to, earned), two milestones, gamma 0.5
        ((0, 0.25, 0.5, 0.5), [(1, 0.5), (1, 1.0), (2, 0.0)]),
        ((0, 0.5, 1.0), [(1, 1.0), (2, 1.0)]),
        ((0, 1.0), [(1, 1.0)]),  # both at once
        ((0, 0.1, 0.2, 0.3), [(1, 0.0)] * 3),  # none
        ((0, 0.5, 0.0, 0.5, 1.0), [(1, 1.0), (2, 0.25), (2, 0.5), (2, 1.0)]),  # lost and made again: once
        ((0.6, 0.7, 1.0), [(2, 0.5), (2, 1.0)]),  # after a rewind to where the first was reached
    ],
)
def test_what_decisions_earn(shares: tuple[float, ...], expected: list[tuple[int, float]]) -> None:
    assert shaped(stretch(*shares).calls, 2, 0.5) == expected


def test_two_scales_by_hand() -> None:
    """Returns 1 and 3: -1 and +1. On the way to milestone 1 were 0.5, 1 | 1: -1.414214, 0.707107 | 0.707107;
    to milestone 2 were 0 | 1: -1 | +1.
    """
    one = archive(stretch(0, 0.25, 0.5, 0.5, rewards=(0.0, 1.0, 0.0)))
    two = archive(stretch(0, 0.5, 1.0, rewards=(1.0, 2.0)))
    rows = beacon([one, two], milestones=2, gamma=0.5)
    found = {(item.trial, item.call.number): item.advantage for item in rows}
    expected = {(0, 1): -2.414214, (0, 2): -0.292893, (0, 3): -2.0, (1, 1): 1.707107, (1, 2): 2.0}
    assert found == pytest.approx(expected, abs=1e-4)


def test_a_milestone_is_reached_although_floats_fall_short_of_it() -> None:
    assert 0.29 * 100 < 29
    assert shaped(stretch(0.28, 0.29).calls, 100, 0.5) == [(29, 1.0)]


shares = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 1.0]), min_size=1, max_size=6)


@st.composite
def trials(draw: st.DrawFn) -> list[Trial]:
    found = []
    for _ in range(draw(st.integers(1, 5))):
        way = (0.0, *draw(shares))
        rewards = tuple(draw(st.lists(st.floats(-2, 2), min_size=len(way) - 1, max_size=len(way) - 1)))
        found.append(archive(stretch(*way, rewards=rewards), task=draw(st.sampled_from("uv"))))
    return found


@given(trials(), st.integers(1, 4), st.floats(0.1, 0.99))
def test_laws(batch: list[Trial], milestones: int, gamma: float) -> None:
    whole = {(item.trial, item.call.number): item.advantage for item in grpo(batch)}
    rows = beacon(batch, milestones=milestones, gamma=gamma)
    assert [(item.trial, item.call.number, item.weight) for item in rows] == [
        (item.trial, item.call.number, item.weight) for item in grpo(batch)
    ]
    local = {key: item.advantage - whole[key] for item in rows for key in [(item.trial, item.call.number)]}
    groups: dict[tuple[str, int], list[float]] = {}
    for number, trial in enumerate(batch):
        calls = trial.segments[0].calls
        made = shaped(calls, milestones, gamma)
        for call, (towards, _) in zip(calls, made, strict=True):
            groups.setdefault((trial.task, towards), []).append(local[number, call.number])
        for (before, now), (one, two) in zip(itertools.pairwise(made), itertools.pairwise(calls), strict=True):
            assert now[0] >= before[0], "milestones come in order"
            if now[0] == before[0]:
                assert now[1] >= before[1], "what is nearer to the milestone earns no less"
                assert local[number, two.number] >= local[number, one.number] - 1e-9
    for values in groups.values():
        assert sum(values) == pytest.approx(0.0, abs=1e-6), "a comparison gives nothing to its group as a whole"


@given(trials())
def test_where_nobody_reaches_a_milestone_it_is_grpo(batch: list[Trial]) -> None:
    idle = [
        archive(stretch(*[0.0] * (len(t.calls) + 1), rewards=tuple(c.reward for c in t.calls)), task=t.task)
        for t in batch
    ]
    assert beacon(idle) == grpo(idle)


@given(trials())
def test_the_order_of_the_trials_says_nothing(batch: list[Trial]) -> None:
    def told(order: list[Trial]) -> list[tuple[str, float]]:
        return sorted((repr(item.call) + item.task, round(item.advantage, 6)) for item in beacon(order))

    assert told(batch) == told(batch[::-1])
