"""The key under which a store seals what it holds, where its owner names none.

It lies in two places, so that one lost file loses nothing: in the store, and below the home, or beside a store that is
kept elsewhere. Whoever may read either reads the snapshots; what it guards is said in docs/secrets.md.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentrewind.core.errors import NO_ROOM, AgentRewindError, StorageFull, StoreError
from agentrewind.snapshots.encryption import Encryption
from agentrewind.snapshots.founding import opened_vault
from agentrewind.snapshots.plain import NotPlain, read_plain, write_whole

KEY = "own-key"
_BYTES = 32
_OURS = "stores"
"""How a home calls the directory of its stores."""


def made(store: Path) -> Encryption:
    """The key for a store that is about to be made; durable when this returns. Processes that make the same store at
    once get the same key.

    Raises:
        StorageFull, StoreError: it can't be written, or it is there and can't be looked at. There is no store then.
    """
    path = _aside(store)
    with _said(path), _alone(path.parent):
        found = _whole(path)
        if found is None:
            found = secrets.token_bytes(_BYTES)
            _written(path, found)
    return Encryption(found)


def of(store: Path) -> Encryption | None:
    """The key of a store that has one of its own; None where its owner keeps it, or both files are gone or damaged."""
    for path in places(store):
        found = _read(path)
        if found is not None and _opens(store, found):
            return Encryption(found)
    return None


def mended(store: Path) -> None:
    """Both files hold the key of a store that has one of its own, as far as they can be written; what else stood there
    is kept under another name.
    """
    key = of(store)
    if key is None:
        return
    for path in places(store):
        if _read(path) != key.secret:
            with suppress(OSError):
                _written(path, key.secret)


def places(store: Path) -> tuple[Path, Path]:
    """The two files of the key."""
    return store / KEY, _aside(store)


def _aside(store: Path) -> Path:
    if store.parent.name == _OURS:
        return store.parent.parent / "keys" / store.name
    return store.with_name(f"{store.name}.{KEY}")  # whose directories are nobody's but its owner's


def _opens(store: Path, key: bytes) -> bool:
    try:
        return opened_vault(store, Encryption(key)) is not None
    except AgentRewindError:
        return False


def _read(path: Path) -> bytes | None:
    try:
        return _whole(path)
    except OSError:
        return None


def _whole(path: Path) -> bytes | None:
    """The key; None where there is none, or a damaged one. Raises: OSError: that can't be told."""
    try:
        found = read_plain(path, _BYTES)
    except (FileNotFoundError, NotADirectoryError, NotPlain):
        return None
    return found if len(found) == _BYTES else None


def _written(path: Path, key: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.path.lexists(path):
        path.rename(path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}"))
    write_whole(path, key, durable=True)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Nobody else makes a key there meanwhile."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(f"No room for the key of the snapshot store ({path}). Nothing was touched.") from error
        raise StoreError(f"{path}: the key of the store can't be written: {error.strerror}.") from error
