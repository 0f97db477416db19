"""Building records on a second core while the next files are read, once there are enough to pay for a thread."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentrewind.snapshots.packs import Row

    Job = tuple[list[Row], bytes]
    Built = tuple[list[Row], bytes]

FEW = 4
"""Frames that are built at once: an append of so few is a step, not a first look."""
_WAITING = 8


class Pipeline:
    """Frames in, records out, in the same order. The thread lives from the fifth frame to `drain` or `drop`."""

    def __init__(self, build: Callable[[list[Row], bytes], bytes]) -> None:
        self._build = build
        self._count = 0
        self._under_way = 0
        self._thread: threading.Thread | None = None
        self._in: SimpleQueue[Job | None] = SimpleQueue()
        self._out: SimpleQueue[Built | BaseException] = SimpleQueue()

    def put(self, rows: list[Row], content: bytes) -> Iterator[Built]:
        """Take in a frame; what is built by now, and may be given out."""
        self._count += 1
        if self._count <= FEW:
            yield rows, self._build(rows, content)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentrewind-pack", daemon=True)
            self._thread.start()
        self._in.put((rows, content))
        self._under_way += 1
        while self._under_way > _WAITING:
            yield self._next()

    def _next(self) -> Built:
        """Raises: whatever building raised."""
        found = self._out.get()
        self._under_way -= 1
        if isinstance(found, BaseException):
            raise found
        return found

    def _run(self) -> None:
        while (job := self._in.get()) is not None:
            try:
                self._out.put((job[0], self._build(*job)))
            except BaseException as error:  # noqa: BLE001 (it is raised where the record is asked for)
                self._out.put(error)

    def drain(self) -> Iterator[Built]:
        """The rest; the next frame begins anew."""
        while self._under_way:
            yield self._next()
        self._end()

    def drop(self) -> None:
        """Forget what is under way."""
        self._end()
        while not self._out.empty():
            self._out.get()
        self._under_way = 0

    def _end(self) -> None:
        self._count = 0
        if self._thread is not None:
            self._in.put(None)
            self._thread.join()
            self._thread = None
