"""Random numbers for the generators: the same on every machine and with every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
