"""Server-sent events, read from and written to whole bodies (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its type (empty where the stream names none) and its data."""

    type: str
    data: str


def events(body: bytes) -> Iterator[ServerEvent]:
    """The events of a body, comments left out. A last event without its closing blank line counts too.

    Raises:
        ProviderError: the bytes are not UTF-8.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProviderError(f"The provider's event stream is not UTF-8: {error}") from error
    kind, data = "", list[str]()
    for line in [*_LINE_END.split(text), ""]:
        if not line:
            if data:
                yield ServerEvent(kind, "\n".join(data))
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            kind = value


def write(payloads: Iterable[Json], *, done: str | None = None) -> bytes:
    """A stream with one event for each payload, and `done` as the data of a last one."""
    data = [json.dumps(payload) for payload in payloads]
    if done is not None:
        data.append(done)
    return "".join(f"data: {item}\n\n" for item in data).encode("ascii")


def write_named(payloads: Iterable[Json]) -> bytes:
    """A stream with one event for each payload, named as the payload's own `type`."""
    return "".join(f"event: {item['type']}\ndata: {json.dumps(item)}\n\n" for item in payloads).encode("ascii")
