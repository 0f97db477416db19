"""State-Anchored GRPO and the branch-advancement reward (paper "ReTRAIL", section 4 and appendix D.5)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from agentrewind.core.codec import canonical
from agentrewind.learn.credit.groups import returns, within
from agentrewind.learn.credit.samples import Credited, DecisionSample, Length, output_tokens, weighted
from agentrewind.learn.trial import Call, Recovery, Segment, Trial

Anchor = Literal["state and history", "state", "observation"]


@dataclass(frozen=True, slots=True)
class StateAnchored:
    """The settings; the defaults are those settled (retrospective.md, section 6)."""

    gamma: float = 0.95
    state_share: float = 1.0
    """λ_state."""
    reflection_share: float = 1.0
    """λ_ref."""
    anchor: Anchor = "state and history"
    ddof: int = 0
    reward: Literal["advancement", "progress"] = "advancement"
    """Of a reflection: `v⁺ - v⁻`, or `v⁺` alone (an ablation)."""
    boundary: float = 0.0
    """Beyond the paper: so much of the advancement is the reward of the request to go back."""


DEFAULT = StateAnchored()


def state_anchored(
    trials: Sequence[Trial], settings: StateAnchored = DEFAULT, length: Length = output_tokens
) -> list[DecisionSample]:
    """Rows of all decisions and of the eligible reflections."""
    return weighted(
        trials,
        executions(trials, settings),
        reflections(trials, settings),
        reflection_share=settings.reflection_share,
        length=length,
    )


def executions(trials: Sequence[Trial], settings: StateAnchored = DEFAULT) -> list[Credited]:
    """`A_cont = A_macro + λ_state A_state` of every decision; a segment's decisions share its `A_macro`."""
    segments = [(number, trial, segment) for number, trial in enumerate(trials) for segment in trial.segments]
    macro = within(
        [trial.task for _, trial, _ in segments],
        [segment.endpoint for _, _, segment in segments],
        ddof=settings.ddof,
    )
    found = [
        (Credited(trial.task, number, call, share), gained)
        for (number, trial, segment), share in zip(segments, macro, strict=True)
        for call, gained in zip(segment.calls, _returns(trial, segment, settings), strict=True)
    ]
    keys = [(item.task, *anchor(item.call, settings.anchor)) for item, _ in found]
    local = within(keys, [gained for _, gained in found], ddof=settings.ddof)
    return [
        Credited(item.task, item.trial, item.call, item.advantage + settings.state_share * share)
        for (item, _), share in zip(found, local, strict=True)
    ]


def anchor(call: Call, by: Anchor) -> tuple[Hashable, ...]:
    """What two decisions of a task must have in common to be compared: `H(s, h)` by default."""
    if by == "state":
        return (call.state,)
    if by == "observation":
        return (call.context[-1]["content"],)
    return (call.state, canonical(list(call.history)))


def _returns(trial: Trial, segment: Segment, settings: StateAnchored) -> list[float]:
    """`G_q` of a segment's decisions: to its end, not beyond."""
    rewards = [call.reward for call in segment.calls]
    after = next((item for item in trial.recoveries if item.segment == segment.index), None)
    if settings.boundary and after is not None and segment.calls[-1].did == "went back":
        rewards[-1] += settings.boundary * (advancement(after) or 0.0)
    return returns(rewards, settings.gamma)


def advancement(recovery: Recovery) -> float | None:
    """The score of the resumed branch minus that of the abandoned one, from the same state (paper, equation 10).

    None where the resumed segment made no decision.
    """
    return None if recovery.resumed is None else recovery.resumed - recovery.abandoned


def reflections(trials: Sequence[Trial], settings: StateAnchored = DEFAULT) -> list[Credited]:
    """`A_ref`: the rewards of a task's eligible recoveries of both kinds, compared with one another."""
    eligible = [
        (number, trial.task, recovery)
        for number, trial in enumerate(trials)
        for recovery in trial.recoveries
        if recovery.resumed is not None and recovery.reflection.output.text
    ]
    rewards = [_reward(recovery, settings) for _, _, recovery in eligible]
    norms = within([task for _, task, _ in eligible], rewards, ddof=settings.ddof)
    return [
        Credited(task, number, recovery.reflection, norm)
        for (number, task, recovery), norm in zip(eligible, norms, strict=True)
    ]


def _reward(recovery: Recovery, settings: StateAnchored) -> float:
    assert recovery.resumed is not None
    return recovery.resumed - (recovery.abandoned if settings.reward == "advancement" else 0.0)
