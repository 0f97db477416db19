"""Placing the edits of a conversation anew after its harness rewrote the history (rewind.md, section 4).

A harness may drop messages (the oldest, the middle), put others in their place (a summary, an elided tool result) and
go on at the end; what it keeps stays in order. Messages are known by digests alone.

The old list falls into *regions*: even ones are kept, odd ones are what edit number `region // 2` cuts (an insertion
cuts nothing, but still parts two regions). Placing the edits means to say of each new message which region it is in.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentrewind.core.edits import Edit


def align(old: Sequence[str], new: Sequence[str], edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
    """The edits of `old` as edits of `new`; None where that takes a guess.

    A message of `new` that also stands in `old` is taken to be that message, if the order allows. Then: no abandoned
    message is left, none that isn't abandoned is cut. A message that stands between two messages of one cut, or in
    the place of a message of a cut, is abandoned with them; a summary of both kinds is a reason for None. Edits whose
    range is gone become insertions, so that their notes stay; an answered rewind tool whose neighbours are both gone
    goes with them, and so does a hint whose message is gone or was rewritten.

    Args:
        old: the digests of the messages to which `edits` apply.
        new: those of the list that the harness sends now.
        edits: in order, not overlapping.
    """
    moving = [edit for edit in edits if not edit.hint]
    readings = [_Reading(len(new), len(old), matches) for matches in _embeddings(old, new, moving)]
    placed = [reading.placed(moving) for reading in readings]
    if not placed or placed[0] is None or any(one != placed[0] for one in placed):
        return None
    return _with_hints(placed[0], [edit for edit in edits if edit.hint], old, new)


def _with_hints(
    placed: Sequence[Edit], hints: Sequence[Edit], old: Sequence[str], new: Sequence[str]
) -> tuple[Edit, ...]:
    """The edits with those hints whose message is still there, as it was and outside of every cut. The others go."""
    found = list(placed)
    for hint in hints:
        key = old[hint.start]
        if old.count(key) == new.count(key) == 1:
            at = new.index(key)
            if not any(edit.start <= at < edit.stop for edit in placed):
                found.append(replace(hint, start=at, stop=at + 1))
    return tuple(sorted(found, key=lambda edit: (edit.start, edit.stop)))


def _regions(length: int, edits: Sequence[Edit]) -> list[int]:
    """The region of each old message."""
    regions = [2 * len(edits)] * length
    at = 0
    for number, edit in enumerate(edits):
        regions[at : edit.start] = [2 * number] * (edit.start - at)
        regions[edit.start : edit.stop] = [2 * number + 1] * (edit.stop - edit.start)
        at = edit.stop
    return regions


def _is_cut(region: int) -> bool:
    return region % 2 == 1


# --- which old message each new one is --------------------------------------------------------------------------------


def _embeddings(old: Sequence[str], new: Sequence[str], edits: Sequence[Edit]) -> list[dict[int, int]]:
    """The leftmost and the rightmost way to find the known new messages in the old list in order: new to old index.

    Known messages at the end that can't be found in order were sent anew; where one of them equals an abandoned
    message there is no telling, and no embedding.
    """
    present = set(old)
    known = [index for index, key in enumerate(new) if key in present]
    leftmost = _leftmost(old, [new[index] for index in known])
    regions = _regions(len(old), edits)
    abandoned = {key for key, region in zip(old, regions, strict=True) if _is_cut(region)}
    if any(new[index] in abandoned for index in known[len(leftmost) :]):
        return []
    found = known[: len(leftmost)]
    mirrored = _leftmost(old[::-1], [new[index] for index in reversed(found)])
    rightmost = [len(old) - 1 - index for index in reversed(mirrored)]
    return [dict(zip(found, places, strict=True)) for places in (leftmost, rightmost)]


def _leftmost(old: Sequence[str], keys: Sequence[str]) -> list[int]:
    """The first place of each key after that of the key before; ends where there is none."""
    places: list[int] = []
    start = 0
    for key in keys:
        place = next((index for index in range(start, len(old)) if old[index] == key), None)
        if place is None:
            break
        places.append(place)
        start = place + 1
    return places


# --- which region each new message is in ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """New messages that were not in the old list, and the old messages that are gone from the same place."""

    new: range
    lost: range
    last: bool
    """It reaches the end of the list, where the harness goes on."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to read the new list."""

    length: int
    old_length: int
    matches: dict[int, int]

    def placed(self, edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
        """The edits over the new list, as this reading has it."""
        kept = [edit for edit in edits if not self._gone(edit)]
        old_regions = _regions(self.old_length, kept)
        regions = [0] * self.length
        for index, place in self.matches.items():
            regions[index] = old_regions[place]
        for block in self._blocks():
            found = _block_regions(block, old_regions, 2 * len(kept))
            if found is None:
                return None
            regions[block.new.start : block.new.stop] = found
        return tuple(_moved(edit, number, regions) for number, edit in enumerate(kept))

    def _gone(self, edit: Edit) -> bool:
        """An answered rewind tool (no notes, nothing cut) whose neighbours the harness dropped."""
        if edit.notes or edit.branch or edit.start < edit.stop:
            return False
        there = set(self.matches.values())
        neighbours = [place for place in (edit.start - 1, edit.start) if 0 <= place < self.old_length]
        return bool(neighbours) and not any(place in there for place in neighbours)

    def _blocks(self) -> list[_Block]:
        """The gaps between matched messages, those without a new message left out."""
        points = [(-1, -1), *sorted(self.matches.items()), (self.length, self.old_length)]
        blocks: list[_Block] = []
        for (index, place), (next_index, next_place) in itertools.pairwise(points):
            if next_index > index + 1:
                last = next_index == self.length
                blocks.append(_Block(range(index + 1, next_index), range(place + 1, next_place), last))
        return blocks


def _block_regions(block: _Block, regions: Sequence[int], final: int) -> list[int] | None:
    """The regions of a block's new messages; None where more than one answer is possible."""
    count = len(block.new)
    before = regions[block.lost.start - 1] if block.lost.start > 0 else 0
    after = final if block.last else regions[block.lost.stop] if block.lost.stop < len(regions) else final
    if before == after:
        return [before] * count
    lost = [regions[place] for place in block.lost]
    if not lost:  # said anew: on the kept side
        return [after - 1 if _is_cut(after) else after] * count
    if block.last:
        return [final] * count if set(lost) == {final} else None
    if len(lost) == count:  # rewritten one by one
        return lost if len(set(lost)) == 1 or not any(map(_is_cut, lost)) else None
    return lost[:1] * count if len(set(lost)) == 1 and not _is_cut(lost[0]) else None


def _moved(edit: Edit, number: int, regions: Sequence[int]) -> Edit:
    """Edit number `number` around the new messages of its region. Regions never fall from one message to the next."""
    start = sum(region < 2 * number + 1 for region in regions)
    stop = sum(region < 2 * number + 2 for region in regions)
    return replace(edit, start=start, stop=stop)
