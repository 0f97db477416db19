"""Reading one file as one consistent state, whatever others do to it meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.entry import CHUNK, SMALL, ZERO_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrewind.snapshots.private import Keys

ATTEMPTS = 3
SIGNATURE = struct.Struct("<QQIQqq")
_ZEROS = bytes(CHUNK)
ALSO_KEPT = frozenset(("system.posix_acl_access", "system.posix_acl_default", "security.capability"))
"""Extended attributes that a snapshot keeps besides those of `user.`."""
_KEPT_BY_THE_SYSTEM = frozenset(("security.selinux", "security.ima", "security.evm"))
"""Labels that the system's policy sets on every file by itself."""
_GET_FLAGS = 0x80006601 | struct.calcsize("l") << 16
_FLAGS = struct.Struct("l")
_SET_BY_CHATTR = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80 | 0x4000 | 0x8000 | 0x10000 | 0x800000 | 0x40000000
"""Of the flags in `linux/fs.h`: s, u, c, S, i, a, d, A, j, t, D, C, F; not those that a file system sets by itself."""
_NO_XATTRS = frozenset((errno.ENOTSUP, errno.ENOSYS, errno.EPERM, errno.EACCES))


class Sink(Protocol):
    """Where file contents go: the store, or nowhere but into their ids."""

    keys: Keys

    def put(self, data: bytes, *, private: bool = False) -> bytes: ...


class HashingSink:
    """Computes ids and keeps nothing."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def put(self, data: bytes, *, private: bool = False) -> bytes:
        return self.keys.content_id(data, private=private)


def signature(st: os.stat_result, pack=SIGNATURE.pack) -> bytes:  # type: ignore[no-untyped-def] # noqa: ANN001
    """What must be equal for a file to count as unchanged."""
    packed: bytes = pack(st.st_dev, st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return packed


def without_ctime(signature: bytes) -> bytes:
    """The part that a rename or another link of the same file leaves alone."""
    return signature[:-8]


def inode_of(signature: bytes) -> tuple[int, int]:
    dev, ino, *_ = SIGNATURE.unpack(signature)
    return dev, ino


@dataclass(frozen=True, slots=True)
class Taken:
    """One file as read: its entry, and the signature that goes with it."""

    entry: bytes
    signature: bytes
    stat: os.stat_result
    stable: bool


def take_file(fd: int, sink: Sink, *, private: bool) -> Taken:
    """Read the open regular file, again if it changes meanwhile; after three times as last read, `stable` false.

    Raises:
        OSError: it can't be read, or isn't a regular file (`ENODEV`).
    """
    st = os.fstat(fd)
    if not stat.S_ISREG(st.st_mode):
        raise OSError(errno.ENODEV, "not a regular file")
    sig = signature(st)
    for _ in range(ATTEMPTS):
        before = sig
        size, content, flags = _contents(fd, st, sink, private=private)
        xattrs, lost = attributes_of(fd)
        st = os.fstat(fd)
        sig = signature(st)
        stable = sig == before and size == st.st_size
        if stable:
            break
    flags |= lost | (e.PRIVATE if private else 0)
    data = e.plain_file(st, size, content, flags)
    if xattrs:
        sealed = sink.keys.seal(xattrs) if private else xattrs
        data = e.encode(replace(e.decode(data), xattrs=sealed))
    return Taken(data, sig, st, stable)


def _contents(fd: int, st: os.stat_result, sink: Sink, *, private: bool) -> tuple[int, bytes, int]:
    size = st.st_size
    sparse = st.st_blocks * 512 < size and (_has_hole(fd, size) or st.st_blocks * 1024 < size)
    if size > SMALL:
        return _large(fd, size, sink, private=private, sparse=sparse)
    data = os.pread(fd, size + 1, 0)
    while size < len(data) <= SMALL:  # it grew, or is one of those that don't know their size
        size = len(data)
        data = os.pread(fd, 2 * size + 1, 0)
    data = data[:SMALL]
    return len(data), sink.put(data, private=private), e.SPARSE if sparse else 0


def _has_hole(fd: int, size: int) -> bool:
    """As the file system tells it; not all do, but for a file with half its blocks there is no doubt."""
    try:
        return os.lseek(fd, 0, os.SEEK_HOLE) < size
    except OSError:
        return False


def _large(fd: int, size: int, sink: Sink, *, private: bool, sparse: bool) -> tuple[int, bytes, int]:
    count = -(-size // CHUNK)
    ids = bytearray(ZERO_ID * count)
    for number in _chunks_with_data(fd, size) if sparse else range(count):
        data = os.pread(fd, min(CHUNK, size - number * CHUNK), number * CHUNK)
        if not is_zero(data):
            ids[number * 32 : number * 32 + 32] = sink.put(data, private=private)
    return size, sink.put(bytes(ids), private=private), e.SPARSE if sparse else 0


def is_zero(data: bytes) -> bool:
    return data == _ZEROS if len(data) == CHUNK else not data.strip(b"\0")


def _chunks_with_data(fd: int, size: int) -> Iterator[int]:
    """Numbers of the chunks that aren't wholly a hole, so that an empty terabyte takes no time."""
    done = -1
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # ENXIO: no data behind `at`
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        for number in range(max(done + 1, start // CHUNK), -(-min(at, size) // CHUNK)):
            yield number
            done = number


def read_xattrs(fd: int | str) -> bytes:
    """The extended attributes of an open file or directory, or of its handle's path, that a snapshot keeps: those of
    `user.`, access lists and capabilities. None where the file system has none.
    """
    return _xattrs(fd)[0]


def attributes_of(fd: int) -> tuple[bytes, int]:
    """`read_xattrs`, and of what an open file or directory has besides: `LOST_XATTRS`, `LOST_FLAGS`."""
    xattrs, lost = _xattrs(fd)
    try:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS.size)))
    except OSError:  # a file system without flags
        return xattrs, lost
    return xattrs, lost | (e.LOST_FLAGS if flags & _SET_BY_CHATTR else 0)


def _xattrs(fd: int | str) -> tuple[bytes, int]:
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno in _NO_XATTRS:
            return b"", 0
        raise
    pairs: list[tuple[bytes, bytes]] = []
    lost = 0
    for name in names:
        if name.startswith("user.") or name in ALSO_KEPT:
            try:
                pairs.append((os.fsencode(name), os.getxattr(fd, name)))
            except OSError as error:
                if error.errno not in {errno.ENODATA, *_NO_XATTRS}:
                    raise
        elif name not in _KEPT_BY_THE_SYSTEM:
            lost = e.LOST_XATTRS
    return (e.encode_xattrs(pairs) if pairs else b""), lost
