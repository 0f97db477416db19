"""Where everything in a store lies: a cache that can always be rebuilt from the packs."""

from __future__ import annotations

import secrets
import sys
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrewind.core.world import SnapshotId
from agentrewind.snapshots import packs
from agentrewind.snapshots.places import Places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PENDING = -1
"""In the place of a record number: not written yet."""
ID_BYTES = 16


@dataclass(slots=True)
class Catalogue:
    """What the packs say."""

    packs: array[int] = field(default_factory=lambda: array("I"))
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    objects: Places = field(default_factory=Places)
    """Object id to record number."""
    states: dict[SnapshotId, int] = field(default_factory=dict)
    commits: dict[SnapshotId, int] = field(default_factory=dict)
    covered: dict[int, int] = field(default_factory=dict)
    """Pack number to the byte up to which its records are here."""

    roll: int = -1
    """Record number of the last complete list of snapshots."""

    def add(self, kind: int, pack: int, offset: int, ids: Iterable[bytes]) -> int:
        number = len(self.packs)
        self.packs.append(pack)
        self.offsets.append(offset)
        if kind == packs.ROLL:
            self._take_roll(number, [name_of(item) for item in ids])
            return number
        for item in ids:
            if kind == packs.OBJECTS:
                self.objects[item] = number
            else:
                (self.states if kind == packs.MANIFEST else self.commits)[name_of(item)] = number
        return number

    def _take_roll(self, number: int, names: list[SnapshotId]) -> None:
        """From here on there are those, in that order, and what comes later."""
        self.roll = number
        self.states = {name: self.states[name] for name in names if name in self.states}
        self.commits = {name: self.commits[name] for name in names if name in self.commits}

    def compacted(self, there: set[int]) -> Catalogue:
        """Only what lies in the packs that are still there, numbered anew."""
        fresh = Catalogue(covered={pack: end for pack, end in self.covered.items() if pack in there})
        for number, kind, ids in self.members():
            if (ids or number == self.roll) and self.packs[number] in there:
                names = [id_of(name) for name in self.states] if number == self.roll else ids
                fresh.add(kind, self.packs[number], self.offsets[number], names)
        fresh.objects.settle()
        return fresh

    def members(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """Number, kind and ids of each record; without those that were superseded."""
        ids: list[list[bytes]] = [[] for _ in self.packs]
        kinds = bytearray([packs.OBJECTS]) * len(ids)
        for item, number in self.objects.pairs():
            if number != PENDING:
                ids[number].append(item)
        for kind, names in ((packs.MANIFEST, self.states), (packs.COMMIT, self.commits)):
            for name, number in names.items():
                ids[number].append(id_of(name))
                kinds[number] = kind
        if self.roll >= 0:
            kinds[self.roll] = packs.ROLL
        for number, own in enumerate(ids):
            yield number, kinds[number], own


def name_of(row_id: bytes) -> SnapshotId:
    """One text for each snapshot, however many tables name it."""
    return SnapshotId(sys.intern(row_id[:ID_BYTES].hex()))


def id_of(snapshot: SnapshotId) -> bytes:
    return bytes.fromhex(snapshot).ljust(32, b"\0")


def new_id() -> SnapshotId:
    return SnapshotId(sys.intern(secrets.token_hex(ID_BYTES)))
