"""Append-only pack files: records of objects, manifests and commits, found again by reading them.

A record is a header with its own checksum, a table of what is inside, and a body with a checksum. The table is not
compressed, so the catalogue of everything in a pack comes from headers and tables alone; a damaged body damages its
objects only, a damaged header its record only (the next record is found by its magic).

::

    header  magic "ARp1" | kind | codec | rows | body bytes | unpacked bytes | crc32(body) | crc32(header + table)
    table   rows x (id, unpacked bytes, flags)
    body    packed contents one after the other

In an encrypted store the codec has its highest bit set: the body is sealed together with its table, the sizes stand
inside it and not in the table. A roll is the complete list of snapshots in its order: written by a collection, it is
what makes the others gone.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
import struct
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import NO_ROOM, StorageFull, StoreError
from agentrewind.snapshots import compression
from agentrewind.snapshots.beneath import sync_directory
from agentrewind.snapshots.flushing import Flusher, not_on_disk
from agentrewind.snapshots.plain import NotPlain, open_plain
from agentrewind.snapshots.sealing import Unsealable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agentrewind.snapshots.encryption import Vault

OBJECTS, MANIFEST, COMMIT, ROLL = 1, 2, 3, 4
SEALED = 1
"""Flag of a row: the content is ciphertext."""
_RECORD_SEALED = 0x80
"""Bit of a codec: the whole body is ciphertext."""

FRAME = 64 << 10
PACK_LIMIT = 256 << 20
_ROWS_LIMIT = 4096
_BUFFER = 8 << 20
_WINDOW = 1 << 20
_TAIL = 24
_NAME = re.compile(r"\d{6,9}\.pack")
_MAGIC = b"ARp1"
_HEADER = struct.Struct("<4sBBHQQI")
_CRC = struct.Struct("<I")
_ROW = struct.Struct("<32sIB")
_HEADER_BYTES = _HEADER.size + _CRC.size
_CACHED_BYTES = 16 << 20

_PACK_CREATED = named("snapshot.pack-created")
_PART_APPENDED = named("snapshot.part-appended")
_COMMIT_APPENDED = named("snapshot.commit-appended")
_SYNCED = named("snapshot.synced")


class ObjectMissing(StoreError):
    """No such object in the packs."""


class ObjectDamaged(StoreError):
    """The object's record can't be read or doesn't hold what it should."""


class PackGone(ObjectDamaged):
    """The pack isn't there any more: a collection may have moved what was in it."""


class Row(NamedTuple):
    id: bytes
    size: int
    flags: int


@dataclass(frozen=True, slots=True)
class Record:
    """Where a record lies and what its header says."""

    pack: int
    offset: int
    kind: int
    codec: int
    rows: int
    stored: int
    unpacked: int
    crc: int

    @property
    def sealed(self) -> bool:
        return bool(self.codec & _RECORD_SEALED)

    @property
    def content_at(self) -> int:
        """Where the contents begin in the unpacked body."""
        return 4 * self.rows if self.sealed else 0

    @property
    def size(self) -> int:
        return self.end - self.offset

    @property
    def table_at(self) -> int:
        return self.offset + _HEADER_BYTES

    @property
    def body_at(self) -> int:
        return self.table_at + self.rows * _ROW.size

    @property
    def end(self) -> int:
        return self.body_at + self.stored


def build(kind: int, rows: list[Row], content: bytes, vault: Vault | None = None) -> bytes:
    """One record, sealed by `vault` if it is given."""
    if vault is not None:
        content = struct.pack(f"<{len(rows)}I", *(row.size for row in rows)) + content
        rows = [row._replace(size=0) for row in rows]
    table = b"".join([_ROW.pack(*row) for row in rows])
    codec, body = compression.pack(content)
    if vault is not None:
        codec, body = codec | _RECORD_SEALED, vault.seal(body, bytes([kind]) + table)
    head = _HEADER.pack(_MAGIC, kind, codec, len(rows), len(body), len(content), zlib.crc32(body))
    return b"".join((head, _CRC.pack(zlib.crc32(table, zlib.crc32(head))), table, body))


def parse(data: mmap.mmap | bytes, pack: int, offset: int) -> Record | None:
    """The record at `offset`; None where no whole, sound header and table stand there or the body is cut off."""
    head = data[offset : offset + _HEADER.size]
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        return None
    _, kind, codec, rows, stored, unpacked, crc = _HEADER.unpack(head)
    record = Record(pack, offset, kind, codec, rows, stored, unpacked, crc)
    expected = data[offset + _HEADER.size : record.table_at]
    table = data[record.table_at : record.body_at]
    if len(table) < rows * _ROW.size or record.end > len(data):
        return None
    return record if expected == _CRC.pack(zlib.crc32(table, zlib.crc32(head))) else None


