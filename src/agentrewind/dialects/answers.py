"""Reading what a provider sent: JSON that may be anything, until it is checked."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError
from agentrewind.dialects import sse

_SHOWN = 300
"""How many characters of an answer stand in an error."""


def plain(body: bytes) -> Json:
    """The object in the body of a plain answer.

    Raises:
        ProviderError: there is none, or it is an error.
    """
    try:
        response = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"The provider's answer is not JSON ({error}): {shown(body)}") from error
    return checked(response)


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
            payload = json.loads(event.data)
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
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def count(counts: Json, key: str) -> int:
    """A number of tokens; 0 where none is given."""
    value = counts.get(key) if isinstance(counts, dict) else None
    return value if isinstance(value, int) else 0


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
