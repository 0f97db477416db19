"""For tests: a process that kills itself at a named crash point."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from agentrewind.core import crashpoints

VARIABLE = "AGENTREWIND_CRASH_AT"


def arm(environ: Mapping[str, str] = os.environ) -> None:
    """With `AGENTREWIND_CRASH_AT=NAME[:N]`, this process dies of SIGKILL when it reaches the point the Nth time."""
    name, _, count = environ.get(VARIABLE, "").partition(":")
    if name:
        crashpoints.arm(name, lambda: os.kill(os.getpid(), signal.SIGKILL), after=max(int(count or 1) - 1, 0))
