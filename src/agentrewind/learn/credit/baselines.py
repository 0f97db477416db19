"""The trained methods that it is compared with, on the same archives: GRPO, RLOO, GiGPO, LaMer (and `beacon`).

Each gives decisions an advantage; what a policy wrote while looking back has one in LaMer alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from agentrewind.learn.credit.groups import left_out, returns, within
from agentrewind.learn.credit.retrail import anchor
from agentrewind.learn.credit.samples import Credited, DecisionSample, Length, output_tokens, weighted
from agentrewind.learn.trial import Call, Segment, Trial


def grpo(trials: Sequence[Trial], length: Length = output_tokens, *, ddof: int = 0) -> list[DecisionSample]:
    """One advantage a trial, normalised within its task; all its decisions share it."""
    tasks = [trial.task for trial in trials]
    return _shared(trials, within(tasks, [total(trial) for trial in trials], ddof=ddof), length)


def rloo(trials: Sequence[Trial], length: Length = output_tokens) -> list[DecisionSample]:
    """A trial's return minus the mean of the others of its task."""
    found = [0.0] * len(trials)
    for task in dict.fromkeys(trial.task for trial in trials):
        places = [place for place, trial in enumerate(trials) if trial.task == task]
        for place, value in zip(places, left_out([total(trials[place]) for place in places]), strict=True):
            found[place] = value
    return _shared(trials, found, length)


def gigpo(
    trials: Sequence[Trial],
    length: Length = output_tokens,
    *,
    gamma: float = 0.95,
    step_share: float = 1.0,
    ddof: int = 0,
) -> list[DecisionSample]:
    """The trial's advantage plus that of the step, compared at equal states across trials, whatever led there."""
    return weighted(trials, by_steps(trials, gamma=gamma, step_share=step_share, ddof=ddof), length=length)


def by_steps(trials: Sequence[Trial], *, gamma: float = 0.95, step_share: float = 1.0, ddof: int = 0) -> list[Credited]:
    """GiGPO's advantages of the decisions, before rows are weighted."""
    return at_two_scales(trials, partial(_states_and_returns, gamma=gamma), share=step_share, ddof=ddof)


def at_two_scales(
    trials: Sequence[Trial],
    compared: Callable[[Segment], Iterable[tuple[Hashable, float]]],
    *,
    share: float,
    ddof: int = 0,
) -> list[Credited]:
    """Each decision's advantage: its trial's in the task, and `share` times its own among decisions of equal key.

    `compared` gives the key and the value of each decision of a segment; no group crosses tasks.
    """
    whole = within([trial.task for trial in trials], [total(trial) for trial in trials], ddof=ddof)
    found = [
        (Credited(trial.task, number, call, whole[number]), (trial.task, key), value)
        for number, trial in enumerate(trials)
        for segment in trial.segments
        for call, (key, value) in zip(segment.calls, compared(segment), strict=True)
    ]
    local = within([key for _, key, _ in found], [value for *_, value in found], ddof=ddof)
    return [
        replace(item, advantage=item.advantage + share * more) for (item, *_), more in zip(found, local, strict=True)
    ]


def _states_and_returns(segment: Segment, gamma: float) -> Iterable[tuple[Hashable, float]]:
    gained = returns([call.reward for call in segment.calls], gamma)
    return zip((call.state for call in segment.calls), gained, strict=True)


def lamer(
    trials: Sequence[Trial], length: Length = output_tokens, *, gamma: float = 0.95, across: float = 0.6
) -> list[DecisionSample]:
    """Returns go on across attempts, discounted by `across` at each boundary, through the reflection between them.

    Compared by the mean alone: decisions at equal states of a task, reflections of a task with one another.
    """
    decided: list[tuple[int, Trial, Call, float]] = []
    reflected: list[tuple[int, Trial, Call, float]] = []
    for number, trial in enumerate(trials):
        starts = _starts(trial, gamma, across)
        for segment, after in zip(trial.segments, [*starts[1:], 0.0], strict=True):
            rewards = [call.reward for call in segment.calls]
            rewards[-1] += across * after
            gained = returns(rewards, gamma)
            decided += [(number, trial, call, value) for call, value in zip(segment.calls, gained, strict=True)]
        reflected += [
            (number, trial, recovery.reflection, across * starts[recovery.segment + 1])
            for recovery in trial.recoveries
            if recovery.segment + 1 < len(starts)
        ]
    keys = [(trial.task, *anchor(call, "state")) for _, trial, call, _ in decided]
    steps = within(keys, [value for *_, value in decided], scaled=False)
    looks = within([trial.task for _, trial, *_ in reflected], [value for *_, value in reflected], scaled=False)
    return weighted(
        trials,
        [Credited(trial.task, n, call, a) for (n, trial, call, _), a in zip(decided, steps, strict=True)],
        [Credited(trial.task, n, call, a) for (n, trial, call, _), a in zip(reflected, looks, strict=True)],
        length=length,
    )


def total(trial: Trial) -> float:
    """The return of a trial: all rewards that it got."""
    return sum(call.reward for call in trial.calls)


def _starts(trial: Trial, gamma: float, across: float) -> list[float]:
    """For each segment the return from its beginning, later attempts included."""
    found = [0.0] * len(trial.segments)
    after = 0.0
    for segment in reversed(trial.segments):
        rewards = [call.reward for call in segment.calls]
        rewards[-1] += across * after
        after = found[segment.index] = returns(rewards, gamma)[0]
    return found


def _shared(trials: Sequence[Trial], advantages: Sequence[float], length: Length) -> list[DecisionSample]:
    """Every decision of a trial with the trial's advantage."""
    return weighted(
        trials,
        [
            Credited(trial.task, number, call, advantages[number])
            for number, trial in enumerate(trials)
            for segment in trial.segments
            for call in segment.calls
        ],
        length=length,
    )
