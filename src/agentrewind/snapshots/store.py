"""The snapshot store: objects, states and commits in packs, with a catalogue that can always be rebuilt from them."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

from agentrewind.core.codec import canonical, from_plain, to_plain
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import SnapshotDamaged, SnapshotNotFound, StoreError
from agentrewind.core.world import RUN, Changes, Coverage, Snapshot, SnapshotId
from agentrewind.snapshots import manifests, packs
from agentrewind.snapshots.beneath import DIRECTORY
from agentrewind.snapshots.budget import Budget, Limits
from agentrewind.snapshots.catalogue import ID_BYTES, PENDING, Catalogue, id_of, name_of
from agentrewind.snapshots.flushing import Flusher
from agentrewind.snapshots.founding import clear_half_written, make, mend_format, opened_vault
from agentrewind.snapshots.heap import give_back
from agentrewind.snapshots.locking import StoreLock
from agentrewind.snapshots.manifests import Delta, Manifest
from agentrewind.snapshots.packs import FrameBuilder, ObjectDamaged, ObjectMissing, PackFiles, PackGone, Record, Row
from agentrewind.snapshots.pipeline import Pipeline
from agentrewind.snapshots.plain import NotPlain, read_plain, write_whole
from agentrewind.snapshots.private import EMPTY, Keys, make_key, read_key
from agentrewind.snapshots.sealing import Unsealable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from agentrewind.snapshots.encryption import Encryption, Vault

SCAN_CACHE = "scan-cache"
KEY_EVERY = 64
KEPT = "kept"
"""Directory of marks: snapshots of runs that somebody saved by hand as well."""
WORKERS, CARRIED = "workers", "carried"
"""What a description says besides: who was at work before the snapshot; which other one holds what it took over."""
_MANIFESTS_CACHED = 3
_DESCRIPTIONS_CACHED = 16
_LARGE = 20_000
"""Entries of a state whose encoding takes so much memory that it is worth some milliseconds to give it back."""
_INDEX_MAGIC = b"ARindex1"
_INDEX_RECORD = struct.Struct("<IQBH")
_MOST_INDEX = 1 << 32
_RETRIES = 3
_OBJECTS_APPENDED = named("snapshot.objects-appended")
_INDEX_WRITTEN = named("snapshot.index-written")


class Store:
    """One workspace's snapshots. A single writer (the lease's holder); any number of readers."""

    def __init__(
        self,
        directory: Path,
        *,
        write: Callable[[int, bytes], int] = os.write,
        lock: StoreLock | None = None,
        vault: Vault | None = None,
        budget: Budget | None = None,
        background: bool = False,
        by: str = "",
    ) -> None:
        self.directory = directory
        self.writable = lock is not None
        self.by = by
        """On whose behalf snapshots are made."""
        self.marks: dict[str, Any] = {}
        """What the description of the next snapshots says besides."""
        self.vault = vault
        self._lock = lock
        self._budget = budget or Budget(directory / "packs", Limits(min_free=0))
        self.pack_files = self._packs = PackFiles(
            directory / "packs", write=write, admit=self._budget.admit, vault=vault, background=background
        )
        self._names = Flusher()
        self.keys = self._open_keys()
        self._catalogue = Catalogue()
        self._indexed = 0
        self._frame = FrameBuilder()
        self._pipeline = Pipeline(partial(self._packs.build, packs.OBJECTS))
        self._appending = False
        self._fresh: list[bytes] = []
        self._placed: list[tuple[int, int, list[bytes]]] = []
        self._states: OrderedDict[SnapshotId, Manifest] = OrderedDict()
        self._descriptions: OrderedDict[SnapshotId, dict[str, Any]] = OrderedDict()
        self._tables: OrderedDict[int, dict[bytes, tuple[int, Row]]] = OrderedDict()
        self._looked_after: set[SnapshotId] = set()
        self._load_index()
        self.refresh()

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        writable: bool,
        write: Callable[[int, bytes], int] = os.write,
        root: Path | None = None,
        holder: str = "",
        limits: Limits | None = None,
        warn: Callable[[str], None] | None = None,
        encryption: Encryption | None = None,
        background: bool = False,
    ) -> Store:
        """Open the store, making a new one where there is none and `writable`; encrypted, if there is `encryption`.

        `root` and `holder` say for which workspace and on whose behalf. `limits` bound its growth, `warn` is told when
        they come near. `background` brings appends to the disk without being waited for.

        Raises:
            UsageError: no store there (read-only), or it is of another kind or a newer version, or the key is wrong.
            Busy: another process writes it.
            StorageFull: no room to make one.
            StoreError: what stands in its place can't be used.
        """
        if writable and not os.path.lexists(directory / "format"):
            make(directory, encryption)
        vault = opened_vault(directory, encryption)
        lock = None
        try:
            if writable:
                (directory / "packs").mkdir(mode=0o700, exist_ok=True)
                lock = StoreLock.take(directory, holder, root)
                clear_half_written(directory)
                mend_format(directory)
            budget = Budget(directory / "packs", limits or Limits(), warn)
            return cls(directory, write=write, lock=lock, vault=vault, budget=budget, background=background, by=holder)
        except BaseException as error:
            if lock is not None:
                lock.release()
            if isinstance(error, OSError):
                raise StoreError(f"{directory}: the snapshot store can't be opened: {error.strerror}") from error
            raise

    def _open_keys(self) -> Keys:
        path = self.directory / "key"
        key = read_key(path)
        if key is None and self.writable:
            if self._holds_sealed():
                self.read_anew()
                self._budget.say(
                    f"The key {path} is lost or damaged: private files of the snapshots before now can't be read from"
                    " the store any more. From now on they are saved under a new key. If you have a copy of the old"
                    " one, put it back before anything else is saved."
                )
            key = make_key(path)
        elif key is None:
            key = secrets.token_bytes(32)
        return Keys(key, None if self.vault is None else self.vault.ids)

    def _holds_sealed(self) -> bool:
        """Whether private contents are kept, of which only the key knows what they are."""
        return any(
            row.flags & packs.SEALED
            for pack in self._packs.numbers()
            for record, rows, _ in self._packs.scan(pack, 0)
            if record.kind == packs.OBJECTS
            for row in rows
        )

    def read_anew(self) -> None:
        """Have everything in the workspace read by the next look, also after a crash."""
        (self.directory / SCAN_CACHE).unlink(missing_ok=True)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know about its room."""
        return tuple(self._budget.warnings)

    @property
    def catalogue(self) -> Catalogue:
        """Where everything lies."""
        return self._catalogue

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
                if record.kind in (packs.COMMIT, packs.ROLL):
                    self._take_in(group)
                    group = []
                    catalogue.covered[pack] = record.end
            if group:
                open_groups.append((pack, group))
        self._take_in_referenced(open_groups)
        catalogue.objects.settle()

    def _take_in(self, group: list[tuple[Record, list[Row]]]) -> None:
        for record, rows in group:
            try:
                ids = self._rolled(record) if record.kind == packs.ROLL else [row.id for row in rows]
            except ObjectDamaged:  # then those that it leaves out are there again, and damaged
                continue
            self._catalogue.add(record.kind, record.pack, record.offset, ids)

    def _rolled(self, record: Record) -> list[bytes]:
        body = self._packs.body(record)
        return [body[at : at + ID_BYTES] for at in range(record.content_at, len(body), ID_BYTES)]

    def roll_of(self, names: Iterable[SnapshotId]) -> bytes:
        """The record that says: those are the snapshots, in that order."""
        return self._packs.build(packs.ROLL, [], b"".join(map(bytes.fromhex, names)))

    def take_over(self, catalogue: Catalogue) -> None:
        """Go on with another catalogue of the same packs."""
        self._catalogue = catalogue
        self._indexed = -1
        self._descriptions.clear()
        self._tables.clear()
        for name in [name for name in self._states if name not in catalogue.states]:
            del self._states[name]

    def _reload(self) -> None:
        """Read the packs anew: a collection has moved what was in them."""
        self._packs.close()
        self.take_over(Catalogue())
        self._load_index()
        self.refresh()

    def _take_in_referenced(self, open_groups: list[tuple[int, list[tuple[Record, list[Row]]]]]) -> None:
        """An append without its commit is dropped, unless a later snapshot builds on it: then only the commit record
        is what was damaged.
        """
        if not open_groups:
            return
        parents = {self._description(name).get("parent") for name in self._catalogue.states}
        for pack, group in open_groups:
            names = {name_of(row.id) for record, rows in group if record.kind == packs.MANIFEST for row in rows}
            if names & parents:
                self._take_in(group)
                self._catalogue.covered[pack] = group[-1][0].end

    def _load_index(self) -> None:
        """Read the index file, unless it is damaged or says more than the packs hold: then the packs are read."""
        try:
            data = read_plain(self.directory / "index", _MOST_INDEX)
            body, checksum = data[:-32], data[-32:]
            if hashlib.sha256(body).digest() == checksum and body.startswith(_INDEX_MAGIC):
                self._take_index(body)
        except FileNotFoundError:
            pass
        except (NotPlain, ValueError, TypeError, KeyError, AttributeError, struct.error, ObjectDamaged):
            self._catalogue, self._indexed = Catalogue(), 0

    def _take_index(self, body: bytes) -> None:
        """Raises: ValueError, struct.error and so on: it isn't an index of these packs."""
        head, _, raw = body[len(_INDEX_MAGIC) :].partition(b"\n")
        covered = {int(pack): int(end) for pack, (end, _) in json.loads(head).items()}
        tails = {int(pack): tail for pack, (_, tail) in json.loads(head).items()}
        if any(
            self._packs.size(pack) < end or self._packs.tail(pack, end) != tails[pack] for pack, end in covered.items()
        ):
            return
        self._catalogue.covered = covered
        at = 0
        while at < len(raw):
            pack, offset, kind, rows = _INDEX_RECORD.unpack_from(raw, at)
            at += _INDEX_RECORD.size
            end = at + 32 * rows
            ids = [raw[i : i + 32] for i in range(at, end, 32)]
            if kind == packs.ROLL:
                ids = self._rolled(self._packs.record_at(pack, offset))
            self._catalogue.add(kind, pack, offset, ids)
            at = end
        self._indexed = len(self._catalogue.packs)

    def save_index(self) -> None:
        """Write the index file, so that the next opening need not read the packs. What it covers is synced first."""
        if not self.writable or self._indexed == len(self._catalogue.packs):
            return
        self.sync()
        covered = {str(pack): (end, self._packs.tail(pack, end)) for pack, end in self._catalogue.covered.items()}
        body = _INDEX_MAGIC + canonical(covered) + b"\n"
        body += b"".join(self._index_records())
        write_whole(self.directory / "index", body + hashlib.sha256(body).digest())
        self._indexed = len(self._catalogue.packs)
        reach(_INDEX_WRITTEN)

    def _index_records(self) -> Iterable[bytes]:
        catalogue = self._catalogue
        for number, kind, members in catalogue.members():
            place = catalogue.packs[number], catalogue.offsets[number]
            yield _INDEX_RECORD.pack(*place, kind, len(members)) + b"".join(members)

    def drop_caches(self) -> None:
        """Remove the index: the next opening reads the packs."""
        (self.directory / "index").unlink(missing_ok=True)
        self._indexed = -1

    # Other files of the store

    def read_aside(self, name: str) -> bytes:
        """A file that only saves work; nothing where it isn't there or can't be used."""
        try:
            data = read_plain(self.directory / name, _MOST_INDEX)
            return data if self.vault is None else self.vault.open(data, name.encode())
        except (FileNotFoundError, NotPlain, Unsealable):
            return b""

    def write_aside(self, name: str, data: bytes) -> None:
        """Write such a file, sealed like everything else here."""
        write_whole(self.directory / name, data if self.vault is None else self.vault.seal(data, name.encode()))

    # Objects

    def put(self, data: bytes, *, private: bool = False) -> bytes:
        """Keep `data` as part of the append in progress; its id."""
        if not data:
            return EMPTY
        name = self.keys.content_id(data, private=private)
        if name not in self._catalogue.objects:
            content = self.keys.seal(data) if private else data
            self._catalogue.objects[name] = PENDING
            self._fresh.append(name)
            if self._frame.add(Row(name, len(content), packs.SEALED if private else 0), content):
                self._flush_frame()
        return name

    def _flush_frame(self) -> None:
        if self._frame.rows:
            self._begin_append()
            self._place(self._pipeline.put(*self._frame.take()))

    def _place(self, built: Iterable[tuple[list[Row], bytes]]) -> None:
        for rows, record in built:
            pack, offset = self._packs.append(record)
            self._placed.append((pack, offset, [row.id for row in rows]))

    def get(self, name: bytes) -> bytes:
        """The object's bytes, unsealed, after comparing them with their id.

        Raises:
            ObjectMissing, ObjectDamaged.
        """
        if name == EMPTY:
            return b""
        for _ in range(_RETRIES):
            number = self._catalogue.objects.get(name)
            if number is None or number == PENDING:
                break
            try:
                return self._read(number, name)
            except ObjectDamaged as error:
                if isinstance(error, PackGone) and not self.writable:
                    self._reload()
                    continue
                del self._catalogue.objects[name]  # so that it is stored again, should its content be seen again
                raise
        raise ObjectMissing(f"object {name.hex()[:16]} is not in the store")

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
        if self.keys.content_id(plain, private=bool(row.flags & packs.SEALED)) != name:
            raise ObjectDamaged(f"object {name.hex()[:16]} has other bytes than its id says")
        return plain

    def _table(self, number: int) -> tuple[Record, dict[bytes, tuple[int, Row]]]:
        place = self._catalogue.packs[number], self._catalogue.offsets[number]
        record = self._packs.record_at(*place)
        table = self._tables.get(number)
        if table is None:
            table, at = {}, record.content_at
            for row in self._packs.table(record):
                table[row.id] = (at, row)
                at += row.size
            self._tables[number] = table
            if len(self._tables) > 64:  # noqa: PLR2004
                self._tables.popitem(last=False)
        return record, table

    def forget_bodies(self) -> None:
        """Read from the disk what is asked for next, and not from memory."""
        self._packs.forget_bodies()

    @property
    def has_fresh(self) -> bool:
        """Whether the append in progress holds an object that was not there, or was found damaged."""
        return bool(self._fresh)

    def place(self, name: bytes) -> int:
        """A number that grows with the object's place in the packs, to read in order."""
        return self._catalogue.objects.get(name, 0)

    # Appending

    def begin(self) -> None:
        """Start an append. Everything `put` until `commit` becomes durable with it, or not at all.

        No file is touched until there is something to write.
        """
        self._appending = False

    def _begin_append(self) -> None:
        """A pack that ends in something else than a commit was cut off: it is left as it is, and the next one begun."""
        if self._appending:
            return
        self._budget.begin()
        numbers = self._packs.numbers()
        last = numbers[-1] if numbers else 1
        covered = self._catalogue.covered.get(last, 0)
        if self._packs.appendable(last, covered):
            self._packs.begin(last, covered)
        else:
            self._packs.begin(last + 1, 0)
        self._appending = True

    def abort(self) -> None:
        """Forget the append in progress; what was there before is as it was."""
        for name in self._fresh:
            self._catalogue.objects.pop(name, None)
        if self._frame.rows:
            self._frame = FrameBuilder()
        self._pipeline.drop()
        if self._appending:
            self._packs.abort()
        self._end_of_append()

    def _end_of_append(self) -> None:
        self._appending = False
        self._fresh.clear()
        self._placed.clear()

    def commit(self, snapshot: Snapshot, delta: Delta, state: Manifest, rules: str) -> None:
        """Make `snapshot` durable together with all that was `put`: the commit record comes last in the write.

        Raises:
            StorageFull: call `abort`.
        """
        self._begin_append()
        self._flush_frame()
        self._place(self._pipeline.drain())
        reach(_OBJECTS_APPENDED)
        description = {**self._describe(snapshot, delta, state), "rules": rules, "by": self.by, **self.marks}
        places = self._packs.commit(*self._built(description, snapshot, delta, state))
        for pack, offset, ids in self._placed:
            self._catalogue.add(packs.OBJECTS, pack, offset, ids)
        for kind, place in zip((packs.MANIFEST, packs.COMMIT), places, strict=True):
            self._catalogue.add(kind, *place, [id_of(snapshot.id)])
        pack, end = self._packs.end
        self._catalogue.covered[pack] = end
        self._end_of_append()
        self._catalogue.objects.settle()
        self._remember(snapshot.id, state)
        self._remember_description(snapshot.id, description)
        if description["whole"] and len(state) > _LARGE:
            give_back()

    def described(self, snapshot: Snapshot, delta: Delta, state: Manifest, more: dict[str, Any]) -> tuple[bytes, bytes]:
        """The manifest record and the commit record of a snapshot, `delta` being the step from its parent."""
        return self._built({**self._describe(snapshot, delta, state), **more}, snapshot, delta, state)

    def _built(
        self, description: dict[str, Any], snapshot: Snapshot, delta: Delta, state: Manifest
    ) -> tuple[bytes, bytes]:
        head = canonical({key: value for key, value in description.items() if key not in ("coverage", "changes")})
        step = [] if snapshot.parent is None else delta
        body = manifests.encode(head, step, state if description["whole"] else None)
        rows = [Row(id_of(snapshot.id), 0, 0)]
        commit = self._packs.build(packs.COMMIT, rows, canonical(description))
        return self._packs.build(packs.MANIFEST, rows, body), commit

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

    def start_sync(self) -> None:
        """Have the disk begin with what `sync` waits for."""
        self._packs.start_sync()

    def start_sync_of_names(self) -> None:
        """As `start_sync`, for which files there are beside the packs."""
        fd = os.open(self.directory, DIRECTORY)
        try:
            self._names.start(0, 0, fd)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Return once everything committed so far would survive a power loss. Raises: StoreError: the disk refuses."""
        self._packs.sync()
        self._names.wait(self.directory)

    def close(self) -> None:
        self._names.finish()
        self._packs.close()
        if self._lock is not None:
            self._lock.release()

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
        """Raises: SnapshotDamaged: neither its commit nor its manifest can be read. SnapshotNotFound: it has gone."""
        plain = self._sound_description(name)
        if "coverage" not in plain:
            plain = {**plain, "coverage": to_plain(self.coverage(name)), "changes": to_plain(Changes())}
        return from_plain(Snapshot, plain)

    def coverage(self, name: SnapshotId) -> Coverage:
        """That of a snapshot, without the rest. Raises: as `snapshot`."""
        plain = self._sound_description(name)
        if "coverage" in plain:
            return from_plain(Coverage, plain["coverage"])
        state = self.state(name)
        return manifests.coverage(state, manifests.Totals().moved([(path, None, data) for path, data in state.items()]))

    def fingerprint(self, name: SnapshotId) -> str:
        """As `coverage`."""
        return str(self._sound_description(name)["fingerprint"])

    def _sound_description(self, name: SnapshotId) -> dict[str, Any]:
        if plain := self._description(name):
            return plain
        self._still_there(name)
        raise SnapshotDamaged(f"Snapshot {name}: its manifest is damaged. Other snapshots are unaffected.")

    def keep(self, name: SnapshotId) -> None:
        """Somebody saved by hand what a run had saved already: it is theirs as well, and outlives the run."""
        if name in self._looked_after or of_run(self.by):
            return
        self._looked_after = {name}
        if of_run(self.made_by(name)):
            (self.directory / KEPT).mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(self.directory / KEPT / name, os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def kept(self) -> set[SnapshotId]:
        """Snapshots of runs that somebody saved by hand as well."""
        try:
            return {SnapshotId(name) for name in os.listdir(self.directory / KEPT)}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def made_by(self, name: SnapshotId) -> str:
        """On whose behalf it was made: `run ID`, or something else where a person did it."""
        return str(self._description(name).get("by", ""))

    def details(self, name: SnapshotId) -> dict[str, Any]:
        """What its description says besides the snapshot itself."""
        plain = self._description(name)
        return {key: plain[key] for key in ("rules", "by", WORKERS, CARRIED) if key in plain}

    def rules(self, name: SnapshotId) -> str:
        """The digest of the path rules under which a snapshot was taken."""
        return str(self._description(name).get("rules", ""))

    def _description(self, name: SnapshotId) -> dict[str, Any]:
        """What the commit record says, or else the manifest's head; empty where both are damaged. Not to be changed."""
        if (known := self._descriptions.get(name)) is not None:
            return known
        if found := self._read_description(name):
            self._remember_description(name, found)
        return found

    def _remember_description(self, name: SnapshotId, found: dict[str, Any]) -> None:
        self._descriptions[name] = found
        if len(self._descriptions) > _DESCRIPTIONS_CACHED:
            self._descriptions.popitem(last=False)

    def forget_descriptions(self) -> None:
        """Read from the disk what is asked for next, and not from memory."""
        self._descriptions.clear()

    def _read_description(self, name: SnapshotId) -> dict[str, Any]:
        try:
            if name in self._catalogue.commits:
                return self._json(self._body(packs.COMMIT, name))
        except (ObjectDamaged, ValueError, KeyError):
            pass
        try:
            return self._json(manifests.head_of(self._body(packs.MANIFEST, name)))
        except (ObjectDamaged, ValueError, KeyError):
            return {}

    @staticmethod
    def _json(data: bytes) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(data)
        return plain

    def _body(self, kind: int, name: SnapshotId) -> bytes:
        """Raises: ObjectDamaged. KeyError: there is no such record (any more)."""
        for _ in range(_RETRIES):
            number = (self._catalogue.states if kind == packs.MANIFEST else self._catalogue.commits)[name]
            try:
                record = self._packs.record_at(self._catalogue.packs[number], self._catalogue.offsets[number])
                self._packs.table(record)
                return self._packs.body(record)[record.content_at :]
            except PackGone:
                if self.writable:
                    raise
                self._reload()
        raise ObjectDamaged(f"snapshot {name} is being moved by a collection; try again")

    def state(self, name: SnapshotId) -> Manifest:
        """The manifest of a snapshot; not to be changed.

        Raises:
            SnapshotDamaged: no undamaged way leads to it.
        """
        if (known := self._states.get(name)) is not None:
            self._states.move_to_end(name)
            return known
        try:
            state = self._walk(name)
        except SnapshotDamaged:
            self._still_there(name)
            raise
        self._remember(name, state)
        return state

    def _still_there(self, name: SnapshotId) -> None:
        """Raises: SnapshotNotFound: there was such a snapshot a moment ago, and it is gone."""
        if name not in self._catalogue.states:
            raise SnapshotNotFound(
                f"Snapshot {name} is gone: it was removed meanwhile by `agentrewind store gc`."
            ) from None

    def let_state_go(self, name: SnapshotId) -> None:
        """Don't keep the state of `name` at hand: who gave it is about to change it."""
        self._states.pop(name, None)

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
                at = self.parent(at)
        except (ObjectDamaged, ValueError, KeyError):
            pass
        return self._walk_around(name)

    def _whole(self, name: SnapshotId) -> Manifest | None:
        """The state that a manifest holds as a whole, if it does. Raises: ObjectDamaged, ValueError, KeyError."""
        body = self._body(packs.MANIFEST, name)
        return manifests.full_of(body) if self._json(manifests.head_of(body)).get("whole") else None

    def parent(self, name: SnapshotId) -> SnapshotId | None:
        parent = self._description(name).get("parent")
        return None if parent is None else SnapshotId(parent)

    def step(self, name: SnapshotId) -> Delta:
        """The step from its parent; of one without a parent, nothing. Raises: ObjectDamaged, ValueError, KeyError."""
        return manifests.delta_of(self._body(packs.MANIFEST, name))

    def _walk_around(self, name: SnapshotId) -> Manifest:
        """Along any undamaged steps, in both directions, from any whole state."""
        neighbours: dict[SnapshotId, list[tuple[SnapshotId, SnapshotId]]] = {}
        for step in list(self._catalogue.states):
            parent = self.parent(step)
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
            self.step(step)
        except (ObjectDamaged, ValueError, KeyError):
            return False
        return True

    def _follow(self, state: Manifest, way: list[tuple[SnapshotId, bool]]) -> Manifest:
        for step, backwards in way:
            manifests.apply(state, self.step(step), backwards=backwards)
        return state


def of_run(by: str) -> bool:
    """Whether a run made a snapshot by this name."""
    return by.startswith(RUN)
