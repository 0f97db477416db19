"""The contents that an event names: by id in memory, by the number of their line on disk.

Which fields of a record name contents follows from their types, so that a field added later is covered too.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.records import MessageId

Rename = Callable[[Json], Json]


def renamed(record: type, plain: Json, rename: Rename) -> Json:
    """`plain`, which stands for a `record`, with `rename` applied to each content that it names."""
    if not isinstance(plain, dict):
        return plain
    new = {name: act(plain[name], rename) for name, act in _naming(record).items() if name in plain}
    return plain | new


@functools.cache
def _naming(record: type) -> dict[str, Callable[[Json, Rename], Json]]:
    """The fields of `record` that name contents, or hold records that do, and how each is renamed."""
    hints = typing.get_type_hints(record)
    acts = {name: _act(hint) for name, hint in hints.items()}
    return {name: act for name, act in acts.items() if act is not None}


def _act(hint: Any) -> Callable[[Json, Rename], Json] | None:
    if hint is MessageId:
        return _one
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return functools.partial(renamed, hint) if _naming(hint) else None
    origin, inner = typing.get_origin(hint), [_act(part) for part in typing.get_args(hint)]
    act = next((part for part in inner if part is not None), None)
    if act is None or origin in (typing.Union, types.UnionType):
        return act
    return functools.partial(_each, act)


def _one(plain: Json, rename: Rename) -> Json:
    return None if plain is None else rename(plain)


def _each(act: Callable[[Json, Rename], Json], plain: Json, rename: Rename) -> Json:
    return [act(item, rename) for item in plain] if isinstance(plain, list) else plain
