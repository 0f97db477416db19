"""A detector that the kernel tells what happened: one inotify watch a directory, read only at the node boundary.

Events are queued inside the system call that changes something, so what a tool did is in the queue when it has ended.
A watch is added before its directory is listed, so nothing falls between. A directory that was moved is unknown, not
renamed: its watches end, and where it turns up again everything in it is compared. What the kernel doesn't tell
(writes through links from outside, stores to mapped pages) is not our task but the `Finder`'s.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from agentrewind.snapshots import inotify
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.detector import Nominated, Unknown
from agentrewind.snapshots.inotify import Inotify

if TYPE_CHECKING:
    from agentrewind.snapshots.inotify import Event

_TELLING = frozenset((
    0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E, 0x858458F6, 0x3153464A,
    0x3434, 0x4D44, 0x2011BAB0,
))  # fmt: skip
"""ext2 to ext4, xfs, btrfs, tmpfs, overlay, f2fs, zfs, bcachefs, ramfs, jfs, nilfs, vfat, exfat (`statfs(2)`): all that
changes there goes through this kernel. Elsewhere another machine or a server may write without a word.
"""
FIRST = "nothing has been watched yet"
_NAMES_CHANGE = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_APPEARS = inotify.CREATE | inotify.MOVED_TO
_VANISHES = inotify.DELETE | inotify.MOVED_FROM
_WRITTEN = frozenset((inotify.MODIFY, inotify.CLOSE_WRITE))
"""Each event with a name is of one kind only; these say nothing of names."""
_ITSELF_GONE = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.IGNORED


def refusal(root: int) -> str:
    """Why the directory `root` can't be watched; empty where it can."""
    if not inotify.AVAILABLE:
        return "this system has no inotify"
    if inotify.file_system_type(root) not in _TELLING:
        return "the workspace lies on a file system that others may change without this kernel's knowing"
    return ""


class Watch:
    """Watches every directory that a look enters."""

    def __init__(self) -> None:
        self._queue: Inotify | None = None
        self._process = os.getpid()
        self._unknown: Unknown | None = Unknown(FIRST)
        self._given_up: Unknown | None = None
        self._nominated = Nominated()
        self._leaving: set[int] = set()
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._inside: dict[str, set[str]] = {}

    @property
    def tells(self) -> bool:
        return self._queue is not None

    def nominate(self) -> Nominated | Unknown:
        if self._process != os.getpid():
            self._stop()
            self._unknown = Unknown("this process was forked from the one that watched")
        if self._unknown is None and self._queue is not None:
            self._drain(self._queue)
        return self._nominated if self._unknown is None else self._unknown

    def _drain(self, queue: Inotify) -> None:
        paths, forced, created = self._nominated.paths, self._nominated.forced, self._nominated.created
        for event in queue.read():
            wd, mask, _, name = event
            if mask in _WRITTEN and name and wd in self._paths:  # the commonest, without a detour
                directory = self._paths[wd]
                path = f"{directory}/{name}" if directory else name
                paths.add(path)
                if mask == inotify.CLOSE_WRITE:
                    forced.add(path)
                    created.discard(path)
            elif mask & inotify.OVERFLOW:
                self._unknown = Unknown(
                    "more happened at once than the kernel keeps for a watcher"
                    f" (fs.inotify.max_queued_events = {inotify.limit('max_queued_events')})"
                )
            elif mask & inotify.UNMOUNT:
                self._unknown = Unknown("a file system was unmounted")
            elif wd in self._paths:
                self._take(event, self._paths[wd])

    def _take(self, event: Event, directory: str) -> None:
        if not event.name:
            self._itself(event, directory)
            return
        path = f"{directory}/{event.name}" if directory else event.name
        self._nominated.paths.add(path)
        if event.mask & _NAMES_CHANGE:
            self._nominated.paths.add(directory)
            self._names(event, path)
        if event.mask & inotify.IS_DIRECTORY:
            if event.mask & _VANISHES:
                self._forget(path)
            if event.mask & (_APPEARS | inotify.MOVED_FROM):
                self._nominated.trees.add(path)

    def _names(self, event: Event, path: str) -> None:
        if event.mask & inotify.MOVED_FROM:
            self._leaving.add(event.cookie)
        elif event.mask & inotify.MOVED_TO and event.cookie not in self._leaving:
            self._nominated.moved_in = True
        elif event.mask & inotify.CREATE and not event.mask & inotify.IS_DIRECTORY:
            self._nominated.created.add(path)

    def _itself(self, event: Event, directory: str) -> None:
        self._nominated.paths.add(directory)
        if event.mask & _ITSELF_GONE and not directory:
            self._unknown = Unknown("the workspace directory itself was moved or removed")
        elif event.mask & inotify.IGNORED:
            self._forget(directory)
            self._nominated.trees.add(directory)

    def _forget(self, path: str) -> None:
        """End the watches of a directory and all below it, wherever it is now."""
        self._inside.get(split(path)[0], set()).discard(path)
        todo = [path]
        while todo:
            path = todo.pop()
            todo += self._inside.pop(path, ())
            wd = self._watches.pop(path, None)
            if wd is not None:
                self._paths.pop(wd, None)
                if self._queue is not None:
                    self._queue.remove(wd)

    def begin(self, root: int) -> None:
        self._stop()
        self._process = os.getpid()
        self._nominated = Nominated()
        self._unknown = self._given_up or Unknown("the last look was not completed")
        if self._given_up is None:
            if why := refusal(root):
                self._give_up(why)
                return
            try:
                self._queue = Inotify()
            except OSError as error:
                self._give_up(
                    f"{error.strerror} (fs.inotify.max_user_instances = {inotify.limit('max_user_instances')})"
                )

    def entering(self, directory: int, path: str) -> None:
        if self._queue is None:
            return
        try:
            wd = self._queue.add(directory)
        except OSError as error:
            full = (
                f"this user's watches are used up (fs.inotify.max_user_watches = {inotify.limit('max_user_watches')})"
            )
            self._give_up(full if error.errno == errno.ENOSPC else f"{path!r} can't be watched: {error.strerror}")
        else:
            self._note(wd, path)

    def _note(self, wd: int, path: str) -> None:
        if self._watches.get(path) == wd:
            return
        if path in self._watches:  # another directory stands there by now
            self._paths.pop(self._watches[path], None)
        if (before := self._paths.get(wd)) is not None:  # it was moved here a moment ago
            self._watches.pop(before, None)
            self._inside.get(split(before)[0], set()).discard(before)
        self._paths[wd] = path
        self._watches[path] = wd
        if path:
            self._inside.setdefault(split(path)[0], set()).add(path)

    def settled(self) -> None:
        self._nominated = Nominated()
        self._leaving.clear()
        if self._queue is not None:
            self._unknown = None

    def _give_up(self, why: str) -> None:
        """Scan from now on, and let others have the watches."""
        self._stop()
        self._unknown = self._given_up = Unknown(why)

    def _stop(self) -> None:
        if self._queue is not None:
            with contextlib.suppress(OSError):
                self._queue.close()
        self._queue = None
        self._paths.clear()
        self._watches.clear()
        self._inside.clear()

    def close(self) -> None:
        self._stop()
        self._unknown = Unknown(FIRST)
