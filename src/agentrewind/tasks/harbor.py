"""Task directories of other benchmarks (Harbor, Terminal-Bench 2): their tests are criteria without an order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentrewind.core.errors import BadTask
from agentrewind.tasks.task import Checklist, Criterion, Task

_TEST_SCRIPT = "tests/test.sh"


def load_harbor(path: Path, settings: dict[str, Any], suite: str = "") -> Task:
    """The task in a Harbor directory. Nothing of it is run.

    Raises:
        BadTask: the directory is none.
    """
    if not (path / _TEST_SCRIPT).is_file():
        raise BadTask(f"{path} is no task: there is neither tests/checklist.toml nor {_TEST_SCRIPT}.")
    try:
        instruction = (path / "instruction.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadTask(f"{path} is no task: its instruction.md can't be read ({error}).") from error
    environment = settings.get("environment")
    environment = environment if isinstance(environment, dict) else {}
    metadata = settings.get("metadata")
    return Task(
        path=path,
        name=path.name,
        suite=suite,
        kind="harbor",
        instruction=instruction,
        checklist=Checklist(tuple(_criteria(path)), ordered=False),
        family=str(metadata.get("category", "")) if isinstance(metadata, dict) else "",
        workdir=str(environment.get("workdir") or "/app"),
        network=environment.get("network_mode") != "no-network" and environment.get("allow_internet") is not False,
        cannot_run=_cannot_run(path, environment),
    )


def _cannot_run(path: Path, environment: dict[str, Any]) -> str:
    image = environment.get("docker_image")
    if image:
        return f"it needs the container image {image}, and agentrewind runs no images; Harbor itself can"
    if (path / "environment/Dockerfile").exists():
        return "its environment is a Dockerfile, and agentrewind builds no images; Harbor itself can"
    return "nothing says what its environment is"


def _criteria(path: Path) -> Iterator[Criterion]:
    found = False
    for file in sorted((path / "tests").glob("test_*.py")):
        for name, said in _tests(file):
            found = True
            what = said or f"A test of the task doesn't pass yet: {name.replace('_', ' ')}."
            yield Criterion(f"{file.name}::{name}", "test", said or name, what)
    if not found:
        yield Criterion("test.sh", "test", "the tests of the task", "The tests of the task don't pass yet.")


def _tests(file: Path) -> Iterator[tuple[str, str]]:
    """The names of the tests in a file of pytest, and the first lines of what they say of themselves."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise BadTask(f"{file} can't be read as Python: {error}.") from error
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from ((f"{node.name}::{name}", said) for name, said in _functions(node.body))
    yield from _functions(tree.body)


def _functions(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            said = (ast.get_docstring(node) or "").strip().splitlines()
            yield node.name, said[0] if said else ""
