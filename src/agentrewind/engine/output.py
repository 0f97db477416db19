"""What is kept of the output of a command, whatever its length."""

from __future__ import annotations

from dataclasses import dataclass, field

CHUNK = 65_536
"""How much is read at a time."""


@dataclass(slots=True)
class Kept:
    """The first and the last half of `limit` bytes of a stream, whatever its length."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = max(self.limit // 2 - len(self._head), 0)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self.limit + CHUNK:
            del self._tail[: -self.limit]

    @property
    def left_out(self) -> int:
        return max(self.total - self.limit, 0)

    def text(self) -> str:
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        tail = self._tail[len(self._tail) - (self.limit - len(self._head)) :]
        head, tail = _without_torn_end(self._head), _without_torn_start(tail)
        missing = self.total - len(head) - len(tail)
        line = f"\n[... {missing:,} bytes of output left out here ...]\n"
        return head.decode("utf-8", "replace") + line + tail.decode("utf-8", "replace")


def _without_torn_end(data: bytearray) -> bytearray:
    """`data` without a UTF-8 character that the cut tore."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # noqa: PLR2004 the first byte of a character of several
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4  # noqa: PLR2004
            return data[:-back] if size > back else data
        if byte < 0x80:  # noqa: PLR2004
            return data
    return data


def _without_torn_start(data: bytearray) -> bytearray:
    at = 0
    while at < min(3, len(data)) and 0x80 <= data[at] < 0xC0:  # noqa: PLR2004
        at += 1
    return data[at:]
