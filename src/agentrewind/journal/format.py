"""One line of a journal: JSON that `jq` reads, whose last field is a checksum over all of the line before it.

::

    journal.jsonl   {"n":3,"event":"node_ended", …fields of the event… ,"crc":"89abcdef"}
    content.jsonl   {"n":5,"content": …canonical JSON… ,"crc":"89abcdef"}

`n` counts the lines of its file from 0, so that a line that is gone, doubled or moved shows. An event names a content
by its `n`; the id by which it is named in memory, the SHA-256 of the canonical JSON, is stored nowhere. The checksum
is CRC-32 in hex: it finds every changed byte and every burst of up to 32 bits.
Reading raises `ValueError` with what is wrong; the caller knows the file and the offset.
"""

from __future__ import annotations

import dataclasses
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from math import isfinite

from agentrewind.core import codec
from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.core.records import EVENT_TAGS, EVENTS, Event, MessageId
from agentrewind.journal.naming import renamed

JOURNAL = "journal.jsonl"
CONTENT = "content.jsonl"

MAX_LINE = 64 << 20
"""Bytes of one line. Nothing longer is written, and nothing longer is read into memory."""
MAX_DEPTH = 200
"""How deep lists and objects may lie in one another."""

_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"}\Z')
_SEAL_LENGTH = len(b',"crc":"00000000"}')
_CONTENT_HEAD = re.compile(rb'\{"n":(0|[1-9][0-9]{0,17}),"content":')


def encode_event(number: int, event: Event, number_of: Callable[[MessageId], int]) -> bytes:
    """The line of `event`, line feed included; `number_of` gives the number of each content that it names.

    Raises:
        UsageError: it holds what JSON can't, a field is of another type than it says, or it is too long.
    """
    plain = codec.to_plain(event)
    try:
        codec.from_plain(type(event), plain)
    except TypeError as error:
        raise UsageError(f"This {type(event).__name__} can't be recorded: {error}. Nothing was written.") from error
    plain = renamed(type(event), plain, number_of)
    return _sealed(_written({"n": number, "event": EVENT_TAGS[type(event)]} | plain, sort_keys=False)[:-1])


def decode_event(line: bytes, id_of: Callable[[int], MessageId]) -> tuple[int, Event]:
    """The number and the event of a line without its line feed.

    `id_of` gives the id of the content with a number, or raises `ValueError` where there is none.

    Raises:
        ValueError: the checksum, the JSON, the tag, a type or the number of a content is wrong.
    """
    check_seal(line)
    plain = parse(line)
    if not isinstance(plain, dict) or type(plain.get("n")) is not int:
        raise ValueError("it is no journal line: the line number is missing")
    tag = plain.get("event")
    if not isinstance(tag, str) or tag not in EVENTS:
        raise ValueError(f"no event is called {str(tag)[:60]!r} (was it written by a newer agentrewind?)")
    try:
        return plain["n"], codec.from_plain(EVENTS[tag], renamed(EVENTS[tag], plain, lambda number: _id(number, id_of)))
    except TypeError as error:
        raise ValueError(f"the event {tag!r} is malformed ({error})") from error


def _id(number: Json, id_of: Callable[[int], MessageId]) -> MessageId:
    if type(number) is not int or number < 0:
        raise TypeError("a content is named by something that is not a line number")
    return id_of(number)


def encode_content(number: int, data: bytes) -> tuple[bytes, int]:
    """The line of `data` (canonical JSON), line feed included, and where in it `data` begins.

    Raises:
        UsageError: it is too long.
    """
    head = b'{"n":%d,"content":' % number
    return _sealed(head + data), len(head)


def locate_content(line: bytes) -> tuple[int, int, int]:
    """The number of a content line, and where in it the content begins and ends. The content isn't parsed.

    Raises:
        ValueError: the checksum or the frame is wrong.
    """
    check_seal(line)
    head = _CONTENT_HEAD.match(line)
    if head is None:
        raise ValueError('it is no content line: it doesn\'t begin with {"n":…,"content":')
    return int(head[1]), head.end(), len(line) - _SEAL_LENGTH


def content_id(data: bytes) -> MessageId:
    """The id of the content whose canonical form is `data`."""
    return MessageId(codec.digest_bytes(data))


def open_content(found: MessageId, data: bytes) -> Json:
    """The content whose canonical form is `data`.

    Raises:
        ValueError: it isn't what `found` names, or isn't JSON.
    """
    if content_id(data) != found:
        raise ValueError(f"its bytes don't hash to its id {found[:19]}…")
    return parse(data)


def canonical(content: Json) -> bytes:
    """As `codec.canonical`. Raises: UsageError: it holds what JSON can't."""
    return _written(content, sort_keys=True)


def is_sealed(line: bytes) -> bool:
    """Whether a line ends with the right checksum."""
    seal = _SEAL.search(line[-_SEAL_LENGTH:])
    return seal is not None and int(seal[1], 16) == zlib.crc32(memoryview(line)[:-_SEAL_LENGTH])


def check_seal(line: bytes) -> None:
    """Raises: ValueError."""
    if not is_sealed(line):
        raise ValueError("the checksum doesn't match the line")


def parse(data: bytes) -> Json:
    """Strict JSON: UTF-8, no key twice, no NaN, no infinity, at most `MAX_DEPTH` levels.

    Raises:
        ValueError: it isn't that.
    """
    try:
        value = _decoder.decode(data.decode("utf-8"))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if too_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def too_deep(value: object) -> bool:
    """Whether `value` (JSON, or a record that holds some) has more than `MAX_DEPTH` levels. Takes no stack."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
        if len(level) > MAX_LINE // 2:  # more than a line can hold: a cycle, most likely
            return True
    return True


def refuse_deep(value: object) -> None:
    """Raises: UsageError: `value` is nested too deep to be written and read back."""
    if too_deep(value):
        raise UsageError(f"This can't be recorded: {_TOO_DEEP}. Nothing was written.")


def _children(value: object) -> Iterable[object]:
    if value is None or isinstance(value, str | int | float):
        return ()
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return ()


_TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"


def _sealed(body: bytes) -> bytes:
    line = b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body))
    if len(line) > MAX_LINE:
        raise UsageError(
            f"An entry of {len(line):,} bytes is too long for the journal (at most {MAX_LINE:,}). Nothing was written."
        )
    return line


def _written(value: Json, *, sort_keys: bool) -> bytes:
    try:
        return codec.canonical(value) if sort_keys else _as_given(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"This can't be recorded as JSON: {error}. Nothing was written.") from error


def _as_given(value: Json) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _object(pairs: list[tuple[str, Json]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("a number is too large")
    return number


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant)
