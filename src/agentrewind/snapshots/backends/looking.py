"""One path looked at by itself, and states compared: what a check needs that isn't a whole scan."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from agentrewind.core.world import Act, Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import DIRECTORY, READ, opened, split
from agentrewind.snapshots.entry import Entry
from agentrewind.snapshots.manifests import below
from agentrewind.snapshots.reading import SIGNATURE, read_xattrs, take_file
from agentrewind.snapshots.scan import Seen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.reading import Sink

_GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
_OPAQUE_KINDS = frozenset((e.EXCLUDED, e.UNREADABLE))


def look(root: int, path: str, sink: Sink, *, private: bool = False) -> bytes | None:
    """The encoded entry of what stands at `path`, without a link group; None where nothing does that can be kept.

    Raises:
        OSError: it can't be read.
    """
    try:
        parent, name = split(path)
        with opened(root, parent) as directory:
            return _look(directory, name or ".", sink, private=private)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def _look(directory: int, name: str, sink: Sink, *, private: bool) -> bytes | None:
    st = os.stat(name, dir_fd=directory, follow_symlinks=False)
    bare = Entry(b"", stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns)
    if stat.S_ISREG(st.st_mode):
        fd = os.open(name, READ, dir_fd=directory)
        try:
            return take_file(fd, sink, private=private).entry
        finally:
            os.close(fd)
    if stat.S_ISDIR(st.st_mode):
        fd = os.open(name, DIRECTORY, dir_fd=directory)
        try:
            return e.encode(replace(bare, kind=e.DIRECTORY, xattrs=read_xattrs(fd)))
        finally:
            os.close(fd)
    if stat.S_ISLNK(st.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=directory))
        return e.encode(replace(bare, kind=e.SYMLINK, mode=0, target=target))
    return e.encode(replace(bare, kind=e.FIFO)) if stat.S_ISFIFO(st.st_mode) else None


def acts_between(live: Manifest, target: Manifest) -> tuple[Act, ...]:
    """What making `live` equal to `target` does, path by path."""
    acts = []
    for path in sorted(live.keys() | target.keys()):
        old, new = live.get(path), target.get(path)
        if not e.same(old, new) and {e.kind_of(old), e.kind_of(new)} & e.TRACKED:
            acts.append(Act(_what(old, new), path))
    return tuple(acts)


def _what(old: bytes | None, new: bytes | None) -> str:
    if e.kind_of(old) not in e.TRACKED:
        return "create"
    if e.kind_of(new) not in e.TRACKED:
        return "remove"
    if e.kind_of(old) != e.kind_of(new):
        return "replace"
    one, other = e.decode(old or b""), e.decode(new or b"")
    same = (one.content, one.size, one.target) == (other.content, other.size, other.target)
    return "attributes" if same else "write"


def not_as_recorded(root: int, state: Manifest, paths: Iterable[str], sink: Sink) -> list[Gap]:
    """Those of `paths` that aren't below `root` what `state` says, every byte of them read."""
    wrong = []
    for path in paths:
        expected = state.get(path)
        try:
            found = look(root, path, sink, private=bool(expected and expected[0] & e.PRIVATE))
        except OSError as error:
            wrong.append(Gap(path, f"can't be read: {error.strerror}"))
            continue
        if expected is None or e.kind_of(expected) not in e.TRACKED:
            continue
        if not e.same(found, e.with_leader(expected, "")):
            wrong.append(Gap(path, "is not what was saved" if found else "is missing"))
    return wrong


def differing(expected: Manifest, found: Manifest) -> list[str]:
    """Paths that a restore would bring back and that two states don't agree on; what is excluded on either side, or
    below such a thing, says nothing.
    """
    silent = {path for state in (expected, found) for path, data in state.items() if data[1:2] in _OPAQUE_KINDS}
    return sorted(
        path
        for path in expected.keys() | found.keys()
        if path not in silent and not e.same(expected.get(path), found.get(path)) and not below(path, silent)
    )


def on_device(seen: Seen, device: int) -> Seen:
    """What was seen, as if on another device number: for file systems that give the same inodes under a new one."""
    head = SIGNATURE.pack(device, 0, 0, 0, 0, 0)[:8]
    return replace(
        seen,
        signatures={path: head + sig[len(head) :] for path, sig in seen.signatures.items()},
        links={(device, inode): names for (_, inode), names in seen.links.items()},
    )
