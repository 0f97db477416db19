"""Chance as a hash: equal words draw equal numbers, on any machine and in any process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def draw(*words: object) -> float:
    """A number of [0, 1), evenly spread over all words."""
    text = "\x1f".join(map(str, words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def pick(items: Sequence[T], *words: object) -> T:
    """One of them, each as likely. Raises: IndexError: there is none."""
    return items[int(draw(*words) * len(items))]
