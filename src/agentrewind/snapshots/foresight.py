"""What can be known to fail, before anything is touched."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from typing import TYPE_CHECKING

from agentrewind.core.errors import RestoreRefused
from agentrewind.core.world import Gap
from agentrewind.snapshots import beneath
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import HANDLE, handle_path, opened, split
from agentrewind.snapshots.entry import CHUNK, SMALL, ZERO_ID, Entry
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrewind.snapshots.contents import Contents
    from agentrewind.snapshots.plan import FileStep, Plan
    from agentrewind.snapshots.scan import Seen

_SPARE_BYTES = 1 << 20
_ANYWHERE = (1 << 31) - 1
"""A size that every file system takes."""


def refuse_foreseeable(root: int, plan: Plan, seen: Seen, contents: Contents) -> None:
    """Return if nothing speaks against carrying out `plan` below `root`, of which `seen` is the present.

    Raises:
        RestoreRefused: immutable files, directories that we may not write, no room; nothing was touched.
    """
    foresight = _Foresight(root, plan, seen)
    refused = [*plan.blocked, *foresight.immutable(), *foresight.forbidden()]
    if refused:
        raise RestoreRefused(
            "This restore can't be carried out: "
            + "; ".join(f"{gap.path!r} {gap.why}" for gap in refused[:10])
            + ". Nothing was touched."
        )
    _check_room(root, plan, seen, contents)


class _Foresight:
    def __init__(self, root: int, plan: Plan, seen: Seen) -> None:
        self._root = root
        self._plan = plan
        self._seen = seen
        self._live = seen.entries
        self._euid = os.geteuid()

    def _structural(self) -> list[str]:
        """Paths whose directory is written to."""
        files = [
            path
            for step in self._plan.files
            for path in step.paths
            if step.base is None or path not in self._live or self._inode(path) != self._inode(step.base)
        ]
        return [*self._plan.remove, *self._plan.make, *self._plan.others, *files]

    def _inode(self, path: str) -> bytes:
        return self._seen.signatures.get(path, b"")[:16]

    def immutable(self) -> Iterator[Gap]:
        paths = [*self._plan.remove, *self._plan.attributes, *self._plan.directories]
        paths += [path for step in self._plan.files for path in step.paths]
        parents = {split(path)[0] for path in self._structural()}
        for path in sorted({path for path in [*paths, *parents] if path in self._live}):
            parent, name = split(path)
            with contextlib.suppress(OSError), opened(self._root, parent) as directory:
                if beneath.is_immutable(directory, name):
                    yield Gap(path, "is marked immutable or append-only (see lsattr)")

    def forbidden(self) -> Iterator[Gap]:
        """Directories in which a plain user may not make, rename or remove anything, whatever mode he sets."""
        if self._euid == 0:
            return
        by_parent: dict[str, list[str]] = {}
        for path in self._structural():
            by_parent.setdefault(split(path)[0], []).append(path)
        for parent, paths in sorted(by_parent.items()):
            if parent in self._live:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    yield from self._forbidden_in(parent, paths)

    def _forbidden_in(self, parent: str, paths: list[str]) -> Iterator[Gap]:
        try:
            with opened(self._root, parent, HANDLE) as fd:
                st = os.fstat(fd)
                writable = os.access(handle_path(fd), os.W_OK | os.X_OK, effective_ids=True)
        except PermissionError:
            return  # below a directory that we own and will open
        if st.st_uid == self._euid:
            return
        if not writable:
            yield Gap(parent, "belongs to another user, and we may not write in it")
        elif st.st_mode & stat.S_ISVTX:
            for path in paths:
                data = self._live.get(path)
                if data is not None and e.kind_of(data) in e.TRACKED and e.decode(data).uid != self._euid:
                    yield Gap(path, "belongs to another user, in a directory where only he may remove it")


def _check_room(root: int, plan: Plan, seen: Seen, contents: Contents) -> None:
    needed, inodes = 0, len(plan.make) + len(plan.others)
    for step in plan.files:
        if step.rewrite:
            size = _blocks(e.decode(step.data), contents)
            old = e.size_of(seen.entries[step.base]) if step.base is not None else 0
            needed += max(0, size - old)
            inodes += step.base is None
    room = os.fstatvfs(root)
    free = room.f_bavail * room.f_frsize
    if room.f_flag & os.ST_RDONLY and plan.acts:
        raise RestoreRefused("The workspace is on a file system that is mounted read-only. Nothing was touched.")
    if needed and needed + _SPARE_BYTES > free:
        raise RestoreRefused(
            f"This restore needs {needed:,} bytes on the workspace's file system and {free:,} are free. Nothing was"
            " touched. Make room and try again."
        )
    if room.f_files and inodes > room.f_favail:
        raise RestoreRefused(
            f"This restore makes {inodes:,} files and directories, and the workspace's file system has room for"
            f" {room.f_favail:,}. Nothing was touched. Remove some and try again."
        )
    _check_sizes(root, plan)


def _check_sizes(root: int, plan: Plan) -> None:
    """Whether the largest file may be so large at all: by this process, and on this file system."""
    largest = max(plan.files, key=_written, default=None)
    size = 0 if largest is None else _written(largest)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if largest is not None and ((limit != resource.RLIM_INFINITY and size > limit) or not _can_be_made(root, size)):
        raise RestoreRefused(
            f"{largest.paths[0]!r} has {size:,} bytes, more than a file may have here (see `ulimit -f` and the file"
            " system). Nothing was touched."
        )


def _written(step: FileStep) -> int:
    return e.size_of(step.data) if step.rewrite else 0


def _can_be_made(root: int, size: int) -> bool:
    """Tried with a file that has no name, where a file system might say no."""
    if size <= _ANYWHERE:
        return True
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=root)
    except OSError:
        return True  # it has none of those: the restore will tell
    try:
        os.ftruncate(fd, size)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _blocks(entry: Entry, contents: Contents) -> int:
    """Bytes on disk, roughly; none where its chunks can't be told, which is found when they are read."""
    if entry.sparse and entry.size > SMALL:
        try:
            return CHUNK * sum(name != ZERO_ID for name in contents.chunks(entry))
        except (ObjectMissing, ObjectDamaged):
            return 0
    return entry.size
