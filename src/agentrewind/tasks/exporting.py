"""Writing a task out so that it stands alone: as a new one to work on, or for another runner."""

from __future__ import annotations

import shutil
from pathlib import Path

from agentrewind.core.errors import BadTask, UsageError
from agentrewind.tasks.building import KIT
from agentrewind.tasks.shipped import TEMPLATE
from agentrewind.tasks.task import Task, text_of

_WITH = {"environment": ("laying.py",), "tests": ("checking.py", "driver.py")}


def new(target: Path) -> None:
    """Put a small task into `target` that passes every gate and screen, to be changed into another.

    Raises:
        UsageError: something is there already; nothing was touched.
    """
    _copy(TEMPLATE, target)
    settings = target / "task.toml"
    settings.write_text(text_of(settings).replace("example/tidy-store", f"example/{target.resolve().name}"), "utf-8")


def export(task: Task, target: Path) -> None:
    """Put the task into `target` as a directory of Harbor's format that needs nothing of this package.

    Raises:
        UsageError: something is there already; nothing was touched. BadTask: it isn't a task of our format.
    """
    if task.kind != "agentrewind":
        raise BadTask(f"{task.id} is a directory of another benchmark already.")
    _copy(task.path, target)
    for directory, names in _WITH.items():
        for name in names:
            shutil.copyfile(KIT / name, target / directory / name)


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        raise UsageError(f"{target} is there already; name a directory that isn't.")
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "ruff.toml"))
