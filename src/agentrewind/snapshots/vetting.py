"""A snapshot as something hostile: what a restore is about to act on is looked through before anything is touched.

A store is only a few files; somebody else may have written them. Whatever the entries say, a restore stays below its
root (`beneath`), and a state that none of our scans can have seen is refused whole.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentrewind.core.errors import SnapshotDamaged
from agentrewind.core.world import Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.entry import Entry, Malformed
from agentrewind.snapshots.reading import ALSO_KEPT

State = Mapping[str, bytes]

NAME_BYTES = 255
_TEXT_BYTES = 4095
_LARGEST = (1 << 63) - 1
_LARGEST_MODE = 0o7777
_NOBODY = 0xFFFFFFFF
"""As an owner it means "leave it" to the system."""
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID
_CAPABILITY = b"security.capability"
_NOWHERE = frozenset((e.FILE, e.SYMLINK, e.FIFO))
"""Kinds below which nothing can lie."""


def vet(target: State, paths: Iterable[str], name: str) -> None:
    """Return if the entries of `target` at `paths` can be those of a tree that we saw.

    Raises:
        SnapshotDamaged: one can't; nothing was touched.
    """
    directories: set[str] = set()
    for path in paths:
        data = target.get(path)
        if data is not None:
            try:
                _vet(target, path, data)
                _vet_place(target, path, directories)
            except Malformed as error:
                raise SnapshotDamaged(
                    f"Snapshot {name} is refused as a whole: at {path!r} {error}. Nothing that we save looks like that;"
                    " it was damaged, or made by somebody else. Nothing was touched."
                ) from error


def _vet(target: State, path: str, data: bytes) -> None:
    """Raises: Malformed."""
    entry = e.decode(data)
    if entry.kind not in _CHECKS:
        raise Malformed("there is something of an unknown kind")
    if len(e.encode_text(split(path)[1])) > NAME_BYTES:
        raise Malformed("there is a name that is too long for any file system")
    e.check_path(path)
    if not path and entry.kind != e.DIRECTORY:
        raise Malformed("the root is not a directory")
    _vet_attributes(entry)
    _CHECKS[entry.kind](target, path, entry, data)


def _vet_place(target: State, path: str, directories: set[str]) -> None:
    """Everything above is a directory: nothing lies below a link or a file. `directories` are known to be fine."""
    at = path
    while at:
        at = split(at)[0]
        if at in directories:
            return
        directories.add(at)
        kind = e.kind_of(target.get(at))
        if kind in _NOWHERE or (not kind and at):
            raise Malformed(f"something lies below {at!r}, which is no directory there")


def _vet_attributes(entry: Entry) -> None:
    if entry.mode > _LARGEST_MODE or _NOBODY in (entry.uid, entry.gid):
        raise Malformed("there are a mode or an owner that no path can have")
    if not entry.private:  # else sealed: looked at where it is unsealed
        vetted(entry.xattrs)


def vetted(xattrs: bytes) -> list[tuple[bytes, bytes]]:
    """Encoded extended attributes, decoded. Raises: Malformed: not such as a snapshot holds."""
    pairs = e.decode_xattrs(xattrs)
    for name, _ in pairs:
        if b"\0" in name or not (name.startswith(b"user.") or name.decode("ascii", "replace") in ALSO_KEPT):
            raise Malformed(f"there is an extended attribute {name!r}, which no snapshot holds")
    return pairs


def _vet_file(target: State, path: str, entry: Entry, data: bytes) -> None:
    if entry.size > _LARGEST or len(entry.content) != len(e.ZERO_ID):
        raise Malformed("there is a size that no file can have")
    if entry.leader:
        first = target.get(e.check_path(entry.leader))
        if first is None or not e.same(first, data) or entry.leader > path:
            raise Malformed(f"there is another name of {entry.leader!r}, which is another file")


def _vet_symlink(_target: State, _path: str, entry: Entry, _data: bytes) -> None:
    if not entry.target or b"\0" in entry.target or len(entry.target) > _TEXT_BYTES:
        raise Malformed("there is a link with a text that no link can have")


def _vet_nothing(_target: State, _path: str, _entry: Entry, _data: bytes) -> None: ...


_CHECKS = {
    e.FILE: _vet_file, e.SYMLINK: _vet_symlink, e.DIRECTORY: _vet_nothing, e.FIFO: _vet_nothing,
    e.EXCLUDED: _vet_nothing, e.UNREADABLE: _vet_nothing, e.VOLATILE: _vet_nothing,
}  # fmt: skip


def harmless(target: State) -> tuple[dict[str, bytes], list[Gap]]:
    """A foreign state without what gives rights to whoever runs it, and the paths that lose something by that.

    Set-uid and set-gid bits of files and capabilities; a set-gid bit of a directory only passes on its group.
    """
    state: dict[str, bytes] = {}
    lost: list[Gap] = []
    for path, data in target.items():
        state[path] = _harmless(data)
        if state[path] != data:
            lost.append(Gap(path, "not brought back: set-uid, set-gid and capabilities of a snapshot made elsewhere"))
    return state, lost


def _harmless(data: bytes) -> bytes:
    if e.kind_of(data) != e.FILE:
        return data
    entry = e.decode(data)
    xattrs = entry.xattrs
    if xattrs and not entry.private:
        xattrs = e.encode_xattrs([(name, value) for name, value in e.decode_xattrs(xattrs) if name != _CAPABILITY])
    if entry.private and xattrs:
        xattrs = b""  # sealed: what they are can't be told here
    if entry.mode & _SPECIAL_BITS or xattrs != entry.xattrs:
        return e.encode(replace(entry, mode=entry.mode & ~_SPECIAL_BITS, xattrs=xattrs))
    return data
