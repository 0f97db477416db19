"""Whether a store was made here, by us, or came from elsewhere (faults.md, rule 9).

A store that was copied, unpacked or sent can hold anything. Where it was made is written into it, together with the
inode of its directory, which no copy keeps and nobody elsewhere can foresee; a store that says nothing is foreign.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from agentrewind.snapshots.plain import NotPlain, read_plain, write_whole

if TYPE_CHECKING:
    from agentrewind.snapshots.store import Store

_NAME = "origin"
_LONGEST = 4096
_MACHINE = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def mark(store: Store) -> None:
    """Say that the store, in which nothing is yet, was made here."""
    if store.writable and not store.names() and not (store.directory / _NAME).exists():
        with contextlib.suppress(OSError):  # no room: without the mark set-uid bits don't come back, nothing worse
            write_whole(store.directory / _NAME, _here(store.directory))


def is_ours(store: Store) -> bool:
    """Whether the store was made on this machine, by this user, and isn't a copy of one that was."""
    try:
        return read_plain(store.directory / _NAME, _LONGEST) == _here(store.directory)
    except (OSError, NotPlain):
        return False


def _here(directory: Path) -> bytes:
    machine = b""
    for path in _MACHINE:
        with contextlib.suppress(OSError):
            machine = machine or path.read_bytes().strip()
    made = f"{os.geteuid()} {directory.stat().st_ino}".encode()
    return hashlib.sha256(b"agentrewind store " + machine + b" " + made).hexdigest().encode() + b"\n"
