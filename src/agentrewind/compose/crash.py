"""For tests: a process that kills itself at a named crash point."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from agentrewind.core import crashpoints
from agentrewind.core.errors import UsageError

VARIABLE = "AGENTREWIND_CRASH_AT"


def arm(environ: Mapping[str, str] = os.environ) -> None:
    """With `AGENTREWIND_CRASH_AT=NAME[:N]`, this process dies of SIGKILL when it reaches the point the Nth time.

    Raises:
        UsageError: N is no number.
    """
    name, _, count = environ.get(VARIABLE, "").partition(":")
    if not name:
        return
    try:
        after = max(int(count or 1) - 1, 0)
    except ValueError:
        raise UsageError(f"{VARIABLE} is NAME or NAME:N with a whole number N, not {name}:{count}.") from None
    crashpoints.arm(name, lambda: os.kill(os.getpid(), signal.SIGKILL), after=after)
