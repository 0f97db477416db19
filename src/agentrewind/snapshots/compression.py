"""How a stored body is packed: raw, zstd or zlib, named by one byte beside it."""

from __future__ import annotations

import importlib
import threading
import zlib
from typing import TYPE_CHECKING

zstandard: ModuleType | None
try:
    zstandard = importlib.import_module("zstandard")
except ImportError:  # zlib alone: slower and a little larger, readable by every Python
    zstandard = None

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

RAW, ZSTD, ZLIB = 0, 1, 2
_WORTH_IT = 0.95
_LEVEL = 1


class Unpackable(ValueError):
    """A body that doesn't unpack to what it should, or needs a codec that isn't installed."""


def _packer() -> tuple[int, Callable[[bytes], bytes]]:
    if zstandard is None:
        return ZLIB, lambda data: zlib.compress(data, _LEVEL)
    return ZSTD, _zstd


class _Own(threading.local):
    """A compressor of each thread's own: they can't be shared."""

    def __init__(self) -> None:
        if zstandard is not None:
            self.compress = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False, threads=0).compress


_own = _Own()


def _zstd(data: bytes) -> bytes:
    packed: bytes = _own.compress(data)
    return packed


_codec, _pack = _packer()
_DAMAGE: tuple[type[Exception], ...] = (zlib.error, MemoryError, *((zstandard.ZstdError,) if zstandard else ()))


def pack(data: bytes) -> tuple[int, bytes]:
    """Codec and body; raw where compression wins less than a twentieth."""
    packed = _pack(data)
    return (_codec, packed) if len(packed) < len(data) * _WORTH_IT else (RAW, data)


def unpack(codec: int, body: bytes, size: int) -> bytes:
    """The `size` bytes that were packed; never more memory than that, whatever the body claims.

    Raises:
        Unpackable.
    """
    try:
        data = _unpack(codec, body, size)
    except _DAMAGE as error:
        raise Unpackable(f"a packed body is damaged: {error}") from error
    if len(data) != size:
        raise Unpackable("a packed body has another length than it says")
    return data


def _unpack(codec: int, body: bytes, size: int) -> bytes:
    if codec == RAW:
        return body
    if codec == ZLIB:
        return zlib.decompressobj().decompress(body, size + 1)
    if codec != ZSTD:
        raise Unpackable(f"unknown codec {codec}")
    if zstandard is None:
        raise Unpackable("packed with zstd: install the package `zstandard` to read it")
    with zstandard.ZstdDecompressor().stream_reader(body) as reader:
        return bytes(reader.read(size + 1))