def records(
    data: mmap.mmap | bytes, pack: int, start: int, past_hole: Callable[[int], int] = lambda at: at
) -> Iterator[Record]:
    """All sound records from `start` on, in order, stepping over what is damaged and over holes."""
    at = start
    while 0 <= at < len(data):
        record = parse(data, pack, at)
        if record is None:
            at = _next_magic(data, at + 1, past_hole)
        else:
            yield record
            at = record.end


def _next_magic(data: mmap.mmap | bytes, at: int, past_hole: Callable[[int], int]) -> int:
    """Where a record may begin, from `at` on; the end where none does."""
    while at < len(data):
        at = past_hole(at)
        found = data.find(_MAGIC, at, at + _WINDOW + len(_MAGIC) - 1)
        if found >= 0:
            return found
        at += _WINDOW
    return len(data)


def _past_hole(fd: int, end: int) -> Callable[[int], int]:
    """The next byte of a file that isn't in a hole."""

    def past(at: int) -> int:
        try:
            return os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            return end if error.errno == errno.ENXIO else at

    return past


class PackFiles:
    """The pack files of one store: reading anywhere, appending at the end.

    Appends are all or nothing: `abort` cuts the file back to where the append began.
    """

    def __init__(
        self,
        directory: Path,
        *,
        write: Callable[[int, bytes], int] = os.write,
        admit: Callable[[int], None] = lambda _: None,
        vault: Vault | None = None,
        background: bool = False,
    ) -> None:
        self._directory = directory
        self._write = write
        self._admit = admit
        self._vault = vault
        self._flusher = Flusher()
        self._background = background
        self._read_fds: dict[int, int] = {}
        self._append_fd: int | None = None
        self._append_pack = 0
        self._append_at = 0
        self._begun_at = 0
        self._wrote = False
        """Whether some of the append in progress is in the file by now."""
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._unsynced: set[int] = set()
        self._names_synced = False
        """Whether the disk knows of each pack's name: who made them may have been killed before it did."""
        self._bodies: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bodies_bytes = 0

    def path(self, pack: int) -> Path:
        return self._directory / f"{pack:06d}.pack"

    def numbers(self) -> list[int]:
        try:
            names = os.listdir(self._directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(name[:-5]) for name in names if _NAME.fullmatch(name))

    def tail(self, pack: int, end: int) -> str:
        """A mark of what stands just before byte `end`: another file in its place has another."""
        try:
            return self._pread(pack, min(_TAIL, end), end - min(_TAIL, end)).hex()
        except ObjectDamaged:
            return ""

    def size(self, pack: int) -> int:
        try:
            return os.lstat(self.path(pack)).st_size
        except FileNotFoundError:
            return 0

    def appendable(self, pack: int, covered: int) -> bool:
        """Whether the next append may follow byte `covered` of it: it is a plain file of ours that ends there."""
        try:
            st = os.lstat(self.path(pack))
        except FileNotFoundError:
            return covered == 0
        return st.st_size == covered and stat.S_ISREG(st.st_mode)

    def scan(self, pack: int, start: int) -> Iterator[tuple[Record, list[Row], bool]]:
        """Records from `start` on with their tables, and whether the body's checksum holds."""
        if self.size(pack) <= start:
            return
        try:
            fd = open_plain(self.path(pack))
        except (FileNotFoundError, NotPlain):  # its snapshots are missing; the others are what they were
            return
        with os.fdopen(fd, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for record in records(data, pack, start, _past_hole(file.fileno(), len(data))):
                table = data[record.table_at : record.body_at]
                sound = zlib.crc32(data[record.body_at : record.end]) == record.crc
                yield record, [Row(*row) for row in _ROW.iter_unpack(table)], sound

    # Reading

    def record_at(self, pack: int, offset: int) -> Record:
        """Raises: ObjectDamaged."""
        head = self._pread(pack, _HEADER_BYTES, offset)
        if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
            raise ObjectDamaged(f"{self.path(pack)}: no record at byte {offset}")
        _, kind, codec, rows, stored, unpacked, crc = _HEADER.unpack_from(head)
        return Record(pack, offset, kind, codec, rows, stored, unpacked, crc)

    def table(self, record: Record) -> list[Row]:
        """What is in a record, with sizes. Raises: ObjectDamaged."""
        rows = [Row(*row) for row in _ROW.iter_unpack(self._raw_table(record))]
        if not record.sealed:
            return rows
        sizes = struct.unpack(f"<{record.rows}I", self.body(record)[: record.content_at])
        return [row._replace(size=size) for row, size in zip(rows, sizes, strict=True)]

    def _raw_table(self, record: Record) -> bytes:
        size = record.rows * _ROW.size
        data = self._pread(record.pack, _HEADER_BYTES + size, record.offset)
        head, crc, table = data[: _HEADER.size], data[_HEADER.size : _HEADER_BYTES], data[_HEADER_BYTES:]
        if len(table) < size or crc != _CRC.pack(zlib.crc32(table, zlib.crc32(head))):
            raise ObjectDamaged(f"{self.path(record.pack)}: the record at byte {record.offset} is damaged")
        return table

    def raw(self, record: Record) -> bytes:
        """The record as it stands in its pack. Raises: ObjectDamaged: it is cut off."""
        data = self._pread(record.pack, record.size, record.offset)
        if len(data) != record.size:
            raise ObjectDamaged(f"{self.path(record.pack)}: the record at byte {record.offset} is cut off")
        return data

    def body(self, record: Record) -> bytes:
        """The unpacked body, from a small cache if it was read just before.

        Raises:
            ObjectDamaged: the checksum is wrong or the body is cut off.
        """
        key = (record.pack, record.offset)
        if (cached := self._bodies.get(key)) is not None:
            self._bodies.move_to_end(key)
            return cached
        packed = self._pread(record.pack, record.stored, record.body_at)
        where = f"{self.path(record.pack)}: the record at byte {record.offset}"
        if len(packed) != record.stored or zlib.crc32(packed) != record.crc:
            raise ObjectDamaged(f"{where} is damaged")
        try:
            data = compression.unpack(record.codec & ~_RECORD_SEALED, self._opened(record, packed), record.unpacked)
        except (compression.Unpackable, Unsealable) as error:
            raise ObjectDamaged(f"{where}: {error}") from error
        if len(data) < record.content_at:
            raise ObjectDamaged(f"{where} is damaged")
        self._remember(key, data)
        return data

    def forget_bodies(self) -> None:
        """Read from the disk what is asked for next."""
        self._bodies.clear()
        self._bodies_bytes = 0

    def _opened(self, record: Record, packed: bytes) -> bytes:
        if not record.sealed:
            return packed
        if self._vault is None:
            raise Unsealable("it is encrypted, and the store has no key")
        return self._vault.open(packed, bytes([record.kind]) + self._raw_table(record))

    def _remember(self, key: tuple[int, int], data: bytes) -> None:
        self._bodies[key] = data
        self._bodies_bytes += len(data)
        while self._bodies_bytes > _CACHED_BYTES and len(self._bodies) > 1:
            self._bodies_bytes -= len(self._bodies.popitem(last=False)[1])

    def _pread(self, pack: int, size: int, offset: int) -> bytes:
        fd = self._read_fds.get(pack)
        try:
            if fd is None:
                fd = self._read_fds[pack] = open_plain(self.path(pack))
            if size > os.fstat(fd).st_size:
                return b""
            return os.pread(fd, size, offset)
        except FileNotFoundError as error:
            raise PackGone(f"{self.path(pack)} is gone") from error
        except NotPlain as error:
            raise ObjectDamaged(str(error)) from error
        except OSError as error:
            raise ObjectDamaged(f"{self.path(pack)} can't be read: {error.strerror}") from error

    def forget(self, pack: int) -> None:
        """Let go of what was read from a pack that is gone."""
        if (fd := self._read_fds.pop(pack, None)) is not None:
            os.close(fd)
        for key in [key for key in self._bodies if key[0] == pack]:
            self._bodies_bytes -= len(self._bodies.pop(key))
        self._unsynced.discard(pack)
        if self._append_pack == pack:
            self._close_append()

    def build(self, kind: int, rows: list[Row], content: bytes) -> bytes:
        """A record as this store keeps it."""
        return build(kind, rows, content, self._vault)

    # Appending

    def begin(self, pack: int, at: int) -> None:
        """Start an append at byte `at` of `pack`, which is its end; a full pack is followed by the next."""
        if at >= PACK_LIMIT:
            pack, at = pack + 1, 0
        if self._append_fd is None or self._append_pack != pack:
            self._open_for_append(pack)
        self._begun_at = self._append_at = at
        self._wrote = False

    def _open_for_append(self, pack: int) -> None:
        self._close_append()
        path = self.path(pack)
        existed = path.exists()
        try:
            self._append_fd = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise self._full(error) from error
        except NotPlain as error:
            raise self._full(error.__cause__) if isinstance(error.__cause__, OSError) else error from error
        self._append_pack = pack
        if not existed:
            self._names_synced = False
            reach(_PACK_CREATED)

    def append(self, data: bytes) -> tuple[int, int]:
        """Add one built record to the append; its pack and offset. Written now or with the commit.

        Raises:
            StorageFull: call `abort`.
        """
        where = (self._append_pack, self._append_at)
        self._buffer.append(data)
        self._append_at += len(data)
        self._buffered += len(data)
        if self._buffered >= _BUFFER:
            self._flush()
            reach(_PART_APPENDED)
        return where

    def commit(self, *last: bytes) -> list[tuple[int, int]]:
        """Write what is left together with `last`, the commit record at the very end; where each of `last` lies.

        Raises:
            StorageFull: call `abort`.
        """
        places = []
        for data in last:
            places.append((self._append_pack, self._append_at))
            self._buffer.append(data)
            self._append_at += len(data)
        self._flush()
        self._unsynced.add(self._append_pack)
        if self._background:
            self._start_sync()
        reach(_COMMIT_APPENDED)
        return places

    @property
    def end(self) -> tuple[int, int]:
        """Pack and byte at which the next append starts."""
        return self._append_pack, self._append_at

    def _flush(self) -> None:
        data = b"".join(self._buffer)
        self._buffer.clear()
        self._buffered = 0
        assert self._append_fd is not None
        self._admit(len(data))
        self._wrote = True
        try:
            while data:
                data = data[self._write(self._append_fd, data) :]
        except OSError as error:
            raise self._full(error) from error

    def _full(self, error: OSError) -> Exception:
        if error.errno not in NO_ROOM:
            return StoreError(
                f"{self._directory} can't be written: {error.strerror}. Earlier snapshots are as they were."
            )
        return StorageFull(
            f"No room for this snapshot in {self._directory} ({error.strerror}). Earlier snapshots are as they were,"
            " and so is the workspace. Make room and try again."
        )

    def abort(self) -> None:
        """Cut the append off again; what was there before is as it was."""
        self._buffer.clear()
        self._buffered = 0
        if self._append_fd is not None and self._wrote:
            os.ftruncate(self._append_fd, self._begun_at)
        self._append_at = self._begun_at
        self._wrote = False

    def start_sync(self) -> None:
        """Have the disk begin with what `sync` waits for, if it hasn't yet."""
        if not self._background and self._append_pack in self._unsynced:
            self._start_sync()

    def _start_sync(self) -> None:
        if self._append_fd is not None:
            self._flusher.start(self._append_pack, self._append_at, self._append_fd)

    def sync(self) -> None:
        """Return once everything appended so far would survive a power loss.

        Raises:
            StoreError: the disk has refused; also where it did so in the background, earlier.
        """
        if not self._unsynced:
            return
        done = self._flusher.wait(self._directory)
        for pack in sorted(self._unsynced):
            if done.get(pack, 0) < self.size(pack):
                self._sync_pack(pack)
        if not self._names_synced:
            sync_directory(self._directory)
            self._names_synced = True
        self._unsynced.clear()
        reach(_SYNCED)

    def _sync_pack(self, pack: int) -> None:
        fd = open_plain(self.path(pack))
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise StoreError(not_on_disk(self._directory, error)) from error
        finally:
            os.close(fd)

    def _close_append(self) -> None:
        if self._append_fd is not None:
            os.close(self._append_fd)
            self._append_fd = None

    def close(self) -> None:
        self._flusher.finish()
        self._close_append()
        for fd in self._read_fds.values():
            os.close(fd)
        self._read_fds.clear()


class FrameBuilder:
    """Gathers small objects until a frame is full."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._contents: list[bytes] = []
        self._size = 0

    def add(self, row: Row, content: bytes) -> bool:
        """Whether the frame is now full."""
        self.rows.append(row)
        self._contents.append(content)
        self._size += len(content)
        return self._size >= FRAME or len(self.rows) >= _ROWS_LIMIT

    def take(self) -> tuple[list[Row], bytes]:
        """Rows and content of the frame; the builder is empty again."""
        taken = self.rows, b"".join(self._contents)
        self.rows, self._contents, self._size = [], [], 0
        return taken
