"""A look at some paths only, which sees of them exactly what a scan of everything would see."""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING, Any

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.manifests import below
from agentrewind.snapshots.reading import inode_of
from agentrewind.snapshots.rules import PathClass
from agentrewind.snapshots.scan import SQLITE, Scan, Seen, sqlite_base

if TYPE_CHECKING:
    from agentrewind.snapshots.detector import Nominated

_INODE = struct.Struct("<QQ")
_DIRECTORIES = frozenset((e.DIRECTORY, e.VOLATILE))


class Look(Scan):
    """One pass over what was nominated, and over what is always compared besides.

    Attributes:
        looked: every path whose present is now known: what the returned `Seen` has, or nothing where it hasn't.
    """

    def __init__(self, *arguments: Any, nominated: Nominated, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._nominated = nominated
        self._trees = set(nominated.trees)
        self._classes: dict[str, tuple[PathClass, str]] = {"": (PathClass.TRACKED, "")}
        self._waiting: dict[str, set[str]] = {}
        self._swept: set[str] = set()
        self.looked: set[str] = set()

    @property
    def went_back(self) -> bool:
        """Whether the clock did: then nothing known can be trusted, and everything must be looked at."""
        return self._went_back

    def run(self) -> Seen:
        known, nominated = self._known, self._nominated
        wanted = nominated.paths | nominated.trees | nominated.forced | known.racy | known.again
        for _, linked in known.links.values():
            wanted.update(linked)
        for path in wanted:
            self._await(path)
        self._look_at_all()
        self._sweep()
        self._await_partners()
        self._look_at_all()
        self._sweep()
        self._settle()
        self.looked.update(self._seen.entries)
        return self._seen

    def is_odd(self) -> bool:
        """Whether some file may be held open under a name that it hasn't any more: it was linked, came from outside,
        appeared in a directory in which nobody told of anything, or lost one of its names.
        """
        fresh, nominated = self._seen, self._nominated
        if nominated.moved_in or any(e.kind_of(fresh.entries.get(p)) in (e.FILE, b"") for p in nominated.created):
            return True
        if any(self._appeared_untold(path, data) for path, data in fresh.entries.items() if self._trees):
            return True
        return any(
            inode not in fresh.links and any(path in fresh.signatures for path in paths)
            for inode, (_, paths) in self._known.links.items()
        )

    def _appeared_untold(self, path: str, data: bytes) -> bool:
        known, sig = self._known.signatures.get(path), self._seen.signatures.get(path)
        if e.kind_of(data) != e.FILE or sig is None or not below(path, self._trees):
            return False
        return known is None or inode_of(known) != inode_of(sig)

    # Which paths

    def _await(self, path: str) -> None:
        """Have `path` looked at, with whatever can only be seen together with it."""
        if path in self.looked:
            return
        parent = split(path)[0]
        top = (self._classes.get(parent) or self._class_of(parent))[1]
        if top:  # in an excluded or a volatile directory, which is one thing
            self._trees.add(top)
            path, parent = top, split(top)[0]
        waiting = self._waiting.setdefault(parent, set())
        waiting.add(path)
        base = sqlite_base(path)
        known = self._known.entries
        if base != path or base + SQLITE[1] in known or base + SQLITE[3] in known:
            waiting.update(base + suffix for suffix in SQLITE if base + suffix in known)

    def _class_of(self, directory: str) -> tuple[PathClass, str]:
        """The class of a directory, and the topmost excluded or volatile one that it is or lies in."""
        below = []
        while (found := self._classes.get(directory)) is None:
            below.append(directory)
            directory = split(directory)[0]
        for path in reversed(below):
            cls, top = found
            if not top:
                cls = self._rules.of(path, split(path)[1], cls, is_directory=True)
                top = path if cls in (PathClass.EXCLUDED, PathClass.VOLATILE) else ""
            found = self._classes[path] = (cls, top)
        return found

    def _await_partners(self) -> None:
        """A file that has several links now and had one: nobody told of its other name. (This looks through all that is
        known, and is rarely needed.)
        """
        wanted = {
            _INODE.pack(*inode) for inode, members in self._linked.items() if members and inode not in self._known.links
        }
        if wanted:
            for path, sig in self._known.signatures.items():
                if sig[: _INODE.size] in wanted:
                    self._await(path)

    def _sweep(self) -> None:
        """All that is known below a directory that is gone, or of which nothing was known any more, is looked at: if
        it isn't in what was seen, it isn't there.
        """
        fresh, known = self._seen.entries, self._known.entries
        tops = {
            path
            for path in self.looked - self._swept
            if e.kind_of(known.get(path)) in _DIRECTORIES
            and (path in self._trees or e.kind_of(fresh.get(path)) not in _DIRECTORIES)
        }
        self._swept |= tops
        if "" in tops:
            self.looked.update(known)
        elif tops:
            prefixes = tuple(path + "/" for path in tops)
            self.looked.update([path for path in known if path.startswith(prefixes)])

    # Looking

    def _look_at_all(self) -> None:
        while self._waiting:
            parent, paths = self._waiting.popitem()
            paths -= self.looked
            if paths:
                self.looked |= paths
                self._look_in(parent, paths)
        self._walk()

    def _look_in(self, parent: str, paths: set[str]) -> None:
        if "" in paths:
            self._looked_at_directory("", PathClass.TRACKED)
            paths.discard("")
        if not paths:
            return
        try:
            directory = self._open_directory(parent)
        except OSError:  # it is no directory any more, or may not be opened: that says what becomes of these paths
            self._await(parent)
            return
        try:
            cls, _ = self._class_of(parent)
            if self._is_waiting(parent) and cls is not PathClass.VOLATILE and self._is_this(directory, parent, cls):
                self.looked.add(parent)
            for path in paths:
                self._path(directory, path, cls)
        finally:
            os.close(directory)

    def _is_waiting(self, path: str) -> bool:
        return path in self._waiting.get(split(path)[0], ()) and path not in self.looked and path not in self._trees

    def _path(self, directory: int, path: str, above: PathClass) -> None:
        name = split(path)[1]
        try:
            st = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            self._unreadable(path, f"can't be looked at: {error.strerror}")
            return
        if stat.S_ISDIR(st.st_mode):
            self._directory_itself(path, name, above)
        else:
            self._seen.latest_ns = max(self._seen.latest_ns, st.st_ctime_ns)
            self._look(directory, path, name, st, above)

    def _directory_itself(self, path: str, name: str, above: PathClass) -> None:
        cls = self._rules.of(path, name, above, is_directory=True)
        if cls is PathClass.EXCLUDED or path in self._mounts:
            self._subdirectory(path, name, above)
        else:
            self._looked_at_directory(path, cls)

    def _looked_at_directory(self, path: str, cls: PathClass) -> None:
        """Its own attributes; and all below where it isn't the directory that was known, or may be read otherwise."""
        if path in self._trees or cls is PathClass.VOLATILE or not self._is_the_same(path, cls):
            self._trees.add(path)
            self._seen.entries.pop(path, None)
            self._todo.append((path, cls))

    def _is_the_same(self, path: str, cls: PathClass) -> bool:
        try:
            fd = self._open_directory(path)
        except OSError:
            return False
        try:
            return self._is_this(fd, path, cls)
        finally:
            os.close(fd)

    def _is_this(self, fd: int, path: str, cls: PathClass) -> bool:
        known, sig, st = self._known.entries.get(path), self._known.signatures.get(path), os.fstat(fd)
        if known is None or sig is None or e.kind_of(known) != e.DIRECTORY or inode_of(sig) != (st.st_dev, st.st_ino):
            return False
        self._enter_directory(path, fd, cls, st)
        return e.without_time(self._seen.entries[path]) == e.without_time(known)
