"""Reading what a provider sent: JSON that may be anything, until it is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator

from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError
from agentrewind.dialects import sse
from agentrewind.dialects.base import Reply

_SHOWN = 300
"""How many characters of an answer stand in an error."""
MAX_DEPTH = 100
"""How deep an answer may be nested; a journal takes twice as much, with what stands around it."""


def read(body: bytes, *, stream: bool, assembled: Callable[[bytes], Json], reply: Callable[[Json], Reply]) -> Reply:
    """An answer of one dialect: `assembled` makes one object of a stream, `reply` reads such an object.

    A plain answer to a streamed request is understood too.

    Raises:
        ProviderError: it isn't one.
    """
    is_plain = not stream or body.lstrip()[:1] == b"{"
    try:
        return reply(plain(body) if is_plain else assembled(body))
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # JSON, but not in the shape of an answer
        raise ProviderError(f"The provider's answer has an unknown shape ({error}): {shown(body)}") from error


def plain(body: bytes) -> Json:
    """The object in the body of a plain answer.

    Raises:
        ProviderError: there is none, or it is an error.
    """
    try:
        response = load(body)
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"The provider's answer is not JSON ({error}): {shown(body)}") from error
    return checked(response)


def load(text: str | bytes) -> Json:
    """Strict JSON, no deeper than what a journal holds.

    Raises:
        ValueError, RecursionError: it isn't that.
    """
    value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    if _deeper_than(MAX_DEPTH, value):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    return value


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large a number")
    return value


def _deeper_than(levels: int, value: Json) -> bool:
    level = [value]
    for _ in range(levels):
        level = [child for item in level if isinstance(item, dict | list) for child in _children(item)]
        if not level:
            return False
    return True


def _children(item: dict[str, Json] | list[Json]) -> list[Json]:
    return list(item.values()) if isinstance(item, dict) else item


def payloads(body: bytes) -> Iterator[Json]:
    """The objects of a stream; None for its `[DONE]`.

    Raises:
        ProviderError: one is not an object, or is an error.
    """
    for event in sse.events(body):
        if event.data.strip() == "[DONE]":
            yield None
            continue
        try:
            payload = load(event.data)
        except (ValueError, RecursionError) as error:
            raise ProviderError(f"An event of the provider's stream is not JSON: {shown(event.data)}") from error
        yield checked(payload)


def checked(payload: Json) -> Json:
    """`payload` where it is an object and not an error."""
    if not isinstance(payload, dict):
        raise ProviderError(f"The provider's answer is not an object: {shown(json.dumps(payload))}")
    if payload.get("error") or payload.get("object") == "error" or payload.get("type") == "error":
        error = payload.get("error") or payload
        text = error.get("message") if isinstance(error, dict) else error
        raise ProviderError(f"The provider answered with an error: {shown(str(text or error))}")
    return payload


def openai_refusal(text: str, code: str) -> Json:
    """An error body in both dialects of OpenAI."""
    return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": code}}


def check(what: str, value: Json, *types: type) -> None:
    """Pass where `value` is of one of these types.

    Raises:
        ProviderError: it isn't.
    """
    if not isinstance(value, types):
        raise ProviderError(f"In the provider's answer, the {what} is not as it should be: {shown(json.dumps(value))}")


def shown(text: str | bytes) -> str:
    """The beginning, for an error."""
    found = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return found if len(found) <= _SHOWN else found[:_SHOWN] + "…"


def shown_end(body: bytes) -> str:
    """The end, for an error about what is missing after it."""
    return shown(body[-_SHOWN:])


def arguments(text: str) -> Json | None:
    """The parsed arguments of a call, None where they don't parse; an empty text is how some models call without."""
    if not text.strip():
        return {}
    try:
        return load(text)
    except (ValueError, RecursionError):
        return None


def count(counts: Json, key: str) -> int:
    """A number of tokens; 0 where none is given, or none that can be."""
    value = counts.get(key) if isinstance(counts, dict) else None
    return value if type(value) is int and value > 0 else 0


def update(into: dict[str, Json], values: dict[str, Json]) -> None:
    """A later value replaces an earlier one; null replaces nothing."""
    for key, value in values.items():
        if value is not None or key not in into:
            into[key] = value


def joined(value: Json) -> Json:
    """Surrogate pairs that a stream cut in two, put together again."""
    if isinstance(value, str):
        if value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value):
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, dict):
        return {key: joined(item) for key, item in value.items()}
    if isinstance(value, list):
        return [joined(item) for item in value]
    return value
