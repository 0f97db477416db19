"""Snapshots on their way to another machine: objects by their SHA-256, and each state as a step from the one before.

What comes in is hostile until it is checked: hashes, sizes, paths and kinds, before anything of it is committed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from agentrewind.core.errors import StoreError
from agentrewind.core.world import Gap, Snapshot, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.entry import CHUNK, SMALL, ZERO_ID, Entry, Malformed
from agentrewind.snapshots.manifests import Delta, Manifest
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.private import EMPTY
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.vetting import harmless, vet

Cleaner = Callable[[str, bytes], bytes | None]
"""What of a file's bytes may leave; None where the file stays here."""
Step = list[tuple[str, dict[str, Any] | None]]

_KINDS = {"file": e.FILE, "directory": e.DIRECTORY, "link": e.SYMLINK, "pipe": e.FIFO}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_ID = re.compile(r"[0-9a-f]{32}")
_SHA = re.compile(r"[0-9a-f]{64}")
_MOST_CHUNKS = 1 << 24


class BundleRefused(StoreError):
    """What came from elsewhere isn't what this program writes. Nothing of it was kept."""


class Outgoing:
    """Reads snapshots one after the other. `left_out` names what stays here, with the reason."""

    def __init__(self, store: Store, clean: Cleaner) -> None:
        self._store, self._clean = store, clean
        self._contents = Contents(store, keep=False)
        self._before: Manifest = {}
        self._sent: dict[str, str | list[str] | None] = {}
        """Content id (with the size of a large file) to what it goes by; None where it stays here."""
        self._out: set[str] = set()
        self._names: set[str] = set()
        self.left_out: dict[str, str] = {}

    def snapshot(self, name: SnapshotId) -> Iterator[tuple[str, bytes] | tuple[Snapshot, Step]]:
        """The objects that this one needs beyond those before it, with their names; last its description and step.

        Raises:
            SnapshotDamaged, SnapshotNotFound.
        """
        state = self._store.state(name)
        step: Step = []
        for path, _, new in sorted(manifests.difference(self._before, state)):
            entry = None if new is None else e.decode(new)
            told = None
            if entry is not None and entry.kind in e.TRACKED and not self._stays(path, entry):
                if entry.kind == e.FILE:
                    yield from self._objects(path, entry)
                told = self._told(path, entry)
            if told is not None or path in self._names:
                step.append((path, told))
                (self._names.add if told is not None else self._names.discard)(path)
        self._before = state
        yield self._store.snapshot(name), step

    def _stays(self, path: str, entry: Entry) -> bool:
        """Whether it may not leave whatever its content is: it is private, or its name, its target or an attribute may
        not be seen.
        """
        if entry.private:
            self.left_out[path] = "private"
            return True
        said = (e.encode_text(path), entry.target, entry.xattrs)
        if any(part and self._clean(path, part) != part for part in said):
            self.left_out[path] = "its name, target or attributes hold what looks like a secret"
            return True
        return False

    def _objects(self, path: str, entry: Entry) -> Iterator[tuple[str, bytes]]:
        key = self._key(entry)
        if key in self._sent:
            return
        try:
            if entry.size <= SMALL:
                data = self._clean(path, self._contents.get(entry.content))
                self._sent[key] = None if data is None else hashlib.sha256(data).hexdigest()
                if data:
                    yield from self._once(data)
                return
            yield from self._chunks(path, entry, key)
        except (ObjectMissing, ObjectDamaged) as error:
            raise StoreError(f"{path!r} can't be read from the store: {error}.") from error

    def _chunks(self, path: str, entry: Entry, key: str) -> Iterator[tuple[str, bytes]]:
        """A large file, looked at as a whole before its first chunk leaves."""
        names = self._contents.chunks(entry)
        for name in names:
            data = b"" if name == ZERO_ID else self._contents.get(name)
            if data and self._clean(path, data) != data:
                self._sent[key] = None
                return
        told: list[str] = []
        for name in names:
            data = b"" if name == ZERO_ID else self._contents.get(name)
            told.append(hashlib.sha256(data).hexdigest() if data else "")
            if data:
                yield from self._once(data)
        self._sent[key] = told

    def _once(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        name = hashlib.sha256(data).hexdigest()
        if name not in self._out:
            self._out.add(name)
            yield name, data

    @staticmethod
    def _key(entry: Entry) -> str:
        return f"{entry.content.hex()}{'+' if entry.size > SMALL else ''}"

    def _told(self, path: str, entry: Entry) -> dict[str, Any] | None:
        told: dict[str, Any] = {"kind": _NAMES[entry.kind], "mode": entry.mode, "mtime_ns": entry.mtime_ns}
        if entry.kind == e.FILE:
            content = self._sent[self._key(entry)]
            if content is None:
                self.left_out[path] = "holds what looks like a secret"
                return None
            told["content"], told["size"] = content, entry.size
        if entry.kind == e.SYMLINK:
            told["target"] = base64.b64encode(entry.target).decode()
        if entry.xattrs:
            told["xattrs"] = base64.b64encode(entry.xattrs).decode()
        if entry.leader:
            told["leader"] = entry.leader
        if entry.sparse:
            told["sparse"] = True
        return told


class Incoming:
    """Writes checked snapshots into an empty store, in the order in which they come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ids: dict[str, tuple[bytes, int]] = {hashlib.sha256().hexdigest(): (EMPTY, 0)}
        self._state: Manifest = {}
        self._totals = manifests.Totals()
        self._fingerprint = 0
        self._parent: SnapshotId | None = None
        self._begun = False
        self._names: set[str] = set()

    def object(self, name: str, data: bytes) -> None:
        """Raises: BundleRefused: its bytes don't hash to its name."""
        if hashlib.sha256(data).hexdigest() != name or len(data) > SMALL:
            raise BundleRefused(f"the content {name[:16]}… has other bytes than its name says")
        self._begin()
        self._ids[name] = self._store.put(data), len(data)

    def snapshot(self, described: dict[str, Any], step: Any) -> None:
        """Raises: BundleRefused: it can't be a snapshot that this program wrote."""
        try:
            self._commit(described, step)
        except (KeyError, TypeError, AttributeError, OverflowError, ValueError, StoreError) as error:
            raise BundleRefused(f"snapshot {str(described)[:40]!r} is none: {error}") from error

    def _begin(self) -> None:
        if not self._begun:
            self._store.begin()
            self._begun = True

    def _commit(self, described: dict[str, Any], step: Any) -> None:
        name = described["id"]
        if not isinstance(name, str) or not _ID.fullmatch(name) or name in self._names:
            raise Malformed("its id is none")
        self._begin()
        state = dict(self._state)
        for path, told in step:
            self._apply(state, path, told)
        state = {path: e.as_foreign(data, os.geteuid(), os.getegid()) for path, data in harmless(state)[0].items()}
        vet(state, state, name)
        delta: Delta = manifests.difference(self._state, state)
        self._totals = self._totals.moved(delta)
        self._fingerprint = manifests.moved_fingerprint(self._fingerprint, delta)
        snapshot = Snapshot(
            SnapshotId(name),
            f"{self._fingerprint:064x}",
            manifests.coverage({}, self._totals),
            manifests.changes(delta),
            int(described["created_ns"]),
            self._parent,
            str(described["label"])[:200],
            automatic=bool(described["automatic"]),
        )
        self._store.commit(snapshot, delta, state, "")
        self._begun = False
        self._state, self._parent = state, snapshot.id
        self._names.add(name)

    def _apply(self, state: Manifest, path: str, told: dict[str, Any] | None) -> None:
        if not isinstance(path, str):
            raise Malformed("a path is none")
        e.check_path(path)
        if told is None:
            del state[path]
        else:
            state[path] = e.encode(self._entry(told))

    def _entry(self, told: dict[str, Any]) -> Entry:
        kind = _KINDS[told["kind"]]
        size, content = self._content(told) if kind == e.FILE else (0, b"")
        return Entry(
            kind,
            int(told["mode"]) & 0o1777,
            mtime_ns=int(told["mtime_ns"]),
            size=size,
            content=content,
            target=base64.b64decode(told.get("target", ""), validate=True),
            xattrs=base64.b64decode(told.get("xattrs", ""), validate=True),
            leader=e.check_path(str(told.get("leader", ""))),
            flags=e.SPARSE if told.get("sparse") else 0,
        )

    def _content(self, told: dict[str, Any]) -> tuple[int, bytes]:
        """Size and content id. The size of a file that is one object is that of the object."""
        content = told["content"]
        if isinstance(content, str):
            name, size = self._ids[content]
            return size, name
        size = int(told["size"])
        if not SMALL < size <= _MOST_CHUNKS * CHUNK or len(content) != -(-size // CHUNK):
            raise Malformed("a list of chunks doesn't fit the size of its file")
        names = []
        for number, sha in enumerate(content):
            name, length = self._ids[sha] if sha else (ZERO_ID, min(CHUNK, size - number * CHUNK))
            if length != min(CHUNK, size - number * CHUNK):
                raise Malformed("a chunk doesn't have the size of its place")
            names.append(name)
        return size, self._store.put(b"".join(names))


def gaps(left_out: dict[str, str]) -> tuple[Gap, ...]:
    """What stayed behind, by path."""
    return tuple(Gap(path, why) for path, why in sorted(left_out.items()))


def is_object_name(name: str) -> bool:
    return _SHA.fullmatch(name) is not None
