"""Edits of a conversation: how what a harness sends becomes what its model sees (rewind.md, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrewind.core.codec import Json

Message = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the raw messages `[start, stop)` by `inserted`.

    A rewind cuts a range and puts the memory in its place; an answered rewind tool inserts at one point
    (`start == stop`). `branch` is that of the rewind, empty for an insertion.
    """

    start: int
    stop: int
    inserted: tuple[Message, ...]
    branch: str = ""
    notes: tuple[str, ...] = ()
    """The branches whose notes stand in `inserted`."""
    hint: str = ""
    """Not empty: `inserted` is the one raw message itself with a hint at its end, and this is what is told once."""


def splice(raw: Sequence[Message], edits: Sequence[Edit]) -> list[Message]:
    """What goes upstream: `raw` with the edits applied. The edits are in order and don't overlap.

    Raises:
        ValueError: an edit lies outside of `raw` or before the one in front of it.
    """
    out: list[Message] = []
    at = 0
    for edit in edits:
        if not at <= edit.start <= edit.stop <= len(raw):
            raise ValueError(f"edit [{edit.start}, {edit.stop}) after {at} in a list of {len(raw)}")
        out.extend(raw[at : edit.start])
        out.extend(edit.inserted)
        at = edit.stop
    out.extend(raw[at:])
    return out
