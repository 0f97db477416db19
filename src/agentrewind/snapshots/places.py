"""Which record holds each object: a dictionary that takes a third of the room, for there are as many as files."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, MutableMapping

_ID = 32
_FEW = 1024


class Places(MutableMapping[bytes, int]):
    """Object id to record number. What was added since the last `settle` lies in a dictionary, the rest sorted in one
    string, with the numbers beside it.
    """

    def __init__(self) -> None:
        self._ids = b""
        self._numbers = array("i")
        self._starts = [0] * 257
        """Where the ids begin that begin with each byte."""
        self._fresh: dict[bytes, int] = {}
        self._gone: set[bytes] = set()
        """Ids of the sorted part that aren't there any more, or are in `_fresh`."""

    def _at(self, name: bytes) -> int:
        """Where it is in the sorted part; -1 where it isn't."""
        if len(name) != _ID:
            return -1
        ids = self._ids
        end = self._starts[name[0] + 1]
        at = bisect_left(range(end), name, self._starts[name[0]], end, key=lambda i: ids[_ID * i : _ID * i + _ID])
        return at if at < end and ids[_ID * at : _ID * at + _ID] == name and name not in self._gone else -1

    def __getitem__(self, name: bytes) -> int:
        if (found := self._fresh.get(name)) is not None:
            return found
        if (at := self._at(name)) < 0:
            raise KeyError(name)
        return self._numbers[at]

    def __contains__(self, name: object) -> bool:
        return name in self._fresh or (isinstance(name, bytes) and self._at(name) >= 0)

    def __setitem__(self, name: bytes, number: int) -> None:
        """Raises: ValueError: no id has that length."""
        if len(name) != _ID:
            raise ValueError(f"an id has {_ID} bytes, not {len(name)}")
        if name not in self._fresh and self._at(name) >= 0:
            self._gone.add(name)
        self._fresh[name] = number

    def __delitem__(self, name: bytes) -> None:
        if name in self._fresh:
            del self._fresh[name]
        elif self._at(name) >= 0:
            self._gone.add(name)
        else:
            raise KeyError(name)

    def __len__(self) -> int:
        return len(self._numbers) - len(self._gone) + len(self._fresh)

    def __iter__(self) -> Iterator[bytes]:
        return (name for name, _ in self.pairs())

    def pairs(self) -> Iterator[tuple[bytes, int]]:
        """As `items`, and faster."""
        yield from self._sorted()
        yield from self._fresh.items()

    def _sorted(self) -> Iterator[tuple[bytes, int]]:
        ids, gone = self._ids, self._gone
        for at, number in enumerate(self._numbers):
            name = ids[_ID * at : _ID * at + _ID]
            if name not in gone:
                yield name, number

    def settle(self) -> None:
        """Bring what was added into the small form, if it is worth the time: it takes as long as all that is there."""
        if len(self._fresh) <= _FEW + len(self._numbers) // 8:
            return
        pairs = sorted(self.pairs())
        self._ids = b"".join([name for name, _ in pairs])
        self._numbers = array("i", [number for _, number in pairs])
        self._starts = [bisect_left(pairs, (bytes([first]),)) for first in range(256)] + [len(pairs)]
        self._fresh, self._gone = {}, set()
