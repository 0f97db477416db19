"""BEACON, our reading (after arXiv 2605.06078): rewards for milestones, and advantages at two scales.

The definitions are the method's: a milestone cuts a trajectory into stretches; in a stretch that reached its milestone
a decision gets `gamma^(distance to the end of the stretch)`, in one that didn't it gets 0; the advantage of the whole
trajectory is added to that among decisions which were on their way to the same milestone. What is ours, and where this
may differ from the authors' numbers: milestones are equal parts of the verified progress (they name objects, pages and
subgoals by environment), both scales are normalised as those of the other methods here, and after a rewind the
milestones that the restored state has reached count as reached.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrewind.learn.credit.baselines import at_two_scales
from agentrewind.learn.credit.samples import DecisionSample, Length, output_tokens, weighted
from agentrewind.learn.trial import Call, Trial

MILESTONES = 4
ROUNDING = 1e-9
"""So much below a milestone counts as reached: shares are sums of floats."""


def beacon(
    trials: Sequence[Trial],
    length: Length = output_tokens,
    *,
    milestones: int = MILESTONES,
    gamma: float = 0.95,
    segment_share: float = 1.0,
    ddof: int = 0,
) -> list[DecisionSample]:
    """Our reading of BEACON: the trial's advantage plus that among decisions on the way to the same milestone.

    Args:
        trials: with the progress of each call.
        length: how many tokens an output has.
        milestones: so many equal parts of a task's progress, each a milestone.
        gamma: how much less a decision earns for each one between it and the milestone.
        segment_share: the weight of the second scale.
        ddof: of the deviations.
    """
    found = at_two_scales(
        trials, lambda segment: shaped(segment.calls, milestones, gamma), share=segment_share, ddof=ddof
    )
    return weighted(trials, found, length=length)


def shaped(calls: Sequence[Call], milestones: int, gamma: float) -> list[tuple[int, float]]:
    """For each decision of a stretch without a rewind the milestone it was on its way to, from 1, and what it earned.

    A decision that passes several milestones ends the stretch to the first of them. Progress that is lost and made
    again passes no milestone twice.
    """
    found: list[tuple[int, float]] = []
    reached = _reached(calls[0].progress[0], milestones) if calls else 0
    since = 0
    for place, call in enumerate(calls):
        now = _reached(call.progress[1], milestones)
        if now > reached:
            found += [(reached + 1, gamma ** (place - earlier)) for earlier in range(since, place + 1)]
            reached, since = now, place + 1
    return found + [(reached + 1, 0.0)] * (len(calls) - since)


def _reached(progress: float, milestones: int) -> int:
    return int(progress * milestones + ROUNDING)
