"""Bodies of requests that grow: what a body has in common with an earlier one is neither parsed nor written again.

An agent sends its whole conversation with every call. What is new in it is at its end, so that the text of a call
begins like that of the call before. Only the part that differs is parsed; all before it are the very objects of then,
which also tells everybody further on that they are the same. What goes upstream of them is the text that came.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from agentrewind.core.codec import Json
from agentrewind.integrations.bodies import written

_LISTS = ("messages", "input")
"""The fields that hold a conversation."""
_KNOWN, _ROOM = 16, 32 << 20
"""How many conversations are remembered, and how many characters of text at most."""


def _with_shared_names(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The same few names stand in each of thousands of messages."""
    return {sys.intern(name): value for name, value in pairs}


_scan = json.JSONDecoder(object_pairs_hook=_with_shared_names).raw_decode
_space = re.compile(r"[ \t\n\r]*").match


class _Odd(ValueError):
    """Nothing that is read here: the library says whether it is JSON."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The beginning of a body, up to the end of the last message."""

    text: str
    name: str
    before: dict[str, Json]
    """The fields that stand before the list."""
    items: list[Json]
    spans: list[tuple[int, int]]
    """Where each item begins and ends in the text."""

    def shared(self, text: str) -> int:
        """With how many of the items `text` begins, and with all that stands before them."""
        if text.startswith(self.text):
            return len(self.items)
        low, high = 0, len(self.items)
        while low < high:
            middle = (low + high + 1) // 2
            start, end = self.spans[low - 1][1] if low else 0, self.spans[middle - 1][1]
            if text[start:end] == self.text[start:end]:
                low = middle
            else:
                high = middle - 1
        return low


class Growing:
    """Reads and writes the bodies of one mount. One thread reads; any thread writes what was read."""

    def __init__(self) -> None:
        self._known: tuple[_Known, ...] = ()
        """The one that was read last comes last."""

    def read(self, content: bytes) -> Json:
        """As `json.loads`. What is equal to a part of an earlier body may be the same object: it isn't to be changed.

        Raises: ValueError, RecursionError: it isn't JSON.
        """
        try:
            return self._read(content.decode("utf-8"))
        except ValueError:  # in another encoding, say
            return json.loads(content)

    def _read(self, text: str) -> Json:
        found = [(known.shared(text), number) for number, known in enumerate(self._known)]
        count, number = max(found, default=(0, 0))
        earlier = self._known[number] if count else None
        body, known = _continued(text, earlier, count) if earlier else _begun(text)
        if known is not None and known.items:
            replaced = earlier if earlier is not None and count == len(earlier.items) else None
            self._remember(known, replaced)
        return body

    def _remember(self, known: _Known, replaced: _Known | None) -> None:
        kept = [item for item in self._known if item is not replaced][1 - _KNOWN :]
        while kept and sum(len(item.text) for item in kept) + len(known.text) > _ROOM:
            del kept[0]
        self._known = (*kept, known)

    def write(self, body: Json) -> bytes:
        """As `bodies.written`, but with the messages of a body that was read as they stood in it."""
        fields = body if isinstance(body, dict) else {}
        name = next((name for name in _LISTS if isinstance(fields.get(name), list) and fields[name]), None)
        known = None if name is None else self._of(fields[name])
        if name is None or known is None:
            return written(body)
        parts = (
            f"{json.dumps(key)}:{f'[{_joined(value, known)}]' if key == name else _text(value)}"
            for key, value in fields.items()
        )
        try:
            return f"{{{','.join(parts)}}}".encode()
        except UnicodeEncodeError:
            return written(body)

    def _of(self, items: list[Json]) -> _Known | None:
        """What was read with the last of these messages, or at least with the first."""
        latest = self._known[::-1]
        whole = (known for known in latest if known.items[-1] is items[-1])
        return next(itertools.chain(whole, (known for known in latest if known.items[0] is items[0])), None)


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _joined(items: list[Json], known: _Known) -> str:
    """The items as text; neighbours that were read as neighbours come in one piece."""
    parts = []
    for first, stop, new in _runs(items, known.items):
        parts.append(_text(new) if stop == 0 else known.text[known.spans[first][0] : known.spans[stop - 1][1]])
    return ",".join(parts)


