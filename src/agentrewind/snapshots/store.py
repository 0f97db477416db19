"""The snapshot store: objects, states and commits in packs, with a catalogue that can always be rebuilt from them."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentrewind.core.codec import canonical, from_plain, to_plain
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import SnapshotDamaged, SnapshotNotFound, StorageFull, StoreError, UsageError
from agentrewind.core.world import Changes, Snapshot, SnapshotId
from agentrewind.snapshots import manifests, packs
from agentrewind.snapshots.beneath import sync_directory
from agentrewind.snapshots.manifests import Delta, Manifest
from agentrewind.snapshots.packs import FrameBuilder, ObjectDamaged, ObjectMissing, PackFiles, Record, Row
from agentrewind.snapshots.private import Keys, Unsealable, make_key, read_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

FORMAT = b"agentrewind snapshot store 1\n"
KEY_EVERY = 64
_MANIFESTS_CACHED = 3
_INDEX_MAGIC = b"ARindex1"
_INDEX_RECORD = struct.Struct("<IQBH")
_EMPTY = hashlib.sha256(b"").digest()
_ID_BYTES = 16
_PENDING = -1

_OBJECTS_APPENDED = named("snapshot.objects-appended")
_INDEX_WRITTEN = named("snapshot.index-written")


@dataclass(slots=True)
class Catalogue:
    """Where everything lies: a cache of what the packs say."""

    packs: array[int] = field(default_factory=lambda: array("I"))
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    objects: dict[bytes, int] = field(default_factory=dict)
    """Object id to record number."""
    states: dict[SnapshotId, int] = field(default_factory=dict)
    commits: dict[SnapshotId, int] = field(default_factory=dict)
    covered: dict[int, int] = field(default_factory=dict)
    """Pack number to the byte up to which its records are here."""

    def add(self, kind: int, pack: int, offset: int, ids: Iterable[bytes]) -> int:
        number = len(self.packs)
        self.packs.append(pack)
        self.offsets.append(offset)
        for item in ids:
            if kind == packs.OBJECTS:
                self.objects[item] = number
            else:
                (self.states if kind == packs.MANIFEST else self.commits)[_name(item)] = number
        return number


def _name(row_id: bytes) -> SnapshotId:
    return SnapshotId(row_id[:_ID_BYTES].hex())


def _row(snapshot: SnapshotId, size: int) -> Row:
    return Row(bytes.fromhex(snapshot).ljust(32, b"\0"), size, 0)


class Store:
    """One workspace's snapshots. A single writer (the lease's holder); any number of readers."""

    def __init__(self, directory: Path, *, writable: bool, write: Callable[[int, bytes], int] = os.write) -> None:
        self.directory = directory
        self.writable = writable
        self._packs = PackFiles(directory / "packs", write=write)
        self.keys = self._open_keys()
        self._catalogue = Catalogue()
        self._indexed = 0
        self._frame = FrameBuilder()
        self._fresh: list[bytes] = []
        self._placed: list[tuple[int, int, list[bytes]]] = []
        self._states: OrderedDict[SnapshotId, Manifest] = OrderedDict()
        self._tables: OrderedDict[int, dict[bytes, tuple[int, Row]]] = OrderedDict()
        self._load_index()
        self.refresh()

    @classmethod
    def open(cls, directory: Path, *, writable: bool, write: Callable[[int, bytes], int] = os.write) -> Store:
        """Open the store, making a new one where there is none and `writable`.

        Raises:
            UsageError: no store there (read-only), or it is of another kind or a newer version.
            StorageFull: no room to make one.
        """
        mark = directory / "format"
        if not mark.exists():
            if not writable:
                raise UsageError(f"{directory}: no snapshot store there; nothing has been saved for this workspace yet")
            _make(directory)
        if (found := mark.read_bytes()) != FORMAT:
            raise UsageError(f"{directory}: not a snapshot store that this version reads (it says {found[:60]!r})")
        try:
            if writable:
                for left in directory.glob("*.new"):  # a process was killed while it wrote one
                    left.unlink()
            return cls(directory, writable=writable, write=write)
        except OSError as error:
            raise StoreError(f"{directory}: the snapshot store can't be opened: {error.strerror}") from error

    def _open_keys(self) -> Keys:
        path = self.directory / "key"
        key = read_key(path)
        if key is None:
            key = make_key(path) if self.writable else secrets.token_bytes(32)
        return Keys(key)

    # The catalogue

    def refresh(self) -> None:
        """Take in what was appended since, by this process or another."""
        catalogue = self._catalogue
        open_groups: list[tuple[int, list[tuple[Record, list[Row]]]]] = []
        for pack in self._packs.numbers():
            start = catalogue.covered.get(pack, 0)
            group: list[tuple[Record, list[Row]]] = []
            for record, rows, sound in self._packs.scan(pack, start):
                if sound or record.kind == packs.MANIFEST:
                    group.append((record, rows))
                if record.kind == packs.COMMIT:
                    self._take_in(group)
                    group = []
                    catalogue.covered[pack] = record.end
            if group:
                open_groups.append((pack, group))
        self._take_in_referenced(open_groups)

    def _take_in(self, group: list[tuple[Record, list[Row]]]) -> None:
        for record, rows in group:
            self._catalogue.add(record.kind, record.pack, record.offset, [row.id for row in rows])

    def _take_in_referenced(self, open_groups: list[tuple[int, list[tuple[Record, list[Row]]]]]) -> None:
        """An append without its commit is dropped, unless a later snapshot builds on it: then only the commit record
        is what was damaged.
        """
        if not open_groups:
            return
        parents = {self._description(name).get("parent") for name in self._catalogue.states}
        for pack, group in open_groups:
            names = {_name(row.id) for record, rows in group if record.kind == packs.MANIFEST for row in rows}
            if names & parents:
                self._take_in(group)
                self._catalogue.covered[pack] = group[-1][0].end

    def _load_index(self) -> None:
        """Read the index file, unless it is damaged or says more than the packs hold: then the packs are read."""
        try:
            data = (self.directory / "index").read_bytes()
        except FileNotFoundError:
            return
        body, checksum = data[:-32], data[-32:]
        if hashlib.sha256(body).digest() != checksum or not body.startswith(_INDEX_MAGIC):
            return
        head, _, raw = body[len(_INDEX_MAGIC) :].partition(b"\n")
        covered = {int(pack): end for pack, end in json.loads(head).items()}
        if any(self._packs.size(pack) < end for pack, end in covered.items()):
            return
        self._catalogue.covered = covered
        at = 0
        while at < len(raw):
            pack, offset, kind, rows = _INDEX_RECORD.unpack_from(raw, at)
            at += _INDEX_RECORD.size
            end = at + 32 * rows
            self._catalogue.add(kind, pack, offset, [raw[i : i + 32] for i in range(at, end, 32)])
            at = end
        self._indexed = len(self._catalogue.packs)

    def save_index(self) -> None:
        """Write the index file, so that the next opening need not read the packs. What it covers is synced first."""
        if not self.writable or self._indexed == len(self._catalogue.packs):
            return
        self.sync()
        body = _INDEX_MAGIC + canonical({str(pack): end for pack, end in self._catalogue.covered.items()}) + b"\n"
        body += b"".join(self._index_records())
        write_whole(self.directory / "index", body + hashlib.sha256(body).digest())
        self._indexed = len(self._catalogue.packs)
        reach(_INDEX_WRITTEN)

    def _index_records(self) -> Iterable[bytes]:
        catalogue = self._catalogue
        ids: list[list[bytes]] = [[] for _ in catalogue.packs]
        kinds = bytearray([packs.OBJECTS]) * len(ids)
        for item, number in catalogue.objects.items():
            ids[number].append(item)
        for kind, names in ((packs.MANIFEST, catalogue.states), (packs.COMMIT, catalogue.commits)):
            for name, number in names.items():
                ids[number].append(_row(name, 0).id)
                kinds[number] = kind
        for number, members in enumerate(ids):
            place = catalogue.packs[number], catalogue.offsets[number]
            yield _INDEX_RECORD.pack(*place, kinds[number], len(members)) + b"".join(members)

    # Objects

    def put(self, data: bytes, *, private: bool = False) -> bytes:
        """Keep `data` as part of the append in progress; its id."""
        if not data:
            return _EMPTY
        name = self.keys.id(data) if private else hashlib.sha256(data).digest()
        if name not in self._catalogue.objects:
            content = self.keys.seal(data) if private else data
            self._catalogue.objects[name] = _PENDING
            self._fresh.append(name)
            if self._frame.add(Row(name, len(content), packs.SEALED if private else 0), content):
                self._flush_frame()
        return name

    def _flush_frame(self) -> None:
        if self._frame.rows:
            rows, content = self._frame.take()
            pack, offset = self._packs.append(packs.build(packs.OBJECTS, rows, content))
            self._placed.append((pack, offset, [row.id for row in rows]))

    def get(self, name: bytes) -> bytes:
        """The object's bytes, unsealed, after comparing them with their id.

        Raises:
            ObjectMissing, ObjectDamaged.
        """
        if name == _EMPTY:
            return b""
        number = self._catalogue.objects.get(name)
        if number is None or number == _PENDING:
            raise ObjectMissing(f"object {name.hex()[:16]} is not in the store")
        try:
            return self._read(number, name)
        except ObjectDamaged:
            del self._catalogue.objects[name]  # so that it is stored again, should its content be seen again
            raise

    def _read(self, number: int, name: bytes) -> bytes:
        record, table = self._table(number)
        if name not in table:
            raise ObjectDamaged(f"object {name.hex()[:16]} is not where the index says")
        start, row = table[name]
        data = self._packs.body(record)[start : start + row.size]
        try:
            plain = self.keys.unseal(data) if row.flags & packs.SEALED else data
        except Unsealable as error:
            raise ObjectDamaged(str(error)) from error
        expected = self.keys.id(plain) if row.flags & packs.SEALED else hashlib.sha256(plain).digest()
        if expected != name:
            raise ObjectDamaged(f"object {name.hex()[:16]} has other bytes than its id says")
        return plain

    def _table(self, number: int) -> tuple[Record, dict[bytes, tuple[int, Row]]]:
        place = self._catalogue.packs[number], self._catalogue.offsets[number]
        record = self._packs.record_at(*place)
        table = self._tables.get(number)
        if table is None:
            table, at = {}, 0
            for row in self._packs.table(record):
                table[row.id] = (at, row)
                at += row.size
            self._tables[number] = table
            if len(self._tables) > 64:  # noqa: PLR2004
                self._tables.popitem(last=False)
        return record, table

    def place(self, name: bytes) -> int:
        """A number that grows with the object's place in the packs, to read in order."""
        return self._catalogue.objects.get(name, 0)

    # Appending

    def begin(self) -> None:
        """Start an append. Everything `put` until `commit` becomes durable with it, or not at all.

        A pack that ends in something else than a commit was cut off: it is left as it is, and the next one begun.
        """
        numbers = self._packs.numbers()
        last = numbers[-1] if numbers else 1
        end = self._packs.size(last)
        if self._catalogue.covered.get(last, 0) == end:
            self._packs.begin(last, end)
        else:
            self._packs.begin(last + 1, 0)

    def abort(self) -> None:
        """Forget the append in progress; what was there before is as it was."""
        for name in self._fresh:
            self._catalogue.objects.pop(name, None)
        self._frame = FrameBuilder()
        self._end_of_append()
        self._packs.abort()

    def _end_of_append(self) -> None:
        self._fresh.clear()
        self._placed.clear()

    def commit(self, snapshot: Snapshot, delta: Delta, state: Manifest, rules: str) -> None:
        """Make `snapshot` durable together with all that was `put`: the commit record comes last in the write.

        Raises:
            StorageFull: call `abort`.
        """
        description = {**self._describe(snapshot, delta, state), "rules": rules}
        keep_whole = description["whole"]
        self._flush_frame()
        reach(_OBJECTS_APPENDED)
        head = canonical({key: value for key, value in description.items() if key not in ("coverage", "changes")})
        step = [] if snapshot.parent is None else delta
        body = manifests.encode(head, step, state if keep_whole else None)
        rows = [_row(snapshot.id, 0)]
        places = self._packs.commit(
            packs.build(packs.MANIFEST, rows, body), packs.build(packs.COMMIT, rows, canonical(description))
        )
        for pack, offset, ids in self._placed:
            self._catalogue.add(packs.OBJECTS, pack, offset, ids)
        for kind, place in zip((packs.MANIFEST, packs.COMMIT), places, strict=True):
            self._catalogue.add(kind, *place, [rows[0].id])
        pack, end = self._packs.end
        self._catalogue.covered[pack] = end
        self._end_of_append()
        self._remember(snapshot.id, state)

    def _describe(self, snapshot: Snapshot, delta: Delta, state: Manifest) -> dict[str, Any]:
        before = {} if snapshot.parent is None else self._description(snapshot.parent)
        since = int(before.get("since_whole", 0)) + len(delta)
        depth = int(before.get("depth", 0)) + 1
        whole = snapshot.parent is None or depth >= KEY_EVERY or since > len(state) // 4
        return {
            **to_plain(snapshot),
            "whole": whole,
            "depth": 0 if whole else depth,
            "since_whole": 0 if whole else since,
        }

    def sync(self) -> None:
        """Return once everything committed so far would survive a power loss."""
        self._packs.sync()

    def close(self) -> None:
        self._packs.close()

    # Snapshots

    def names(self) -> list[SnapshotId]:
        """All snapshots, oldest first."""
        return list(self._catalogue.states)

    def resolve(self, prefix: str) -> SnapshotId:
        """The one snapshot whose id is or begins with `prefix`.

        Raises:
            SnapshotNotFound: none, or several.
        """
        if (exact := SnapshotId(prefix)) in self._catalogue.states:
            return exact
        found = [name for name in self._catalogue.states if prefix and name.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if found:
            raise SnapshotNotFound(f"{prefix!r} is the beginning of {len(found)} snapshots; give more of the id")
        raise SnapshotNotFound(f"No snapshot {prefix!r} in {self.directory}. Nothing was touched.")

    def snapshot(self, name: SnapshotId) -> Snapshot:
        """Raises: SnapshotDamaged: neither its commit nor its manifest can be read."""
        plain = self._description(name)
        if not plain:
            raise SnapshotDamaged(f"Snapshot {name}: its manifest is damaged. Other snapshots are unaffected.")
        if "coverage" not in plain:
            state = self.state(name)
            totals = manifests.Totals().moved([(path, None, data) for path, data in state.items()])
            plain = {**plain, "coverage": to_plain(manifests.coverage(state, totals)), "changes": to_plain(Changes())}
        return from_plain(Snapshot, plain)

    def rules(self, name: SnapshotId) -> str:
        """The digest of the path rules under which a snapshot was taken."""
        return str(self._description(name).get("rules", ""))

    def _description(self, name: SnapshotId) -> dict[str, Any]:
        """What the commit record says, or else the manifest's head; empty where both are damaged."""
        try:
            if (commit := self._catalogue.commits.get(name)) is not None:
                return self._json(self._body(commit))
        except (ObjectDamaged, ValueError):
            pass
        try:
            return self._json(manifests.head_of(self._body(self._catalogue.states[name])))
        except (ObjectDamaged, ValueError):
            return {}

    @staticmethod
    def _json(data: bytes) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(data)
        return plain

    def _body(self, number: int) -> bytes:
        record = self._packs.record_at(self._catalogue.packs[number], self._catalogue.offsets[number])
        self._packs.table(record)
        return self._packs.body(record)

    def state(self, name: SnapshotId) -> Manifest:
        """The manifest of a snapshot; not to be changed.

        Raises:
            SnapshotDamaged: no undamaged way leads to it.
        """
        if (known := self._states.get(name)) is not None:
            self._states.move_to_end(name)
            return known
        state = self._walk(name)
        self._remember(name, state)
        return state

    def _remember(self, name: SnapshotId, state: Manifest) -> None:
        self._states[name] = state
        while len(self._states) > _MANIFESTS_CACHED:
            self._states.popitem(last=False)

    def _walk(self, name: SnapshotId) -> Manifest:
        """Forward from the last whole state before it; where that way is damaged, whichever way is not."""
        way: list[tuple[SnapshotId, bool]] = []
        at: SnapshotId | None = name
        try:
            while at is not None:
                if (whole := self._whole(at)) is not None:
                    return self._follow(whole, way)
                way.insert(0, (at, False))
                at = self._parent(at)
        except (ObjectDamaged, ValueError, KeyError):
            pass
        return self._walk_around(name)

    def _whole(self, name: SnapshotId) -> Manifest | None:
        """The state that a manifest holds as a whole, if it does. Raises: ObjectDamaged, ValueError, KeyError."""
        body = self._body(self._catalogue.states[name])
        return manifests.full_of(body) if self._json(manifests.head_of(body)).get("whole") else None

    def _parent(self, name: SnapshotId) -> SnapshotId | None:
        parent = self._description(name).get("parent")
        return None if parent is None else SnapshotId(parent)

    def _delta(self, name: SnapshotId) -> Delta:
        return manifests.delta_of(self._body(self._catalogue.states[name]))

    def _walk_around(self, name: SnapshotId) -> Manifest:
        """Along any undamaged steps, in both directions, from any whole state."""
        neighbours: dict[SnapshotId, list[tuple[SnapshotId, SnapshotId]]] = {}
        for step in self._catalogue.states:
            parent = self._parent(step)
            if parent is not None:
                neighbours.setdefault(parent, []).append((step, step))
                neighbours.setdefault(step, []).append((parent, step))
        seen: set[SnapshotId] = {name}
        ways: list[tuple[SnapshotId, list[tuple[SnapshotId, bool]]]] = [(name, [])]
        while ways:
            at, way = ways.pop(0)
            try:
                if (whole := self._whole(at)) is not None:
                    return self._follow(whole, way)
            except (ObjectDamaged, ValueError, KeyError):
                pass
            for other, step in neighbours.get(at, []):
                if other not in seen and self._readable(step):
                    seen.add(other)
                    ways.append((other, [(step, other == step), *way]))
        raise SnapshotDamaged(
            f"Snapshot {name}: its manifest is damaged and no other way leads to it. Nothing was touched; snapshots"
            " that don't build on it are unaffected."
        )

    def _readable(self, step: SnapshotId) -> bool:
        try:
            self._delta(step)
        except (ObjectDamaged, ValueError, KeyError):
            return False
        return True

    def _follow(self, state: Manifest, way: list[tuple[SnapshotId, bool]]) -> Manifest:
        for step, backwards in way:
            manifests.apply(state, self._delta(step), backwards=backwards)
        return state


def new_id() -> SnapshotId:
    return SnapshotId(secrets.token_hex(_ID_BYTES))


def _make(directory: Path) -> None:
    try:
        (directory / "packs").mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        write_whole(directory / "format", FORMAT)
    except OSError as error:
        if error.errno in packs.FULL:
            raise StorageFull(f"{directory}: no room to make a snapshot store. Nothing was touched.") from error
        raise StoreError(f"{directory}: can't make a snapshot store there: {error.strerror}") from error


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a small file so that it is there whole or as it was before; `durable` survives a power loss."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)
