"""The bytes of an entry, written into an open file: only the chunks that differ, and holes where the entry has them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from agentrewind.snapshots import beneath
from agentrewind.snapshots.entry import CHUNK, SMALL, ZERO_ID, Entry
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.reading import is_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrewind.snapshots.contents import Contents

_BLOCK = 4096


def pour(fd: int, entry: Entry, old: Entry | None, contents: Contents) -> None:
    """Make the open file's bytes the entry's; `old` is what it holds now, None for a new file."""
    if old is not None and entry.sparse and not beneath.punch_hole(fd, old.size, _BLOCK):
        os.ftruncate(fd, 0)  # here holes come about only where nothing was written
        old = None
    if entry.size <= SMALL:
        _pour_chunk(fd, 0, contents.get(entry.content), entry, fresh=old is None)
    else:
        _pour_chunks(fd, entry, old, contents)
    os.ftruncate(fd, entry.size)


def _pour_chunks(fd: int, entry: Entry, old: Entry | None, contents: Contents) -> None:
    present: list[bytes] = []
    if old is not None and old.size > SMALL and (entry.sparse or not old.sparse):
        with contextlib.suppress(ObjectMissing, ObjectDamaged):
            present = contents.chunks(old)
            present = present[: old.size // CHUNK]
    for number, name in enumerate(contents.chunks(entry)):
        size = min(CHUNK, entry.size - number * CHUNK)
        if size == CHUNK and number < len(present) and present[number] == name:
            continue
        data = bytes(size) if name == ZERO_ID else contents.get(name)
        _pour_chunk(fd, number * CHUNK, data, entry, fresh=old is None)


def _pour_chunk(fd: int, at: int, data: bytes, entry: Entry, *, fresh: bool) -> None:
    if not entry.sparse:
        _write_all(fd, data, at)
        return
    for start, end, zero in _runs(data):
        if not zero or (not fresh and not beneath.punch_hole(fd, at + start, end - start)):
            _write_all(fd, data[start:end], at + start)


def _write_all(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view = view[written:]
        at += written


def _runs(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Start and end of each run of blocks, and whether it is all zeros."""
    start, state = 0, None
    for at in range(0, len(data), _BLOCK):
        zero = is_zero(data[at : at + _BLOCK])
        if state is not None and zero != state:
            yield start, at, state
            start = at
        state = zero
    if state is not None:
        yield start, len(data), state
