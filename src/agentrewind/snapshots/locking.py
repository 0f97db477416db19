"""One process at a time changes a store: whoever saves, and whoever collects. Freed by the death of the process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any

from agentrewind.core.codec import canonical
from agentrewind.core.errors import Busy
from agentrewind.snapshots.plain import NotPlain, open_plain, read_plain

if TYPE_CHECKING:
    from pathlib import Path

NAME = "lock"
_LONGEST = 1 << 16


class StoreLock:
    """Held as long as this process lives or until `release`. The file stays and says who wrote last, and for where."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    @classmethod
    def take(cls, store: Path, holder: str, root: Path | None) -> StoreLock:
        """Raises: Busy: another process writes this store. NotPlain, OSError: the lock can't be used."""
        fd = open_plain(store / NAME, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            before = last_writer(store)
            where = before.get("root", "") if root is None else str(root)
            text = canonical({"root": where, "pid": os.getpid(), "holder": holder, "since_ns": time.time_ns()})
            with contextlib.suppress(OSError):  # a full disk: it names the last holder, and locks all the same
                os.ftruncate(fd, 0)
                os.pwrite(fd, text, 0)
        except BlockingIOError as error:
            os.close(fd)
            held = last_writer(store)
            behalf = f" ({held['holder']})" if held.get("holder") else ""
            raise Busy(
                f"The snapshots in {store} are in use: process {held.get('pid', '?')}{behalf} holds them until it ends."
            ) from error
        except BaseException:
            os.close(fd)
            raise
        return cls(fd)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def last_writer(store: Path) -> dict[str, Any]:
    """`root`, `pid` and `holder` of whoever wrote the store last; empty where nothing can be told."""
    try:
        plain = json.loads(read_plain(store / NAME, _LONGEST))
    except (OSError, NotPlain, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}
