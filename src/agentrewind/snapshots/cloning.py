"""Files that share their blocks with others, until one of the two is written: for file systems with `FICLONE`."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import READ, opened
from agentrewind.snapshots.reading import HashingSink, take_file

if TYPE_CHECKING:
    from agentrewind.snapshots.entry import Entry
    from agentrewind.snapshots.private import Keys

_FICLONE = 0x40049409
_NEVER = frozenset((errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EXDEV))
LEAST = 16 << 10
"""Below this many bytes a clone costs more than a copy."""


def clone(source: int, to: int) -> None:
    """Give the empty file `to` the blocks of `source`. Raises: OSError: they can't be shared."""
    fcntl.ioctl(to, _FICLONE, source)


class Donor:
    """A live directory whose files may give their blocks to new ones.

    Whoever else writes there can do so at any time. So a clone is made first, of which nobody else knows, and it counts
    only if its own bytes prove to be those that are wanted.

    Attributes:
        shared: how many bytes of files have come to share their blocks.
    """

    def __init__(self, root: int, keys: Keys) -> None:
        self._root = root
        self._sink = HashingSink(keys)
        self._can = True
        self.shared = 0

    def gives(self, fd: int, path: str, entry: Entry) -> bool:
        """Make the new file `fd` (open for reading and writing) a clone of what stands at `path`, if that has the bytes
        of `entry`; else `fd` is empty.
        """
        if not self._can or entry.private or entry.size < LEAST:
            return False
        try:
            if self._cloned(fd, path, entry) and self._proves(fd, entry):
                self.shared += entry.size
                return True
        except OSError as error:
            self._can = error.errno not in _NEVER
        os.ftruncate(fd, 0)
        return False

    def _cloned(self, fd: int, path: str, entry: Entry) -> bool:
        """Raises: OSError."""
        with opened(self._root, path, READ) as source:
            st = os.fstat(source)
            if (st.st_size, st.st_mtime_ns) != (entry.size, entry.mtime_ns):
                return False
            clone(source, fd)
        return True

    def _proves(self, fd: int, entry: Entry) -> bool:
        """Raises: OSError."""
        taken = take_file(fd, self._sink, private=False)
        found = e.decode(taken.entry)
        return taken.stable and (found.size, found.content, found.sparse) == (entry.size, entry.content, entry.sparse)
