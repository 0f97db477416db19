"""Damage done to a store on purpose, also where what it holds is sealed and can't be searched for."""

from __future__ import annotations

from pathlib import Path

from agentrewind.snapshots.packs import OBJECTS, PackFiles


def flip_in_the_objects(home: Path, size: int, *, which: int) -> None:
    """Change one byte of an object record, in the only store below `home`, that holds `size` bytes or more which don't
    compress: the first (0) or the newest (-1) of them.
    """
    [packs] = (home / "stores").glob("*/packs")
    files = PackFiles(packs)
    [number] = files.numbers()
    record = [item for item, _, _ in files.scan(number, 0) if item.kind == OBJECTS and item.stored >= size][which]
    path = files.path(number)
    data = bytearray(path.read_bytes())
    data[record.body_at + record.stored // 2] ^= 1
    path.write_bytes(data)
