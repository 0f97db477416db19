"""Canonical JSON, content ids, and plain dictionaries to and from frozen dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

Json = Any
"""Whatever `json.loads` returns."""

T = TypeVar("T")


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_encode_as_ascii = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_PLAIN = frozenset((str, int, float, bool, type(None)))


def canonical(value: Json) -> bytes:
    """UTF-8 JSON with sorted keys, no insignificant white space and no Unicode normalisation.

    Lone surrogates (names with undecodable bytes) are written as escapes, so that any string has one form.
    """
    try:
        return _encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return _encode_as_ascii(value).encode("ascii")


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """`sha256:` and the hash of the canonical form."""
    return digest_bytes(canonical(value))


def to_plain(value: Any) -> Json:
    """A dataclass as a dictionary of JSON values; fields that equal their default, or what its factory makes, are
    left out.
    """
    if type(value) in _PLAIN:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for name, default in _defaults(type(value)).items():
            item = getattr(value, name)
            if item != default:
                plain[name] = item if type(item) in _PLAIN else to_plain(item)
        return plain
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return value


@functools.cache
def _defaults(cls: type) -> dict[str, Any]:
    """Each field and its default; `MISSING`, which equals no value, where there is none."""
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(cls)
    }


_known_hints: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    if cls not in _known_hints:
        _known_hints[cls] = typing.get_type_hints(cls)
    return _known_hints[cls]


def from_plain(cls: type[T], plain: Json) -> T:
    """The inverse of `to_plain` for dataclasses of JSON values, tuples and other such dataclasses.

    Unknown keys are left out (a newer writer may add some).

    Raises:
        TypeError: a field is missing or holds a value of another type, or `plain` isn't a dictionary.
    """
    if not isinstance(plain, dict):
        raise TypeError(f"{cls.__name__}: expected an object, got {type(plain).__name__}")
    hints = _hints(cls)
    known = {name: _build(hints[name], item, name) for name, item in plain.items() if name in hints}
    return cls(**known)


def _build(hint: Any, value: Json, name: str) -> Any:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _build(_present(hint), value, name)
    if origin is tuple:
        return _build_tuple(get_args(hint), value, name)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value)
    if not _fits(hint, origin, value):
        raise TypeError(f"{name}: a value of type {type(value).__name__} can't stand here")
    return value


def _present(hint: Any) -> Any:
    """`X` of `X | None`."""
    return next(arg for arg in get_args(hint) if arg is not types.NoneType)


def _build_tuple(inner: tuple[Any, ...], value: Json, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name}: expected a list, got {type(value).__name__}")
    if inner[-1] is Ellipsis:
        return tuple(_build(inner[0], item, name) for item in value)
    if len(inner) != len(value):
        raise TypeError(f"{name}: expected {len(inner)} items, got {len(value)}")
    return tuple(_build(hint, item, name) for hint, item in zip(inner, value, strict=True))


def _fits(hint: Any, origin: Any, value: Json) -> bool:
    if origin is typing.Literal:
        return isinstance(value, str | int) and value in get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    wanted = origin or hint
    return wanted is Any or not isinstance(wanted, type) or isinstance(value, wanted)
