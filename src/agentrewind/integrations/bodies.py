"""The body of a request as JSON, and back. Both mounts read and write it alike."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from agentrewind.core.codec import Json

_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class TooLarge(Exception):
    """A body is longer than we take."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The body isn't JSON: nothing that an interposer could work on."""


def parsed(
    content: bytes, encoding: str, limit: int | None = None, load: Callable[[bytes], Json] = json.loads
) -> Json | Unreadable:
    """The JSON in a body that may be compressed, as `load` reads it.

    Raises:
        TooLarge: it would be longer than `limit` bytes, unpacked.
    """
    try:
        return load(_decoded(content, encoding.strip().lower(), limit))
    except (ValueError, RecursionError, zlib.error, LookupError):
        return Unreadable()


def _decoded(content: bytes, encoding: str, limit: int | None) -> bytes:
    if encoding in ("", "identity"):
        return content
    if encoding == "zstd":
        return _of_zstd(content, limit)
    inflater = zlib.decompressobj(_WINDOWS[encoding])
    found = _checked(inflater.decompress(content, 0 if limit is None else limit + 1), limit)
    if not inflater.eof:
        raise ValueError("the compressed body is cut short")
    return found


def _of_zstd(content: bytes, limit: int | None) -> bytes:
    import zstandard  # not before a body needs it: this module is part of `install()`

    try:
        with zstandard.ZstdDecompressor().stream_reader(content) as reader:
            return _checked(reader.read(-1 if limit is None else limit + 1), limit)
    except zstandard.ZstdError as error:
        raise ValueError("the body is not zstd") from error


def _checked(content: bytes, limit: int | None) -> bytes:
    if limit is not None and len(content) > limit:
        raise TooLarge
    return content


def written(body: Json) -> bytes:
    """JSON as SDKs write it."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair: only an escape can carry it
        return json.dumps(body, separators=(",", ":")).encode("ascii")
