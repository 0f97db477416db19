"""The record that a restore has begun: it survives a power loss, and while it is there the restore isn't done."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrewind.core.codec import canonical, from_plain, to_plain
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import NO_ROOM, StorageFull, StoreError
from agentrewind.core.world import Pending, SnapshotId
from agentrewind.snapshots.beneath import sync_directory
from agentrewind.snapshots.plain import NotPlain, read_plain, write_whole

if TYPE_CHECKING:
    from pathlib import Path

_WRITTEN = named("snapshot.restore-intent-written")
_CLEARED = named("snapshot.restore-intent-cleared")
_NAME = "restore-intent"
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Intent:
    """What was begun, and under which words of its caller."""

    pending: Pending
    accept_incomplete: bool
    kept: Kept | None = None

    @property
    def needs(self) -> frozenset[SnapshotId]:
        """The snapshots without which it can't be finished."""
        told = () if self.kept is None else (self.kept.since, self.kept.until)
        return frozenset((self.pending.target, self.pending.live, *told))


@dataclass(frozen=True, slots=True)
class Kept:
    """What changed between these two snapshots stays as it is; with `mine`, only what others did last (see `Whose`)."""

    since: SnapshotId
    until: SnapshotId
    mine: str = ""
    people: bool = True


def write_intent(store: Path, pending: Pending, *, accept_incomplete: bool, kept: Kept | None = None) -> None:
    """Durable when it returns. Raises: StorageFull."""
    plain = {**to_plain(pending), "accept_incomplete": accept_incomplete}
    if kept is not None:
        plain["kept"] = to_plain(kept)
    try:
        write_whole(store / _NAME, canonical(plain), durable=True)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(f"{store}: no room to note that a restore begins. Nothing was touched.") from error
        raise
    reach(_WRITTEN)


def read_intent(store: Path) -> Intent | None:
    """Raises: StoreError: it is there and damaged."""
    try:
        plain = json.loads(read_plain(store / _NAME, _LONGEST))
        pending = from_plain(Pending, {name: plain[name] for name in ("target", "live")})
        kept = from_plain(Kept, plain["kept"]) if "kept" in plain else None
        return Intent(pending, bool(plain["accept_incomplete"]), kept)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, NotPlain) as error:
        raise StoreError(
            f"{store / _NAME}: the record of an unfinished restore is damaged. All snapshots are safe: restore one of"
            " them with `agentrewind snap restore`, which removes it."
        ) from error


def is_pending(store: Path) -> bool:
    """Whether a restore isn't done, also where the record of it is damaged."""
    return os.path.lexists(store / _NAME)


def clear_intent(store: Path, *, wait: bool = True) -> None:
    """The restore is done. `wait` until a power loss couldn't bring it back."""
    try:
        os.unlink(store / _NAME)
    except FileNotFoundError:
        return
    if wait:
        sync_directory(store)
    reach(_CLEARED)
