"""Secrets out of an event: every text and JSON value in it is rewritten, ids and words of a fixed choice are not."""

from __future__ import annotations

import dataclasses
import functools
import operator
import typing
from collections.abc import Callable
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.records import Event

Redact = Callable[[Json], Json]


def as_is(value: Json) -> Json:
    return value


def redacted(event: Event, redact: Redact) -> Event:
    """`event` with `redact` applied to all that could hold a secret, so that a field added later is covered too. What
    holds none is the very object that was given: a tree of thousands of events shares what is equal in them.
    """
    return typing.cast("Event", _rebuilt(event, redact))


def _rebuilt(value: Any, redact: Redact) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        known = {name: getattr(value, name) for name in _open_fields(type(value))}
        found = {name: _rebuilt(item, redact) for name, item in known.items()}
        changed = {name: item for name, item in found.items() if item is not known[name]}
        return dataclasses.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        items = tuple(_rebuilt(item, redact) for item in value)
        return value if all(map(operator.is_, items, value)) else items
    clean = redact(value)
    return value if clean == value else clean


@functools.cache
def _open_fields(cls: type) -> tuple[str, ...]:
    return tuple(name for name, hint in typing.get_type_hints(cls).items() if not _is_fixed(hint))


def _is_fixed(hint: Any) -> bool:
    """Whether a field holds an id or one of a few words: neither can hold a secret."""
    args = typing.get_args(hint)
    return isinstance(hint, typing.NewType) or typing.get_origin(hint) is typing.Literal or any(map(_is_fixed, args))
