"""The task that `agentrewind tasks new` begins from, built, and judged in the rooms of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from agentrewind.compose.judging import rooms
from agentrewind.tasks.building import build
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.loading import load
from agentrewind.tasks.shipped import TEMPLATE
from agentrewind.tasks.task import Task
from agentrewind.tasks.verdicts import Verdicts


def copied(to: Path) -> Path:
    """A copy of the good task, to be changed."""
    return Path(shutil.copytree(TEMPLATE, to))


def changed(path: Path, old: str, new: str) -> None:
    """One change to a file of a task."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def built(task: Task, to: Path) -> Path:
    build(task, to)
    return to


def ran(task: Task, workspace: Path, *scripts: str) -> None:
    with rooms()(workspace, at=task.workdir) as room:
        for script in scripts:
            room.run(script, timeout_s=60)


def verdicts(task: Task, workspace: Path) -> Verdicts:
    return Evaluator(task, rooms()).evaluate(workspace)


def outcomes(found: Verdicts) -> dict[str, str]:
    return {item.criterion.id: item.outcome for item in found.items}


def good() -> Task:
    return load(TEMPLATE)
