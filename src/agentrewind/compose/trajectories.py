"""A run made of a trajectory file of another program: to be read and compared, not to be gone back in."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentrewind import __version__
from agentrewind.compose.home import Home, new_run_id, slug
from agentrewind.compose.recording import created
from agentrewind.compose.secret import redactor
from agentrewind.core.records import RunStarted
from agentrewind.integrations.formats.mini_trajectory import import_mini, model_of, read_mini, task_of

IMPORTED = "mini-swe-agent (imported)"


def import_trajectory(home: Home, file: Path) -> str:
    """The id of the new run. Secrets are taken out as in any other.

    Raises:
        UsageError: `file` isn't a trajectory of the format that we read. StorageFull. There is no run then.
    """
    found = read_mini(file)
    home.made()
    redact = redactor(os.environ)
    now = time.time_ns()
    task = task_of(found)
    run_id = new_run_id(slug(redact.text("imported " + file.stem)), now)
    nowhere = str(home.run_dir(run_id) / "no-workspace")
    first = min((at for at in map(_time, found["messages"]) if at), default=now)
    started = RunStarted(run_id, nowhere, first, __version__, task, IMPORTED, model_of(found), "imported", "never")
    with created(home, started, redact, "process") as log:
        import_mini(found, log)
    return run_id


def _time(message: dict[str, object]) -> int:
    extra = message.get("extra")
    at = extra.get("timestamp") if isinstance(extra, dict) else None
    return int(at * 1e9) if isinstance(at, int | float) and 0 < at < 1 << 33 else 0
