"""The ways to credit decisions, by the names that recipes and the command line use.

The ablations of the learning objective (paper "ReTRAIL", section 6) stand here too. Those of the rollout are rules
(`proactive=0`: without rewinds of the model's own) and methods of playing, and are credited like the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrewind.learn.credit.baselines import by_steps, gigpo, grpo, lamer, rloo
from agentrewind.learn.credit.beacon import beacon
from agentrewind.learn.credit.retrail import DEFAULT, StateAnchored, reflections, state_anchored
from agentrewind.learn.credit.samples import DecisionSample, Length, output_tokens, weighted
from agentrewind.learn.trial import Trial

Credit = Callable[[Sequence[Trial], Length], list[DecisionSample]]
BOUNDARY = 0.5
"""The share of a rewind's worth that `sa-grpo-boundary` credits to the request for it."""


def gigpo_with_reflections(
    trials: Sequence[Trial], settings: StateAnchored = DEFAULT, length: Length = output_tokens
) -> list[DecisionSample]:
    """An ablation: decisions as GiGPO credits them, reflections as always (paper, section 6)."""
    decided = by_steps(trials, gamma=settings.gamma, step_share=settings.state_share, ddof=settings.ddof)
    looked = reflections(trials, settings)
    return weighted(trials, decided, looked, reflection_share=settings.reflection_share, length=length)


CREDITS: dict[str, Credit] = {
    "sa-grpo": lambda trials, length: state_anchored(trials, length=length),
    "sa-grpo-boundary": lambda trials, length: state_anchored(trials, StateAnchored(boundary=BOUNDARY), length),
    "sa-grpo-progress": lambda trials, length: state_anchored(trials, StateAnchored(reward="progress"), length),
    "sa-grpo-gigpo": lambda trials, length: gigpo_with_reflections(trials, length=length),
    "grpo": grpo,
    "rloo": rloo,
    "gigpo": gigpo,
    "beacon": beacon,
    "lamer": lamer,
}
