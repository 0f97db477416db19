"""Canonical JSON, content ids, and plain dictionaries to and from frozen dataclasses."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

Json = Any
"""Whatever `json.loads` returns."""

T = TypeVar("T")


def canonical(value: Json) -> bytes:
    """UTF-8 JSON with sorted keys, no insignificant white space and no Unicode normalisation.

    Lone surrogates (names with undecodable bytes) are written as escapes, so that any string has one form.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """`sha256:` and the hash of the canonical form."""
    return digest_bytes(canonical(value))


def to_plain(value: Any) -> Json:
    """A dataclass as a dictionary of JSON values; fields that equal their default are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not (field.default is not dataclasses.MISSING and getattr(value, field.name) == field.default)
        }
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return value


_known_hints: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    if cls not in _known_hints:
        _known_hints[cls] = typing.get_type_hints(cls)
    return _known_hints[cls]


def from_plain(cls: type[T], plain: Json) -> T:
    """The inverse of `to_plain` for dataclasses of JSON values, tuples and other such dataclasses.

    Unknown keys are left out (a newer writer may add some).

    Raises:
        TypeError: a field is missing, or `plain` isn't a dictionary.
    """
    if not isinstance(plain, dict):
        raise TypeError(f"{cls.__name__}: expected an object, got {type(plain).__name__}")
    hints = _hints(cls)
    known = {name: _build(hints[name], item) for name, item in plain.items() if name in hints}
    return cls(**known)


def _build(hint: Any, value: Json) -> Any:
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _build(next(arg for arg in get_args(hint) if arg is not types.NoneType), value)
    if origin is tuple:
        return tuple(_build(get_args(hint)[0], item) for item in value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value)
    return value
