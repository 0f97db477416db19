"""Collection: what no snapshot that stays needs is given back to the disk.

First one append that says which snapshots there are from now on (and how those are reached whose way led over one that
goes); then the packs, one by one. A pack without anything that is needed is unlinked. From others what is needed is
copied to a new pack, that is brought to the disk, and only then the old one is unlinked: killed anywhere, everything
needed is there at least once. The least to copy comes first, so that room is made before it is used; where there is
none at all, holes are punched into what isn't needed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import SnapshotDamaged, StorageFull, StoreError
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests, packs
from agentrewind.snapshots.attribution import joined
from agentrewind.snapshots.beneath import punch_hole, sync_directory
from agentrewind.snapshots.entry import SMALL, ZERO_ID
from agentrewind.snapshots.packs import FrameBuilder, ObjectDamaged, ObjectMissing
from agentrewind.snapshots.plain import NotPlain, open_plain
from agentrewind.snapshots.private import EMPTY
from agentrewind.snapshots.store import KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from agentrewind.snapshots.packs import Record
    from agentrewind.snapshots.store import Store

WORTH = 0.05
"""A pack is written anew where at least this share of it isn't needed."""
LEAST = 4096
"""Or so many bytes, whichever is more."""

_INDEX_DROPPED = named("store.gc-index-dropped")
_ROLLED = named("store.gc-rolled")
_COPIED = named("store.gc-copied")
_REMOVED = named("store.gc-removed")
_PUNCHED = named("store.gc-punched")
_DONE = named("store.gc-done")


