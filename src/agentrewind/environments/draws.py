"""Random numbers for the generators: the same on every machine and with every Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

FRUITLESS = 200
"""After so many draws in a row that brought nothing new a generator takes it that there is nothing more."""


class Draws:
    """Draws from `random.Random(seed).random()` alone, the one sequence that Python promises to keep."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random  # noqa: S311 (puzzles, not keys)

    def below(self, bound: int) -> int:
        """A number from 0 to `bound - 1`."""
        return int(self._random() * bound)

    def one(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in the order drawn."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]


def distinct(
    split: str, make: Callable[[str], T], identity: Callable[[T], Hashable], name: Callable[[T], str]
) -> Iterator[T]:
    """Different instances of one split, until nothing new is drawn any more.

    Which split an instance belongs to follows from its `name`, whatever seed it comes from: a third of all are for
    tests, the others for training.

    Args:
        split: `test`, or another one.
        make: an instance of a seed.
        identity: what two instances that are the same have in common.
        name: all of an instance, in a text.
    """
    seen: set[Hashable] = set()
    number = fruitless = 0
    while fruitless < FRUITLESS:
        found = make(f"{split}/{number}")
        number, fruitless = number + 1, fruitless + 1
        is_test = Draws(f"split/{name(found)}").below(3) == 0
        if is_test == (split == "test") and identity(found) not in seen:
            seen.add(identity(found))
            fruitless = 0
            yield found
