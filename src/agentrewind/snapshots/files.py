"""Bringing back one file of a restore, under all its names."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.snapshots import beneath
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.aside import discarding, temporary_name
from agentrewind.snapshots.beneath import HANDLE, READ, opened, split
from agentrewind.snapshots.pouring import pour
from agentrewind.snapshots.present import Conflict, Present
from agentrewind.snapshots.reading import signature

if TYPE_CHECKING:
    from agentrewind.snapshots.attributes import Attributes
    from agentrewind.snapshots.cloning import Donor
    from agentrewind.snapshots.contents import Contents
    from agentrewind.snapshots.entry import Entry

_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_IN_PLACE = frozenset((errno.ETXTBSY, errno.EACCES, errno.EPERM))

_DISPLACED = named("snapshot.restore-displaced")
_FILE_OPENED = named("snapshot.restore-file-opened")
_FILE_WRITTEN = named("snapshot.restore-file-written")
_TEMPORARY_WRITTEN = named("snapshot.restore-temporary-written")
_EXCHANGED = named("snapshot.restore-exchanged")
_LINKED = named("snapshot.restore-linked")


class Files:
    """Acts on files below `root`. `changed` is told each path whose directory was written to.

    `removed` are the names that the restore took away before it comes to files. `donor` may give new
    files their blocks.
    """

    def __init__(
        self,
        root: int,
        present: Present,
        contents: Contents,
        attributes: Attributes,
        *,
        removed: frozenset[str],
        touching: Callable[[], None],
        changed: Callable[[str], None],
        donor: Donor | None = None,
    ) -> None:
        self._root = root
        self._present = present
        self._contents = contents
        self._attributes = attributes
        self._removed = removed
        self._touching = touching
        self._changed = changed
        self._donor = donor

    def _is_free(self, path: str) -> bool:
        return path not in self._present.entries or path in self._removed

    def rewrite(self, path: str, entry: Entry) -> None:
        """Give `path` the entry's bytes: in its very inode, or in a new one where that can't be opened, or where
        somebody else has it open and could write to it between our last look and our own bytes.
        """
        try:
            if self._in_place(path, entry, e.decode(self._present.entries[path])):
                return
        except BlockingIOError:
            self._present.doubt(path)
            try:
                self.make(path, entry)
            except PermissionError as error:
                raise Conflict("is open in another process, and can't be replaced") from error
            return
        self.make(path, entry)

    def _in_place(self, path: str, entry: Entry, old: Entry) -> bool:
        """Raises: BlockingIOError: somebody else has it open; it was not touched."""
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            try:
                fd = os.open(name, _WRITE, dir_fd=directory)
            except OSError as error:
                if error.errno in _NOT_IN_PLACE:
                    return False
                raise
            try:
                st = os.fstat(fd)
                self._present.check_inode(directory, name, st, path)
                with beneath.alone(fd):  # from here on nobody else opens it
                    if signature(os.fstat(fd)) != signature(st):
                        raise Conflict("has changed meanwhile")
                    self._touching()
                    reach(_FILE_OPENED)
                    pour(fd, entry, old, self._contents)
                    reach(_FILE_WRITTEN)
                    self._attributes.set(fd, path, entry)
            finally:
                os.close(fd)
            self._present.wrote(directory, name, path)
        return True

    def set_attributes(self, path: str, entry: Entry) -> None:
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            fd = os.open(name, HANDLE, dir_fd=directory)
            try:
                self._present.check_inode(directory, name, os.fstat(fd), path)
                self._touching()
                self._attributes.set(fd, path, entry)
            finally:
                os.close(fd)
            self._present.wrote(directory, name, path)

    def make(self, path: str, entry: Entry) -> None:
        """A new inode: under its name where that is free, else beside it and then exchanged."""
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            if self._is_free(path):
                self._fill_new(directory, name, path, entry)
                self._changed(path)
                reach(_FILE_WRITTEN)
                return
            fresh = temporary_name()
            ours = self._fill_new(directory, fresh, path, entry)
            reach(_TEMPORARY_WRITTEN)
            with discarding(directory, fresh, ours):
                self._swap_in(directory, path, name, fresh)

    def _fill_new(self, directory: int, name: str, path: str, entry: Entry) -> int:
        """Make a whole new file; its inode number. Nothing is left of it if that fails."""
        fd = os.open(name, _CREATE, 0o600, dir_fd=directory)
        try:
            ours = os.fstat(fd).st_ino
            self._touching()
            reach(_FILE_OPENED)
            with discarding(directory, name, ours):
                if self._donor is None or not self._donor.gives(fd, path, entry):
                    pour(fd, entry, None, self._contents)
                self._attributes.set(fd, path, entry)
        finally:
            os.close(fd)
        return ours

    def _swap_in(self, directory: int, path: str, name: str, fresh: str) -> None:
        """Put `fresh` where the saved file stands; what it displaces must be just that.

        Raises:
            Conflict: it was something else, and is back in its place.
        """
        self._present.check(directory, name, os.stat(name, dir_fd=directory, follow_symlinks=False), path)
        self._changed(path)
        if not beneath.exchange(directory, fresh, name):
            os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
            self._present.let_go(path)
            return
        reach(_EXCHANGED)
        self._drop_displaced(directory, path, fresh, lambda: beneath.exchange(directory, fresh, name))

    def link(self, base: str, path: str) -> None:
        """Make `path` another name of the file `base`."""
        (from_parent, from_name), (parent, name) = split(base), split(path)
        with opened(self._root, from_parent) as source, opened(self._root, parent) as directory:
            original = os.stat(from_name, dir_fd=source, follow_symlinks=False)
            if self._is_free(path):
                os.link(from_name, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
            else:
                present = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if (present.st_dev, present.st_ino) == (original.st_dev, original.st_ino):
                    return
                fresh = temporary_name()
                os.link(from_name, fresh, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
                with discarding(directory, fresh, original.st_ino):
                    self._swap_in(directory, path, name, fresh)
        self._changed(path)
        reach(_LINKED)

    def take_away(self, directory: int, path: str, name: str, st: os.stat_result) -> None:
        """Move it aside, look at it once more where nobody finds it any longer, and only then let it go.

        Raises:
            Conflict: it was something else than was saved, and is back in its place.
        """
        self._present.check(directory, name, st, path)
        aside = temporary_name()
        beneath.rename_to_free_name(directory, name, aside)
        reach(_DISPLACED)
        self._drop_displaced(directory, path, aside, lambda: beneath.rename_to_free_name(directory, aside, name))

    def _drop_displaced(self, directory: int, path: str, aside: str, put_back: Callable[[], object]) -> None:
        st = os.stat(aside, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISREG(st.st_mode) and _is_open_elsewhere(directory, aside):
            self._present.doubt(path)  # what is stored through a mapping moves no time
        if not self._present.is_as_saved(directory, aside, st, path, moved=True):
            put_back()
            raise Conflict("has changed meanwhile")
        os.unlink(aside, dir_fd=directory)
        self._present.let_go(path)


def _is_open_elsewhere(directory: int, name: str) -> bool:
    try:
        fd = os.open(name, READ, dir_fd=directory)
    except OSError:
        return False
    try:
        with beneath.alone(fd):
            return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
