"""While the model thinks, all of the workspace is compared with what is known of it, now and then.

Where the kernel tells what changes, a step looks at nothing else. What it should ever fail to tell is found here, saved
by the next snapshot, and counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from agentrewind.core.errors import AgentRewindError

REST_S = 60.0
"""So long at least between two audits,"""
SHARE = 0.05
"""and of all time they take no more than this share."""


class Auditor:
    """Counts what it found; errors are left to the next snapshot, which meets them too.

    Args:
        audit: compares everything; returns how many paths had changed although nothing told of it.
        lock: held meanwhile, so that nobody else uses the world.
    """

    def __init__(self, audit: Callable[[], int], lock: threading.RLock, *, rest_s: float = REST_S) -> None:
        self._audit = audit
        self._lock = lock
        self._rest_s = rest_s
        self._ended = time.monotonic()
        self._took = 0.0
        self._busy = threading.Event()
        self.audits = 0
        self.healed = 0
        """Paths that nobody had told of."""

    def meanwhile(self) -> None:
        """Begin one in the background, if it is time for one."""
        if time.monotonic() - self._ended < max(self._rest_s, self._took / SHARE) or self._busy.is_set():
            return
        self._busy.set()
        threading.Thread(target=self._in_background, name="agentrewind audit", daemon=True).start()

    def now(self) -> None:
        """One audit, at once."""
        with self._lock:
            begun = time.monotonic()
            try:
                self.healed += self._audit()
                self.audits += 1
            except (AgentRewindError, OSError):
                return
            finally:
                self._ended = time.monotonic()
                self._took = self._ended - begun

    def _in_background(self) -> None:
        try:
            self.now()
        finally:
            self._busy.clear()
