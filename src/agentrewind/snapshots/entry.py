"""One path of a snapshot, as canonical bytes and as a record.

The bytes are what manifests hold, compare and hash; the record is for those who want to read a field. Everything
after the first byte is what a restore makes equal, so equal bytes mean equal states.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

FILE: Final = b"f"
DIRECTORY: Final = b"d"
SYMLINK: Final = b"l"
FIFO: Final = b"p"
EXCLUDED: Final = b"x"
"""Left out on purpose; `why` says which rule, `note` is a keyed hash that tells whether it has changed."""
UNREADABLE: Final = b"u"
"""Could not be read: what is there, and below it, is unknown."""
VOLATILE: Final = b"v"
"""A cache file that tools rebuild; `note` is its stat signature. Its directories have no note."""

TRACKED: Final = frozenset((FILE, DIRECTORY, SYMLINK, FIFO))

PRIVATE: Final = 1
SPARSE: Final = 2
LOST_XATTRS: Final = 4
"""Has extended attributes of a kind that isn't kept."""
LOST_FLAGS: Final = 8
"""Has flags that `chattr` sets: not kept."""
LOSSY: Final = LOST_XATTRS | LOST_FLAGS

SMALL: Final = 4 << 20
"""Files up to this size are one object; larger ones a list of chunks."""
CHUNK: Final = 1 << 20
ZERO_ID: Final = bytes(32)
"""Stands for a chunk that is all zeros."""

_HEAD = struct.Struct("<BcHIIq")
_CONTENT = struct.Struct("<Q32s")
_TAIL = struct.Struct("<cI")
_PAIR = struct.Struct("<II")

LEAST: Final = _HEAD.size
"""Bytes that every encoded entry has at least."""
LEAST_OF_FILE: Final = _HEAD.size + _CONTENT.size


class Malformed(ValueError):
    """Bytes that no version of this program writes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path's state. Times in nanoseconds; `mode` without the type bits."""

    kind: bytes
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0
    size: int = 0
    content: bytes = b""
    """Of a file: the id of its bytes, or of the list of its chunks where `size` is above `SMALL`."""
    target: bytes = b""
    """Of a symbolic link: its text."""
    xattrs: bytes = b""
    """`encode_xattrs` of the `user.` namespace, access lists and capabilities, sealed where the path is private."""
    leader: str = ""
    """Of a file with several names in the world: the smallest of them."""
    why: str = ""
    note: bytes = b""
    flags: int = 0

    @property
    def private(self) -> bool:
        return bool(self.flags & PRIVATE)

    @property
    def sparse(self) -> bool:
        return bool(self.flags & SPARSE)


def encode(entry: Entry) -> bytes:
    parts = [_HEAD.pack(entry.flags, entry.kind, entry.mode, entry.uid, entry.gid, entry.mtime_ns)]
    if entry.kind == FILE:
        parts.append(_CONTENT.pack(entry.size, entry.content))
    for tag, value in (
        (b"T", entry.target),
        (b"X", entry.xattrs),
        (b"H", encode_text(entry.leader)),
        (b"W", encode_text(entry.why)),
        (b"K", entry.note),
    ):
        if value:
            parts += (_TAIL.pack(tag, len(value)), value)
    return b"".join(parts)


def plain_file(st: os.stat_result, size: int, content: bytes, flags: int) -> bytes:
    """`encode` for the commonest entry, without the detour."""
    head = _HEAD.pack(flags, FILE, st.st_mode & 0o7777, st.st_uid, st.st_gid, st.st_mtime_ns)
    return head + _CONTENT.pack(size, content)


@lru_cache(maxsize=1 << 14)
def decode(data: bytes) -> Entry:
    """The inverse of `encode`.

    Raises:
        Malformed: not the bytes of an entry.
    """
    try:
        flags, kind, mode, uid, gid, mtime_ns = _HEAD.unpack_from(data)
        at = _HEAD.size
        size, content = 0, b""
        if kind == FILE:
            size, content = _CONTENT.unpack_from(data, at)
            at += _CONTENT.size
        tail: dict[bytes, bytes] = {}
        while at < len(data):
            tag, length = _TAIL.unpack_from(data, at)
            at += _TAIL.size
            tail[tag] = data[at : at + length]
            if len(tail[tag]) != length:
                raise Malformed("an entry ends too early")
            at += length
    except struct.error as error:
        raise Malformed("an entry ends too early") from error
    if b"\0" in tail.get(b"T", b"") or b"\0" in tail.get(b"H", b""):
        raise Malformed("there is a name or the text of a link with a zero byte")
    return Entry(
        kind, mode, uid, gid, mtime_ns, size, content,
        tail.get(b"T", b""), tail.get(b"X", b""), decode_text(tail.get(b"H", b"")),
        decode_text(tail.get(b"W", b"")), tail.get(b"K", b""), flags,
    )  # fmt: skip


