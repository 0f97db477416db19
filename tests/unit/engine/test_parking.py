"""Which parked copies stay."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from agentrewind.engine.parking import thinned


@dataclass(eq=False)
class Parked:
    order: int


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_the_newest_stays_and_the_older_the_wider_apart(limit):
    kept: list[Parked] = []
    for order in range(1, 201):
        kept.append(Parked(order))
        gone = thinned(kept, limit)
        kept = [item for item in kept if item not in gone]
        assert len(kept) == min(limit, order)
        assert kept[-1].order == order
    if limit == 8:
        ages = [200 - item.order for item in kept]
        assert ages[-2] <= 3
        assert ages[0] >= 50, ages
        gaps = [older - newer for older, newer in itertools.pairwise(ages)]
        assert gaps[0] >= gaps[-1]


def test_none_goes_while_there_is_room():
    assert thinned([Parked(1), Parked(2)], 2) == []
