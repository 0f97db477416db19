"""An adapter in a wrapper that makes trouble. `AGENTREWIND_KIT_AGENT` names the adapter inside."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

WRAPS = "AGENTREWIND_KIT_AGENT"
STARTS = "AGENTREWIND_KIT_STARTS"
"""A file with a line for each time that the agent was started."""


class _Wrapped:
    """As the adapter inside. Knows the shape of a job, and none of its classes."""

    name = "wrapped"
    preload: ClassVar[tuple[str, ...]]
    seeds: ClassVar[bool]
    options: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        module, _, name = os.environ[WRAPS].partition(":")
        self._inside = getattr(importlib.import_module(module), name)()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def run(self, job: Any) -> Any:
        with Path(os.environ[STARTS]).open("a") as starts:
            starts.write("started\n")
        return self._run(job)

    def _run(self, job: Any) -> Any:
        return self._inside.run(job)


class Wandering(_Wrapped):
    """Asks something else each time that it is started, as an agent does that reads the clock."""

    def _run(self, job: Any) -> Any:
        number = len(Path(os.environ[STARTS]).read_text().splitlines())
        return self._inside.run(replace(job, task=f"{job.task} This is start {number}."))


class Swallowing(_Wrapped):
    """Catches whatever is raised, tries to go on with a tool, and says that all is well."""

    def _run(self, job: Any) -> Any:
        try:
            return self._inside.run(job)
        except:  # noqa: E722 (what is played)
            for _ in range(3):
                with contextlib.suppress(BaseException):
                    job.recorder.tool("shell", {"command": "late"}, lambda: _late(job.workspace))
            return self._inside.run(job)


def _late(workspace: Path) -> str:
    subprocess.run(["sh", "-c", "echo swallowed >> ../side"], cwd=workspace, check=True)
    return "done"