def kind_of(data: bytes | None) -> bytes:
    """The kind of encoded entry; empty for None."""
    return b"" if data is None else data[1:2]


def same(a: bytes | None, b: bytes | None) -> bool:
    """Whether a restore need not touch this path: equal but for flags, which say how it is stored."""
    return a == b or (a is not None and b is not None and a[1:] == b[1:])


def holds_the_same(a: bytes, b: bytes) -> bool:
    """Whether two encoded entries of one kind differ in attributes only: not in bytes, nor where a link leads."""
    if a[1:2] == FILE:
        return a[_HEAD.size : LEAST_OF_FILE] == b[_HEAD.size : LEAST_OF_FILE]
    return a[1:2] != SYMLINK or decode(a).target == decode(b).target


def with_leader(data: bytes, leader: str) -> bytes:
    entry = decode(data)
    return data if entry.leader == leader else encode(replace(entry, leader=leader))


_MODULUS = 1 << 256


def weight(path: str, data: bytes) -> int:
    """What `path` adds to the fingerprint of a state: a sum, so that a step costs only its changes.

    Only what a restore makes equal counts: not what is excluded, volatile or unreadable.
    """
    if data[1:2] not in TRACKED:
        return 0
    return int.from_bytes(hashlib.sha256(encode_text(path) + b"\0" + data[1:]).digest(), "big")


def add(fingerprint: int, plus: int, minus: int) -> int:
    return (fingerprint + plus - minus) % _MODULUS


_UTF8 = sys.getfilesystemencoding().lower() == "utf-8"


def encode_text(text: str) -> bytes:
    """A name as the bytes that the file system holds, whatever the locale says about them."""
    return text.encode("utf-8", "surrogateescape") if _UTF8 else os.fsencode(text)


def decode_text(data: bytes) -> str:
    return os.fsdecode(data)


def encode_xattrs(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(_PAIR.pack(len(name), len(value)) + name + value for name, value in sorted(pairs))


def decode_xattrs(data: bytes) -> list[tuple[bytes, bytes]]:
    """Raises: Malformed."""
    pairs = []
    at = 0
    try:
        while at < len(data):
            names, values = _PAIR.unpack_from(data, at)
            at += _PAIR.size
            pairs.append((data[at : at + names], data[at + names : at + names + values]))
            at += names + values
            if b"\0" in pairs[-1][0]:
                raise Malformed("there is an extended attribute whose name has a zero byte")
    except struct.error as error:
        raise Malformed("extended attributes end too early") from error
    return pairs


def check_path(path: str) -> str:
    """The path, if it can only name something below a root.

    Raises:
        Malformed: absolute, with `..`, `.`, empty components or a zero byte.
    """
    if path and ("\0" in path or any(part in ("", ".", "..") for part in path.split("/"))):
        raise Malformed(f"{path!r} is not a path below the workspace")
    return path


def size_of(data: bytes) -> int:
    """The size in the encoded entry of a file."""
    size: int = _CONTENT.unpack_from(data, _HEAD.size)[0]
    return size


def without_time(data: bytes) -> bytes:
    """The encoded entry as if its time were none."""
    return data[1 : _HEAD.size - 8] + data[_HEAD.size :]


def content_of(data: bytes) -> bytes:
    """The content id in the encoded entry of a file."""
    content: bytes = _CONTENT.unpack_from(data, _HEAD.size)[1]
    return content


def lost(data: bytes) -> str:
    """What of the encoded entry's path isn't kept, in words; empty where that is nothing."""
    words = ((LOST_XATTRS, "extended attributes outside of `user.`"), (LOST_FLAGS, "flags that chattr sets"))
    what = " and ".join(word for bit, word in words if data[0] & bit)
    return f"kept, but without its {what}" if what else ""


def with_mode(data: bytes, mode: int) -> bytes:
    entry = decode(data)
    return data if entry.mode == mode else encode(replace(entry, mode=mode))


def is_volatile_directory(data: bytes) -> bool:
    return data[1:2] == VOLATILE and len(data) == _HEAD.size


def masked(data: bytes, without: set[str]) -> bytes:
    """The entry as if the named attributes (`owner`, `mode`, `times`, `xattrs`) were none."""
    entry = decode(data)
    if "owner" in without:
        entry = replace(entry, uid=0, gid=0)
    if "mode" in without:
        entry = replace(entry, mode=0)
    if "times" in without:
        entry = replace(entry, mtime_ns=0)
    if "xattrs" in without:
        entry = replace(entry, xattrs=b"")
    return encode(replace(entry, flags=0))


def as_foreign(data: bytes, uid: int, gid: int) -> bytes:
    """The entry for a place of somebody else: our own user's, without set-uid and set-gid."""
    entry = decode(data)
    return encode(replace(entry, uid=uid, gid=gid, mode=entry.mode & 0o1777))
