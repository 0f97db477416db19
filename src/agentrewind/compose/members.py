"""Named byte strings after one another in one compressed file: `{"name":…,"size":…}`, a line feed, the bytes; and last
`{"end":…}` with their number. There is nothing in it that could be a link, a device or a place to write to.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import zstandard

_LONGEST_HEAD = 1000
_PIECE = 1 << 20
_WINDOW = 1 << 27
"""More than what any level writes here; a larger one would be memory that the sender chooses."""


class NotMembers(ValueError):
    """The file is damaged, cut off, or something else."""


class Writing:
    """Appends members. `close` writes the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._packed = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)
        self._count = 0

    def add(self, name: str, data: bytes) -> None:
        self.add_file(name, len(data), io.BytesIO(data))

    def add_file(self, name: str, size: int, body: IO[bytes]) -> None:
        """`body` holds so many bytes from where it stands."""
        self._packed.write(json.dumps({"name": name, "size": size}).encode() + b"\n")
        while piece := body.read(_PIECE):
            self._packed.write(piece)
        self._count += 1

    def close(self) -> None:
        self._packed.write(json.dumps({"end": self._count}).encode() + b"\n")
        self._packed.close()  # type: ignore[no-untyped-call]


class Member:
    """One of them; its bytes can be read once, before the next one is asked for."""

    def __init__(self, name: str, size: int, source: IO[bytes]) -> None:
        self.name, self.size = name, size
        self._source, self._left = source, size

    def pieces(self) -> Iterator[bytes]:
        """All its bytes. Raises: NotMembers: there are fewer."""
        while self._left:
            piece = self._source.read(min(self._left, _PIECE))
            if not piece:
                raise NotMembers("it is cut off")
            self._left -= len(piece)
            yield piece

    def read(self, most: int) -> bytes:
        """Raises: NotMembers: it is larger than `most`, or cut off."""
        if self.size > most:
            raise NotMembers(f"{self.name[:60]!r} has {self.size:,} bytes, more than it can have")
        return b"".join(self.pieces())


@contextmanager
def reading(path: Path) -> Iterator[Iterator[Member]]:
    """The members of a file. Raises: NotMembers, OSError."""
    with open(path, "rb") as raw:
        unpacked = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(raw, read_across_frames=False)
        try:
            yield _members(io.BufferedReader(unpacked))
        except zstandard.ZstdError as error:
            raise NotMembers(f"it is no bundle, or damaged ({error})") from error


def _members(source: IO[bytes]) -> Iterator[Member]:
    count = 0
    while True:
        head = _head(source)
        if head.get("end") == count and len(head) == 1:
            if source.read(1):
                raise NotMembers("something comes after its end")
            return
        name, size = head.get("name"), head.get("size")
        if not isinstance(name, str) or type(size) is not int or size < 0:
            raise NotMembers("a member has no name or no size")
        member = Member(name, size, source)
        yield member
        for _ in member.pieces():  # what nobody has read
            pass
        count += 1


def _head(source: IO[bytes]) -> dict[str, object]:
    line = source.readline(_LONGEST_HEAD)
    try:
        head = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        head = None
    if not isinstance(head, dict):
        raise NotMembers("it is cut off, or no bundle")
    return head
