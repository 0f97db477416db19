"""Bringing what was appended to the disk while the program goes on, so that a later `sync` finds it done."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from agentrewind.core.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path


class Flusher:
    """One short-lived thread at a time; none is left once there is nothing to do, and none is waited for in a child
    that was forked meanwhile.
    """

    def __init__(self) -> None:
        self._error: OSError | None = None
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._next: tuple[int, int, int] | None = None
        self._done: dict[int, int] = {}

    def start(self, pack: int, end: int, fd: int) -> None:
        """Bring `pack` up to byte `end`, open as `fd`, to the disk; returns at once. A later call may stand for an
        earlier one of the same pack.
        """
        self._mine()
        copy = os.dup(fd)
        with self._lock:
            waiting, self._next = self._next, (pack, end, copy)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agentrewind-flush", daemon=True)
                self._thread.start()
        if waiting is not None:  # overtaken; if it was another pack, `sync` finds it not done
            os.close(waiting[2])

    def wait(self, directory: Path) -> dict[int, int]:
        """Pack to the byte up to which it is on the disk, once nothing is under way.

        Raises:
            StoreError: the disk has refused at some time since this object was made: after that nothing tells what of
                the earlier writes is there.
        """
        self.finish()
        if self._error is not None:
            raise StoreError(not_on_disk(directory, self._error)) from self._error
        return dict(self._done)

    def finish(self) -> None:
        """Return once nothing is under way."""
        self._mine()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _mine(self) -> None:
        """In a forked child the thread doesn't run: begin with none, and know nothing to be done."""
        if self._process != os.getpid():
            self._begin()

    def _run(self) -> None:
        while True:
            with self._lock:
                job, self._next = self._next, None
                if job is None:
                    self._thread = None
                    return
            pack, end, fd = job
            try:
                os.fdatasync(fd)
            except OSError as error:
                self._error = error
            else:
                self._done[pack] = max(end, self._done.get(pack, 0))
            finally:
                os.close(fd)


def not_on_disk(directory: Path, error: OSError) -> str:
    """What a person is told where the disk refused to keep what was written."""
    return (
        f"{directory}: the disk could not be made to keep the latest snapshots ({error.strerror}). They can be read now"
        " and may be gone after a power loss; look at the disk, then take a new snapshot."
    )
