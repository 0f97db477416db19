"""Building the first state of a task."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from agentrewind.core.errors import BadTask, UsageError
from agentrewind.tasks.harbor import build_harbor
from agentrewind.tasks.rooms import environ, python
from agentrewind.tasks.task import Task

KIT = Path(__file__).parent / "kit"
"""The modules that builders (`laying`) and checks (`checking`) may import; the standard library alone."""
_BUILD_S = 300.0
_RUN = """\
import runpy, sys
sys.path.insert(0, sys.argv[1])
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def build(task: Task, target: Path, *, surroundings: Mapping[str, str] | None = None) -> None:
    """Make the first state of the task in `target`, which is empty or doesn't exist.

    The builder is a program of the task's author and runs as the user, as a Makefile would. `surroundings` are
    variables that it runs with; they must not matter.

    Raises:
        UsageError: `target` isn't empty, or the task can't be run on this machine; nothing was touched.
        BadTask: the builder failed; `target` may hold a part.
    """
    if task.skipped:
        raise UsageError(f"{task.id} can't be built here: {task.skipped}.")
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} isn't empty: a task is built into a directory of its own.")
    target.mkdir(parents=True, exist_ok=True)
    if task.kind == "harbor":
        build_harbor(task, target)
        return
    variables = {**environ(), **(surroundings or {})}
    words = [python(), "-I", "-B", "-c", _RUN, str(KIT), str(task.setup), str(target)]
    try:
        done = subprocess.run(
            words, env=variables, cwd=target, umask=0o022, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=_BUILD_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadTask(f"{task.setup} could not be run to its end: {error}.") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise BadTask(f"{task.setup} failed with exit code {done.returncode}: {last}")