@dataclass(frozen=True, slots=True)
class PackUse:
    """One pack: its bytes, how many of them are needed, and by which record numbers."""

    pack: int
    size: int
    needed: int
    records: tuple[int, ...]

    @property
    def unneeded(self) -> int:
        return self.size - self.needed

    @property
    def worth_it(self) -> bool:
        return self.needed == 0 or self.unneeded >= max(self.size * WORTH, LEAST)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a collection would do: `drop` goes, `keep` stays."""

    keep: tuple[SnapshotId, ...]
    drop: tuple[SnapshotId, ...]
    objects: frozenset[bytes] = field(repr=False)
    detached: tuple[SnapshotId, ...]
    """Of `keep`: those that must be described anew, their parent being gone or their manifest damaged."""
    packs: tuple[PackUse, ...]

    @property
    def before(self) -> int:
        return sum(use.size for use in self.packs)

    @property
    def frees(self) -> int:
        """About so many bytes: what is described anew isn't counted."""
        return sum(use.unneeded for use in self.packs if use.worth_it)

    @property
    def needs_work(self) -> bool:
        return bool(self.drop or self.detached or any(use.worth_it and use.unneeded for use in self.packs))


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did: bytes of the packs before and after."""

    before: int
    after: int
    removed: tuple[SnapshotId, ...] = ()
    waiting: int = 0
    """Bytes that would need more free room for a moment to be given back."""


def survey(store: Store, keep: Collection[SnapshotId], *, forget_damaged: bool = False) -> Survey:
    """Look at everything and touch nothing. `keep` names the snapshots that stay.

    Raises:
        StoreError: one of them can't be read, so nobody knows what it needs. With `forget_damaged` it goes as well.
    """
    store.forget_descriptions()
    stay = [name for name in store.names() if name in keep]
    marking = _Marking(store, stay)
    if marking.damaged and not forget_damaged:
        shown = "; ".join(marking.damaged.values())
        raise StoreError(
            f"{len(marking.damaged)} snapshots that are to stay can't be read: {shown[:600]} Nothing was removed."
            " `agentrewind store check` says more; `agentrewind store gc --forget-damaged` removes those as well."
        )
    if marking.damaged:
        stay = [name for name in stay if name not in marking.damaged]
        marking = _Marking(store, stay)
    there = set(stay)
    gone = tuple(name for name in store.names() if name not in there)
    return Survey(
        tuple(stay), gone, frozenset(marking.objects), tuple(marking.detached), tuple(_uses(store, marking, there))
    )


class _Marking:
    """Which objects the snapshots that stay need, and which of these snapshots hang on one that goes."""

    def __init__(self, store: Store, stay: list[SnapshotId]) -> None:
        self._store = store
        self._stay = set(stay)
        self._lists: set[bytes] = set()
        self.objects: set[bytes] = set()
        self.detached: list[SnapshotId] = []
        self.damaged: dict[SnapshotId, str] = {}
        for name in stay:
            try:
                self._mark(name)
            except SnapshotDamaged as error:
                self.damaged[name] = str(error)

    def _mark(self, name: SnapshotId) -> None:
        store = self._store
        parent = store.parent(name)
        attached = parent in self._stay and parent not in self.damaged
        try:
            step = store.step(name)
        except (ObjectDamaged, ValueError, KeyError):
            attached, sound = False, False
        else:
            sound = True
        entries: Iterable[bytes]
        if attached:
            entries = [new for _, _, new in step if new is not None]
        else:
            entries = store.state(name).values()
            if parent is not None or not sound:
                store.snapshot(name)
                self.detached.append(name)
        for data in entries:
            if data[1:2] == e.FILE:
                self._mark_file(name, data)

    def _mark_file(self, name: SnapshotId, data: bytes) -> None:
        content = e.content_of(data)
        self.objects.add(content)
        if e.size_of(data) > SMALL and content not in self._lists:
            self._lists.add(content)
            try:
                ids = self._store.get(content)
            except (ObjectDamaged, ObjectMissing) as error:
                raise SnapshotDamaged(f"Snapshot {name}: the list of the parts of a large file: {error}.") from error
            self.objects.update(ids[at : at + 32] for at in range(0, len(ids), 32))


def _uses(store: Store, marking: _Marking, stay: set[SnapshotId]) -> Iterable[PackUse]:
    catalogue, files = store.catalogue, store.pack_files
    needed: dict[int, int] = defaultdict(int)
    records: dict[int, list[int]] = defaultdict(list)
    as_they_are = stay - set(marking.detached)
    for number, kind, ids in catalogue.members():
        pack, offset = catalogue.packs[number], catalogue.offsets[number]
        try:
            record = files.record_at(pack, offset)
            if kind == packs.OBJECTS:
                share = _needed_of(store, record, ids, marking.objects)
            elif kind == packs.ROLL:
                share = record.size if number == catalogue.roll else 0
            else:
                share = record.size if any(SnapshotId(row[:16].hex()) in as_they_are for row in ids) else 0
        except ObjectDamaged:
            continue
        if share:
            needed[pack] += share
            records[pack].append(number)
    for pack in files.numbers():
        yield PackUse(pack, files.size(pack), needed[pack], tuple(records[pack]))


def _needed_of(store: Store, record: Record, ids: list[bytes], objects: set[bytes]) -> int:
    """Bytes of a frame that must stay; about, where it is needed in part."""
    wanted = {row for row in ids if row in objects and row not in (EMPTY, ZERO_ID)}
    if not wanted:
        return 0
    if len(wanted) == record.rows:
        return record.size
    try:
        rows = store.pack_files.table(record)
    except ObjectDamaged:
        return record.size
    whole = sum(row.size for row in rows) or 1
    return max(record.size * sum(row.size for row in rows if row.id in wanted) // whole, 1)


def collect(
    store: Store,
    found: Survey,
    *,
    room: Callable[[], int] | None = None,
    progress: Callable[[int, int | None], None] = lambda *_: None,
) -> Collected:
    """Remove what `found` says goes. `room` tells how many bytes the disk has left.

    Killed at any moment, every snapshot that stays is whole, and a second collection does the rest.

    Raises:
        StorageFull: there is no room even to begin. No snapshot was lost.
    """
    if not found.needs_work:
        return Collected(found.before, found.before)
    return _Collection(store, found, room or _room_of(store), progress).run()


def _room_of(store: Store) -> Callable[[], int]:
    def room() -> int:
        disk = os.statvfs(store.directory)
        return disk.f_bavail * disk.f_frsize

    return room


class _Collection:
    def __init__(
        self, store: Store, found: Survey, room: Callable[[], int], progress: Callable[[int, int | None], None]
    ) -> None:
        self._store = store
        self._files = store.pack_files
        self._found = found
        self._keep = frozenset(found.keep)
        self._room = room
        self._progress = progress
        self._members = list(store.catalogue.members())
        self._punched: dict[int, int] = defaultdict(int)
        """Pack to bytes given back without moving the rest."""

    def run(self) -> Collected:
        store = self._store
        store.drop_caches()
        reach(_INDEX_DROPPED)
        self._roll()
        waiting = self._sweep()
        self._forget_marks()
        store.take_over(store.catalogue.compacted(set(self._files.numbers())))
        store.save_index()
        reach(_DONE)
        after = sum(map(self._files.size, self._files.numbers())) - sum(self._punched.values())
        return Collected(self._found.before, after, self._found.drop, waiting)

    # The new order of things

    def _roll(self) -> None:
        """Say which snapshots there are from now on."""
        try:
            self._append_roll()
        except StorageFull:
            for use in self._found.packs:
                self._punch(use, only={packs.OBJECTS})
            self._append_roll()
        reach(_ROLLED)

    def _append_roll(self) -> None:
        found = self._found
        self._files.begin((self._files.numbers() or [0])[-1] + 1, 0)
        placed: list[tuple[int, tuple[int, int], list[bytes]]] = []
        try:
            for name in found.detached:
                for kind, data in zip((packs.MANIFEST, packs.COMMIT), self._described_anew(name), strict=True):
                    placed.append((kind, self._files.append(data), [bytes.fromhex(name).ljust(32, b"\0")]))
            self._finish(placed)
        except BaseException:
            self._files.abort()
            raise

    def _finish(self, placed: list[tuple[int, tuple[int, int], list[bytes]]]) -> None:
        """End an append with the list of all that stays; then it is on the disk, and the catalogue knows it."""
        found, catalogue = self._found, self._store.catalogue
        where = self._files.commit(self._store.roll_of(found.keep))
        for kind, place, ids in placed:
            catalogue.add(kind, *place, ids)
        catalogue.add(packs.ROLL, *where[0], [bytes.fromhex(name) for name in found.keep])
        pack, end = self._files.end
        catalogue.covered[pack] = end
        self._files.sync()

    def _described_anew(self, name: SnapshotId) -> tuple[bytes, bytes]:
        """Manifest and commit of a snapshot whose parent is now the nearest one that stays."""
        store = self._store
        state, snapshot = store.state(name), store.snapshot(name)
        merged, parent = self._interval(name)
        step = manifests.difference({} if parent is None else store.state(parent), state)
        told = replace(snapshot, parent=parent, changes=manifests.changes(step))
        return store.described(told, step, state, joined([store.details(item) for item in merged]))

    def _interval(self, name: SnapshotId) -> tuple[list[SnapshotId], SnapshotId | None]:
        """It and those before it that go, newest first: their intervals are one from now on; and the one before them,
        which stays.
        """
        merged, parent = {name: None}, self._store.parent(name)
        while parent is not None and parent not in self._keep and parent not in merged:
            merged[parent] = None
            parent = self._store.parent(parent)
        return list(merged), parent if parent in self._keep else None

    # The packs

    def _sweep(self) -> int:
        """Bytes that had to stay for want of room."""
        waiting = 0
        todo = sorted((use for use in self._found.packs if use.worth_it), key=lambda use: use.needed)
        for number, use in enumerate(todo, 1):
            if use.needed and not self._copied(use):
                self._punch(use, only={packs.OBJECTS, packs.MANIFEST, packs.COMMIT})
                waiting += max(use.unneeded - self._punched[use.pack], 0)
            else:
                self._remove(use.pack)
            self._progress(number, len(todo))
        return waiting

    def _copied(self, use: PackUse) -> bool:
        """Copy what is needed of a pack to the newest one; False where there is no room for it."""
        if self._room() < use.needed:
            return False
        newest = self._files.numbers()[-1]
        self._files.begin(newest, self._store.catalogue.covered[newest])
        try:
            self._finish(self._copy(use))
        except StorageFull:
            self._files.abort()
            return False
        except BaseException:
            self._files.abort()
            raise
        reach(_COPIED)
        return True

    def _copy(self, use: PackUse) -> list[tuple[int, tuple[int, int], list[bytes]]]:
        placed: list[tuple[int, tuple[int, int], list[bytes]]] = []
        frame = FrameBuilder()

        def flush() -> None:
            rows, content = frame.take()
            if rows:
                where = self._files.append(self._files.build(packs.OBJECTS, rows, content))
                placed.append((packs.OBJECTS, where, [row.id for row in rows]))

        for record, kind, ids in self._records(use):
            part = self._part(record, kind, ids)
            if part is None:
                placed.append((kind, self._files.append(self._files.raw(record)), ids))
                continue
            for row, content in part:
                if frame.add(row, content):
                    flush()
        flush()
        return placed

    def _part(self, record: Record, kind: int, ids: list[bytes]) -> list[tuple[packs.Row, bytes]] | None:
        """What is needed of a frame; None where that is all of it, or it can't be taken apart."""
        needed = {name for name in ids if name in self._found.objects}
        if kind != packs.OBJECTS or len(needed) == record.rows:
            return None
        try:
            rows, body = self._files.table(record), self._files.body(record)
        except ObjectDamaged:
            return None
        part, at = [], record.content_at
        for row in rows:
            if row.id in needed:
                part.append((row, body[at : at + row.size]))
            at += row.size
        return part

    def _records(self, use: PackUse) -> list[tuple[Record, int, list[bytes]]]:
        """The records of a pack that hold something needed, with the ids that are found there."""
        catalogue = self._store.catalogue
        wanted = set(use.records)
        found = []
        for number, kind, ids in self._members:
            if number in wanted and kind != packs.ROLL:
                record = self._files.record_at(catalogue.packs[number], catalogue.offsets[number])
                found.append((record, kind, ids))
        return found

    def _remove(self, pack: int) -> None:
        self._punched.pop(pack, None)
        self._files.path(pack).unlink(missing_ok=True)
        sync_directory(self._files.path(pack).parent)
        self._files.forget(pack)
        self._store.catalogue.covered.pop(pack, None)
        reach(_REMOVED)

    def _punch(self, use: PackUse, *, only: set[int]) -> None:
        """Give back what of a pack isn't needed without moving the rest, where that is possible."""
        try:
            fd = open_plain(self._files.path(use.pack), os.O_RDWR)
        except (FileNotFoundError, NotPlain):
            return
        try:
            before = os.fstat(fd).st_blocks
            for start, end in self._gaps(use, only):
                if not punch_hole(fd, start, end - start):
                    break
            self._punched[use.pack] += (before - os.fstat(fd).st_blocks) * 512
        finally:
            os.close(fd)
        self._forget_punched(use)
        reach(_PUNCHED)

    def _gaps(self, use: PackUse, only: set[int]) -> list[tuple[int, int]]:
        """Where records stand that nothing needs, neighbours as one.

        The last record that ends an append stays: without it what is before it would pass for a torn tail.
        """
        catalogue = self._store.catalogue
        stay = set(use.records)
        found: list[tuple[Record, bool]] = []
        for number, _, _ in self._members:
            if catalogue.packs[number] == use.pack:
                try:
                    record = self._files.record_at(use.pack, catalogue.offsets[number])
                except ObjectDamaged:
                    continue
                found.append((record, number not in stay and record.kind in only))
        last = max((record.offset for record, _ in found if record.kind in (packs.COMMIT, packs.ROLL)), default=-1)
        gaps: list[tuple[int, int]] = []
        for record, free in sorted(found, key=lambda item: item[0].offset):
            if not free or record.offset == last:
                continue
            if gaps and gaps[-1][1] == record.offset:
                gaps[-1] = gaps[-1][0], record.end
            else:
                gaps.append((record.offset, record.end))
        return gaps

    def _forget_punched(self, use: PackUse) -> None:
        """Nothing may be taken for stored that isn't any longer."""
        catalogue = self._store.catalogue
        stay = set(use.records)
        for name, number in list(catalogue.objects.pairs()):
            if number >= 0 and catalogue.packs[number] == use.pack and number not in stay:
                del catalogue.objects[name]

    def _forget_marks(self) -> None:
        for name in self._store.kept() - self._keep:
            (self._store.directory / KEPT / name).unlink(missing_ok=True)
