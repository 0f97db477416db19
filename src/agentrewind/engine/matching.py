"""Whether what a new process asks is what was asked before, and where it isn't (rewind.md, section 4)."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message

ALLOWED = frozenset(
    {
        "client_metadata",
        "metadata",
        "prompt_cache_key",
        "safety_identifier",
        "seed",
        "stream",
        "stream_options",
        "user",
    }
)
"""Parameters of a request that may differ between two processes without it being another question."""
SHOWN = 5
"""How many differences are told."""
WIDTH = 60


class Verdict(enum.Enum):
    EXACT = "exact"
    SOFT = "soft"
    """Only volatile fields of messages, or parameters in `ALLOWED`, differ."""
    HARD = "hard"
    """It is another question: nothing recorded answers it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a model, secrets redacted: what can be compared."""

    model: str
    params: Json
    tools: Json
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Comparison:
    verdict: Verdict
    differences: tuple[str, ...] = ()
    """Where the two differ, in words: the first `SHOWN`."""


def compare(recorded: Asked, now: Asked, canonical: Callable[[Message], Json]) -> Comparison:
    """What `now` is to `recorded`."""
    found = tuple(itertools.islice(_differences(recorded, now), SHOWN))
    if not found:
        return Comparison(Verdict.EXACT)
    same = (recorded.model, _bare(recorded.params), recorded.tools) == (now.model, _bare(now.params), now.tools)
    soft = same and [canonical(item) for item in recorded.messages] == [canonical(item) for item in now.messages]
    return Comparison(Verdict.SOFT if soft else Verdict.HARD, found)


def _bare(params: Json) -> Json:
    return {key: value for key, value in params.items() if key not in ALLOWED}


def _differences(recorded: Asked, now: Asked) -> Iterator[str]:
    yield from differing("model", recorded.model, now.model)
    yield from differing("params", recorded.params, now.params)
    yield from differing("tools", recorded.tools, now.tools)
    yield from differing("messages", list(recorded.messages), list(now.messages))


def differing(where: str, before: Json, now: Json) -> Iterator[str]:
    """Each place in which two JSON values differ: `messages[2].content was 'a', is 'b'`."""
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from differing(f"{where}.{key}", before.get(key), now.get(key))
    elif isinstance(before, list) and isinstance(now, list):
        for index, (left, right) in enumerate(zip(before, now, strict=False)):
            yield from differing(f"{where}[{index}]", left, right)
        if len(before) != len(now):
            yield f"{where} had {len(before)} items, has {len(now)}"
    else:
        yield f"{where} was {_around(before, now)}, is {_around(now, before)}"


def _around(value: Json, other: Json) -> str:
    """`value`, cut to the neighbourhood of the first character that isn't that of `other`."""
    if not isinstance(value, str) or not isinstance(other, str):
        return _cut(repr(value))
    at = next((place for place, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), len(other))
    start = max(at - WIDTH // 3, 0)
    return _cut(repr(("…" if start else "") + value[start:]))


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
