"""What the last scan saw, kept between processes: only a cache, and distrusted where it isn't whole."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any

from agentrewind.core.codec import canonical
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import SnapshotDamaged, SnapshotNotFound
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots import compression
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.scan import Seen
from agentrewind.snapshots.store import SCAN_CACHE, Store

if TYPE_CHECKING:
    from pathlib import Path

    from agentrewind.snapshots.rules import PathRules

_MAGIC = b"ARcache1"
_ROW = struct.Struct("<I44s")
_WRITTEN = named("snapshot.cache-written")


def load_cache(store: Store, root: Path, rules: PathRules) -> tuple[SnapshotId | None, Seen]:
    """The snapshot that the workspace was last equal to or went on from, and what was seen of it then."""
    names = store.names()
    latest = names[-1] if names else None
    head, rows = _read(store)
    if head.get("root") != str(root) or head.get("rules") != rules.digest or head.get("current") not in names:
        return _last_sound(store, latest), Seen()
    current = SnapshotId(head["current"])
    died = head["count"] != len(names)  # with later snapshots made: what it saw is older than they are
    current_base = _last_sound(store, latest if died else current)
    try:
        entries = store.state(current)
    except (SnapshotDamaged, SnapshotNotFound):
        return current_base, Seen()
    signatures = {path: sig for path, sig in rows.items() if path in entries}
    return current_base, Seen(entries, signatures, clock_ns=head["clock_ns"], latest_ns=head["latest_ns"])


def _last_sound(store: Store, name: SnapshotId | None) -> SnapshotId | None:
    """The snapshot to go on from: the next one starts anew if it is damaged."""
    if name is None:
        return None
    try:
        store.state(name)
        store.snapshot(name)
    except (SnapshotDamaged, SnapshotNotFound):
        return None
    return name


def _read(store: Store) -> tuple[dict[str, Any], dict[str, bytes]]:
    data = store.read_aside(SCAN_CACHE)
    body, checksum = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != checksum or not body.startswith(_MAGIC):
        return {}, {}
    head_line, _, packed = body[len(_MAGIC) :].partition(b"\n")
    head = json.loads(head_line)
    try:
        raw = compression.unpack(head["codec"], packed, head["size"])
    except compression.Unpackable:
        return {}, {}
    rows, at = {}, 0
    while at < len(raw):
        length, sig = _ROW.unpack_from(raw, at)
        at += _ROW.size
        rows[e.decode_text(raw[at : at + length])] = sig
        at += length
    return head, rows


def save_cache(store: Store, root: Path, rules: PathRules, current: SnapshotId | None, seen: Seen) -> None:
    """Keep what proves something: not what is racy, not what differs from `current`."""
    if current is None:
        return
    state = store.state(current)
    parts = []
    for path, sig in seen.signatures.items():
        if path not in seen.racy and state.get(path) == seen.entries.get(path):
            name = e.encode_text(path)
            parts.append(_ROW.pack(len(name), sig) + name)
    raw = b"".join(parts)
    codec, packed = compression.pack(raw)
    head = {
        "root": str(root), "rules": rules.digest, "current": current, "count": len(store.names()), "codec": codec,
        "size": len(raw), "clock_ns": seen.clock_ns, "latest_ns": seen.latest_ns,
    }  # fmt: skip
    body = _MAGIC + canonical(head) + b"\n" + packed
    store.write_aside(SCAN_CACHE, body + hashlib.sha256(body).digest())
    reach(_WRITTEN)
