"""The tasks that come with the package, and those that a user names by their directories."""

from __future__ import annotations

from pathlib import Path

from agentrewind.core.errors import BadTask, UsageError
from agentrewind.tasks.loading import load
from agentrewind.tasks.task import Task

TEMPLATE = Path(__file__).parent / "template"
"""A small task that passes all gates, to begin from."""
SUITES = Path(__file__).parent / "suites"
"""A directory a suite, a directory a task. It holds the solutions: no agent may see it."""
EVERY = "all"
"""The name under which the tasks of all suites are one suite."""


def suites() -> tuple[str, ...]:
    """The names of the suites."""
    return tuple(sorted({path.parent.parent.name for path in SUITES.glob("*/*/task.toml")}))


def names() -> tuple[str, ...]:
    """What `suite` knows: the suites, and the one of all."""
    return (*suites(), EVERY)


def suite(name: str) -> tuple[Task, ...]:
    """The tasks of a suite, by name; those of all are in the order of the suites.

    Raises:
        UsageError: there is no such suite. BadTask: one of the tasks is damaged.
    """
    if name == EVERY:
        return tuple(task for each in suites() for task in suite(each))
    if name not in suites():
        raise UsageError(f"There is no suite {name!r}; there are: {', '.join(names())}.")
    return tuple(load(path, name) for path in sorted((SUITES / name).iterdir()) if (path / "task.toml").is_file())


def find(ref: str) -> Task:
    """A task by `SUITE/NAME`, by its name alone, or by the path of its directory.

    Raises:
        UsageError: there is none. BadTask: it is written wrongly.
    """
    found = [path.parent for path in SUITES.glob("*/*/task.toml") if ref in (path.parent.name, _id(path.parent))]
    if len(found) == 1:
        return load(found[0], found[0].parent.name)
    if ref and Path(ref).is_dir():
        return load(Path(ref))
    raise BadTask(f"There is no task {ref!r}: name one that `agentrewind tasks list` shows, or the directory of one.")


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
