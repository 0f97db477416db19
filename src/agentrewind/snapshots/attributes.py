"""Owner, extended attributes, mode and time of one path, set through a handle on the very inode."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import HANDLE, handle_path
from agentrewind.snapshots.reading import read_xattrs

if TYPE_CHECKING:
    from agentrewind.snapshots.contents import Contents
    from agentrewind.snapshots.entry import Entry

_NO_XATTRS = frozenset((errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.ERANGE, errno.E2BIG))
_ATTRIBUTES_SET = named("snapshot.restore-attributes-set")


class Attributes:
    """Sets them. What this user or this file system can't is in `lossy`: path to the names of the attributes."""

    def __init__(self, contents: Contents) -> None:
        self.lossy: dict[str, set[str]] = {}
        self._contents = contents
        self._euid = os.geteuid()

    def set(self, fd: int, path: str, entry: Entry) -> None:
        """Set all of them in the order in which none undoes another."""
        handle = handle_path(fd)
        st = os.stat(handle)
        if (st.st_uid, st.st_gid) != (entry.uid, entry.gid):
            self._chown(handle, path, entry)
        if entry.kind != e.FIFO:
            self._set_xattrs(handle, path, entry, st)
        self._chmod(handle, path, entry)
        self._set_time(handle, path, st.st_atime_ns, entry.mtime_ns)
        reach(_ATTRIBUTES_SET)

    def set_by_name(self, directory: int, name: str, path: str, entry: Entry) -> None:
        """As `set`, for what can't be opened: a symbolic link, a FIFO."""
        if entry.kind == e.SYMLINK:
            self._set_of_symlink(directory, name, path, entry)
            return
        fd = os.open(name, HANDLE, dir_fd=directory)
        try:
            self.set(fd, path, entry)
        finally:
            os.close(fd)

    def _set_of_symlink(self, directory: int, name: str, path: str, entry: Entry) -> None:
        st = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if (st.st_uid, st.st_gid) != (entry.uid, entry.gid):
            try:
                os.chown(name, entry.uid, entry.gid, dir_fd=directory, follow_symlinks=False)
            except PermissionError:
                self._lose(path, "owner")
        os.utime(name, ns=(st.st_atime_ns, entry.mtime_ns), dir_fd=directory, follow_symlinks=False)
        reach(_ATTRIBUTES_SET)

    def _chown(self, handle: str, path: str, entry: Entry) -> None:
        try:
            os.chown(handle, entry.uid, entry.gid)
        except PermissionError:
            self._lose(path, "owner")
            with contextlib.suppress(PermissionError):
                os.chown(handle, -1, entry.gid)

    def _chmod(self, handle: str, path: str, entry: Entry) -> None:
        if stat.S_IMODE(os.stat(handle).st_mode) == entry.mode:
            return
        try:
            os.chmod(handle, entry.mode)
        except PermissionError:
            self._lose(path, "mode")
        if stat.S_IMODE(os.stat(handle).st_mode) != entry.mode:
            self._lose(path, "mode")

    def _set_time(self, handle: str, path: str, atime_ns: int, mtime_ns: int) -> None:
        try:
            os.utime(handle, ns=(atime_ns, mtime_ns))
        except PermissionError:
            self._lose(path, "times")
            return
        if os.stat(handle).st_mtime_ns != mtime_ns:
            self._lose(path, "times")

    def _set_xattrs(self, handle: str, path: str, entry: Entry, st: os.stat_result) -> None:
        wanted = dict(self._contents.xattrs(entry))
        present = dict(e.decode_xattrs(read_xattrs(handle)))
        if wanted == present:
            return
        if self._euid != 0 and not st.st_mode & stat.S_IWUSR:
            os.chmod(handle, stat.S_IMODE(st.st_mode) | stat.S_IWUSR)
        try:
            for name in present.keys() - wanted.keys():
                os.removexattr(handle, name)
            for name, value in wanted.items():
                if present.get(name) != value:
                    os.setxattr(handle, name, value)
        except OSError as error:
            if error.errno not in _NO_XATTRS:
                raise
            self._lose(path, "xattrs")

    def _lose(self, path: str, what: str) -> None:
        self.lossy.setdefault(path, set()).add(what)