def _runs(items: list[Json], known: list[Json]) -> Iterator[tuple[int, int, Json]]:
    """The pieces of `items`: from where to where in `known`, or (0, 0) and an item that isn't there."""
    places: dict[int, int] = {}
    first = stop = 0
    for item in items:
        if stop < len(known) and known[stop] is item:
            stop += 1
            continue
        if stop > first:
            yield first, stop, None
        places = places or {id(item): place for place, item in enumerate(known)}
        place = places.get(id(item))
        first = stop = 0 if place is None else place
        if place is None:
            yield 0, 0, item
            first = stop = len(known)
        else:
            stop += 1
    if stop > first:
        yield first, stop, None


# --- reading ----------------------------------------------------------------------------------------------------------


def _begun(text: str) -> tuple[Json, _Known | None]:
    """A body of which nothing is known. Raises: ValueError: it isn't read here."""
    at = _after(text, 0, "{")
    body: dict[str, Json] = {}
    return _fields(text, at, body) if text[at : at + 1] != "}" else _whole(text, at, body, None)


def _continued(text: str, earlier: _Known, count: int) -> tuple[Json, _Known | None]:
    """A body that begins as an earlier one, up to the end of so many items of its list."""
    known = _Known(text, earlier.name, earlier.before, earlier.items[:count], earlier.spans[:count])
    body = {**earlier.before, earlier.name: known.items}
    at = _items(text, _skipped(text, known.spans[-1][1]), known)
    return _rest(text, at, body, _cut(known))


def _fields(text: str, at: int, body: dict[str, Json], known: _Known | None = None) -> tuple[Json, _Known | None]:
    """The fields from here on, of which there is one at least."""
    while True:
        key, at = _scan(text, at)
        if not isinstance(key, str) or key in body:
            raise _Odd
        at = _after(text, at, ":")
        if known is None and key in _LISTS and text[at : at + 1] == "[":
            known = _Known(text, key, dict(body), [], [])
            at = _items(text, _after(text, at, "["), known)
            body[key], known = known.items, _cut(known)
        else:
            body[key], at = _scan(text, at)
        at = _skipped(text, at)
        if text[at : at + 1] == "}":
            return _whole(text, at, body, known)
        at = _after(text, at, ",")


def _rest(text: str, at: int, body: dict[str, Json], known: _Known | None) -> tuple[Json, _Known | None]:
    at = _skipped(text, at)
    if text[at : at + 1] == "}":
        return _whole(text, at, body, known)
    return _fields(text, _after(text, at, ","), body, known)


def _items(text: str, at: int, known: _Known) -> int:
    """Take in the items of a list from here on; where it ends. Only objects: where any other item ends can't be told
    from the item alone.
    """
    if text[at : at + 1] == "]":
        return at + 1
    if known.items:
        at = _after(text, at, ",")
    while True:
        if text[at : at + 1] != "{":
            raise _Odd
        item, end = _scan(text, at)
        known.items.append(item)
        known.spans.append((at, end))
        at = _skipped(text, end)
        if text[at : at + 1] == "]":
            return at + 1
        at = _after(text, at, ",")


def _cut(known: _Known) -> _Known | None:
    """Without what comes after the last item. The list is another one than that in the body, which is its owner's."""
    if not known.items:
        return None
    return _Known(known.text[: known.spans[-1][1]], known.name, known.before, list(known.items), known.spans)


def _whole(text: str, at: int, body: dict[str, Json], known: _Known | None) -> tuple[Json, _Known | None]:
    if _skipped(text, at + 1) != len(text):
        raise _Odd
    return body, known


def _after(text: str, at: int, sign: str) -> int:
    """Behind this sign, which must come next, and the white space around it."""
    at = _skipped(text, at)
    if text[at : at + 1] != sign:
        raise _Odd
    return _skipped(text, at + 1)


def _skipped(text: str, at: int) -> int:
    found = _space(text, at)
    assert found is not None
    return found.end()
