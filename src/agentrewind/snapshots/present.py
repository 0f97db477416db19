"""What is expected to stand in the workspace, compared with what does, immediately before each act of a restore."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import READ, opened, split
from agentrewind.snapshots.reading import Sink, inode_of, signature, take_file, without_ctime

if TYPE_CHECKING:
    from agentrewind.snapshots.scan import Seen


class Conflict(Exception):
    """Something else stands there than was saved; it was not touched."""


class Present:
    """The workspace as the live snapshot saw it, but for our own acts since.

    Those are noted here and not in `seen`: there they would pass for something that was read.
    """

    def __init__(self, root: int, seen: Seen, sink: Sink) -> None:
        self.entries = seen.entries
        self._root = root
        self._seen = seen
        self._sink = sink
        self._own: dict[str, bytes] = {}
        self._written: set[str] = set()
        self._let_go: set[str] = set()
        self._doubted: set[str] = set()

    def _signature(self, path: str) -> bytes | None:
        return self._own.get(path) or self._seen.signatures.get(path)

    def _links(self, inode: tuple[int, int], path: str) -> tuple[int, list[str]]:
        return self._seen.links.get(inode, (1, [path]))

    def doubt(self, path: str) -> None:
        """Its times prove nothing any more: from now on its bytes are compared."""
        self._doubted.add(path)

    def check(self, directory: int, name: str, st: os.stat_result, path: str) -> None:
        """Raises: Conflict: `name`, with `st` just read, isn't what was saved of `path`."""
        if not self.is_as_saved(directory, name, st, path):
            raise Conflict("has changed meanwhile")

    def check_inode(self, directory: int, name: str, st: os.stat_result, path: str) -> None:
        """Raises: Conflict: it isn't what was saved, or somebody has linked it meanwhile, perhaps from outside."""
        self.check(directory, name, st, path)
        links, names = self._links((st.st_dev, st.st_ino), path)
        if st.st_nlink != links - sum(other in self._let_go for other in names):
            raise Conflict("has another link by now")

    def is_as_saved(self, directory: int, name: str, st: os.stat_result, path: str, *, moved: bool = False) -> bool:
        """By its signature, and by its bytes where that proves nothing.

        `moved`: we renamed it a moment ago, which moves its change time.
        """
        expected, data = self._signature(path), self.entries.get(path)
        now = signature(st)
        if expected is None or data is None or without_ctime(now) != without_ctime(expected):
            return False
        racy = (path in self._seen.racy or path in self._doubted) and path not in self._written
        if e.kind_of(data) != e.FILE or (not racy and (moved or now == expected)):
            return True
        return self._has_the_bytes(directory, name, data)

    def _has_the_bytes(self, directory: int, name: str, data: bytes) -> bool:
        try:
            fd = os.open(name, READ, dir_fd=directory)
        except OSError:
            return False
        try:
            taken = take_file(fd, self._sink, private=bool(data[0] & e.PRIVATE))
        finally:
            os.close(fd)
        return taken.stable and e.content_of(taken.entry) == e.content_of(data)

    def wrote(self, directory: int, name: str, path: str) -> None:
        """What we wrote to the inode of `path` is from now on what we expect to find."""
        now = signature(os.stat(name, dir_fd=directory, follow_symlinks=False))
        for other in self._links(inode_of(now), path)[1]:
            self._own[other] = now
            self._written.add(other)

    def let_go(self, path: str) -> None:
        """We took this name away. The change time of the other names of a linked file moved with that."""
        self._let_go.add(path)
        sig = self._signature(path)
        if sig is not None:
            for name in self._seen.links.get(inode_of(sig), (0, []))[1]:
                self._refresh(name)

    def _refresh(self, path: str) -> None:
        parent, name = split(path)
        with contextlib.suppress(OSError), opened(self._root, parent) as directory:
            now = signature(os.stat(name, dir_fd=directory, follow_symlinks=False))
            if without_ctime(now) == without_ctime(self._signature(path) or b""):
                self._own[path] = now
