"""Values compared within their group."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

EPSILON = 1e-6
CONSTANT = 1e-8
"""A group with a smaller deviation has no differences to learn from."""


def normalised(values: Sequence[float], *, ddof: int = 0, scaled: bool = True) -> list[float]:
    """`Norm(x) = (x - mean) / (std + ε)`; exactly 0 for a single value and for a constant group.

    `ddof` 0 is the population's deviation (paper, appendix D.6); not `scaled`: `x - mean`.
    """
    if len(values) <= 1:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    if math.sqrt(squares / len(values)) < CONSTANT:
        return [0.0] * len(values)
    scale = math.sqrt(squares / (len(values) - ddof)) + EPSILON if scaled else 1.0
    return [(value - mean) / scale for value in values]


def left_out(values: Sequence[float]) -> list[float]:
    """Each value minus the mean of the others (RLOO); 0 for a single value."""
    if len(values) <= 1:
        return [0.0] * len(values)
    total = math.fsum(values)
    return [value - (total - value) / (len(values) - 1) for value in values]


def within(keys: Sequence[Hashable], values: Sequence[float], *, ddof: int = 0, scaled: bool = True) -> list[float]:
    """Each value normalised within the group of its key."""
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    found = [0.0] * len(values)
    for places in groups.values():
        norms = normalised([values[place] for place in places], ddof=ddof, scaled=scaled)
        for place, norm in zip(places, norms, strict=True):
            found[place] = norm
    return found


def returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """For each place the discounted sum of the rewards from there to the end."""
    found, after = [0.0] * len(rewards), 0.0
    for place in reversed(range(len(rewards))):
        after = rewards[place] + gamma * after
        found[place] = after
    return found
