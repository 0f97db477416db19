"""What a git tree can hold of a state, and what is lost: decided from values alone."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.entry import Entry

if TYPE_CHECKING:
    from agentrewind.snapshots.manifests import Manifest

PLAIN, PROGRAM, DIRECTORY = 0o644, 0o755, 0o755
NOTHING_INSIDE = "a directory with nothing in it that git keeps"
FIFO = "a FIFO: git keeps none"
REPOSITORY = "a repository's own data: git doesn't keep a .git"
SECRET = "a secret: not stored, since a repository is easily pushed"  # noqa: S105
TIMES = "times: git keeps none; what is brought back gets the time of the restore"
_STORED = frozenset((e.FILE, e.SYMLINK))


def is_program(mode: int) -> bool:
    return bool(mode & stat.S_IXUSR)


def _is_plain(entry: Entry) -> bool:
    """Whether it has been through `plain` already: no real file is from 1970 to the nanosecond."""
    return entry.mtime_ns == 0


def plain(data: bytes) -> bytes:
    """The entry with only what git keeps of it."""
    entry = e.decode(data)
    if entry.kind == e.FIFO:
        return e.encode(Entry(e.EXCLUDED, why=FIFO))
    if entry.kind == e.EXCLUDED:
        return data
    if entry.kind not in e.TRACKED:
        return data
    mode = 0
    if entry.kind == e.FILE:
        mode = PROGRAM if is_program(entry.mode) else PLAIN
    return e.encode(Entry(entry.kind, mode, size=entry.size, content=entry.content, target=entry.target))


def lost(data: bytes) -> str | None:
    """What git loses of the entry, in words; empty where nothing but times, None where the entry is plain already."""
    entry = e.decode(data)
    if _is_plain(entry) or entry.kind not in _STORED | {e.DIRECTORY}:
        return None
    what = []
    if entry.kind != e.SYMLINK and entry.mode not in ((PLAIN, PROGRAM) if entry.kind == e.FILE else (DIRECTORY,)):
        what.append(f"mode {entry.mode:04o}")
    if (entry.uid, entry.gid) != (os.geteuid(), os.getegid()):
        what.append("owner")
    if entry.xattrs:
        what.append("extended attributes")
    if entry.leader:
        what.append("hard link")
    if entry.sparse:
        what.append("holes")
    return f"not kept: {', '.join(what)}" if what else ""


def without_bare_directories(state: Manifest) -> Manifest:
    """Directories that hold nothing stored as what they are to git: nothing, which is said."""
    held = {""}
    for path, data in state.items():
        if data[1:2] in _STORED:
            at = split(path)[0]
            while at not in held:
                held.add(at)
                at = split(at)[0]
    bare = e.encode(Entry(e.EXCLUDED, why=NOTHING_INSIDE))
    return {path: bare if data[1:2] == e.DIRECTORY and path not in held else data for path, data in state.items()}


def is_bare(data: bytes | None) -> bool:
    return data is not None and data[1:2] == e.EXCLUDED and e.decode(data).why == NOTHING_INSIDE


def met(live: Manifest, target: Manifest) -> tuple[Manifest, Manifest]:
    """Both states, so that directories which git knows nothing of neither vanish nor stand in the way.

    One that is there stays; one that the target had and that is gone can't be brought back.
    """
    empty = e.encode(Entry(e.DIRECTORY))
    now, goal = dict(live), dict(target)
    for path in [path for path, data in target.items() if is_bare(data)]:
        present = live.get(path)
        if present is not None and (present[1:2] == e.DIRECTORY or is_bare(present)):
            goal[path] = present
        else:
            del goal[path]
    for path in [path for path, data in live.items() if is_bare(data)]:
        if e.kind_of(goal.get(path)) in e.TRACKED or _gives_way(path, goal):
            now[path] = empty
    return now, goal


def _gives_way(path: str, goal: Manifest) -> bool:
    """Whether a file or a link of the target is to stand where a directory above `path` is."""
    while path:
        path = split(path)[0]
        if e.kind_of(goal.get(path)) in _STORED:
            return True
    return False


def filled(target: Entry, present: Entry | None, *, narrow: bool, now_ns: int) -> Entry:
    """A plain entry with the attributes that git doesn't know: those of what stands there, or else sane ones.

    `narrow`: the snapshot says that its mode isn't kept; then nobody but the owner gets at it.
    """
    if present is not None and present.kind == target.kind:
        mode = _with_x(present.mode, program=is_program(target.mode)) if target.kind == e.FILE else present.mode
        mtime = present.mtime_ns if target.kind == e.DIRECTORY else now_ns
        return replace(present, mode=mode, size=target.size, content=target.content, target=target.target,
                       mtime_ns=mtime, leader="", flags=target.flags)  # fmt: skip
    if target.kind == e.SYMLINK:
        mode = 0
    elif target.kind == e.DIRECTORY:
        mode = 0o700 if narrow else DIRECTORY
    else:
        mode = target.mode & 0o700 if narrow else target.mode
    return replace(target, mode=mode, uid=os.geteuid(), gid=os.getegid(), mtime_ns=now_ns)


def _with_x(mode: int, *, program: bool) -> int:
    return mode | (mode & 0o444) >> 2 if program else mode & ~0o111
