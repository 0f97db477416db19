"""Snapshots that no scan of ours would make, written into a store by somebody who knows its format."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from agentrewind.core.world import Changes, Coverage, Snapshot, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests
from agentrewind.snapshots.entry import Entry
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.store import Store

ROOT = Entry(e.DIRECTORY, 0o755)
DATA = b"planted"


def craft(
    store: Path, state: dict[str, Entry | bytes], *, contents: tuple[bytes, ...] = (DATA,), foreign: bool = True
) -> SnapshotId:
    """Add a snapshot of this very state to the store, which is taken for one made elsewhere if `foreign`."""
    opened = Store.open(store, writable=True)
    try:
        opened.begin()
        for data in contents:
            opened.put(data)
        encoded = {path: item if isinstance(item, bytes) else e.encode(item) for path, item in state.items()}
        name = SnapshotId(secrets.token_hex(16))
        snapshot = Snapshot(name, _fingerprint(encoded), Coverage(len(encoded)), Changes(), time.time_ns())
        opened.commit(snapshot, [], encoded, PathRules().digest)
    finally:
        opened.close()
    if foreign:
        (store / "origin").unlink(missing_ok=True)
    return name


def _fingerprint(state: dict[str, bytes]) -> str:
    try:
        return f"{manifests.fingerprint(state):064x}"
    except (ValueError, UnicodeError):
        return "0" * 64


def file(content: bytes = DATA, **fields: object) -> Entry:
    """A file's entry; its id and size are those of `content` unless they are given."""
    from hashlib import sha256

    made: dict[str, object] = {
        "kind": e.FILE, "mode": 0o644, "size": len(content), "content": sha256(content).digest(), **fields,
    }  # fmt: skip
    return Entry(**made)  # type: ignore[arg-type]
