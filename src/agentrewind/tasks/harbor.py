"""Task directories of other benchmarks (Harbor, Terminal-Bench 2): their tests are criteria without an order.

Where the Dockerfile of one only copies files, those are its workspace, and the tests are run by pytest. Images that
have to be built or fetched are left to Harbor.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from agentrewind.core.errors import BadTask
from agentrewind.tasks.rooms import Rooms, copy_of, python
from agentrewind.tasks.task import WORKDIR, Checklist, Criterion, Task
from agentrewind.tasks.verdicts import Outcome, Verdict, Verdicts

_TEST_SCRIPT = "tests/test.sh"
_WITHOUT_EFFECT = frozenset(("ARG", "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "USER"))
"""Instructions that don't change the files of a workspace."""
_TESTS_S = 900.0


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
    criteria = tuple(_criteria(path))
    copies = _copies(path / "environment/Dockerfile")
    return Task(
        path=path,
        name=path.name,
        suite=suite,
        kind="harbor",
        instruction=instruction,
        checklist=Checklist(criteria, ordered=False),
        family=str(metadata.get("category", "")) if isinstance(metadata, dict) else "",
        workdir=str(environment.get("workdir") or copies.workdir),
        network=environment.get("network_mode") != "no-network" and environment.get("allow_internet") is not False,
        cannot_run=_cannot_run(environment, copies, criteria),
    )


def _cannot_run(environment: dict[str, Any], copies: Copies, criteria: tuple[Criterion, ...]) -> str:
    image = environment.get("docker_image")
    if image:
        return f"it needs the container image {image}, and agentrewind runs no images; Harbor itself can"
    if copies.more:
        return f"its Dockerfile does more than copying files (`{copies.more}`), and agentrewind builds no images"
    if criteria[0].id == _NO_TESTS.id:
        return "it has no tests that pytest could run"
    return "" if importlib.util.find_spec("pytest") else "pytest is not installed"


# --- its workspace ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copies:
    """What a Dockerfile that only copies files makes."""

    workdir: str
    files: tuple[tuple[str, str], ...]
    """From the directory of the Dockerfile, to the workspace."""
    more: str = ""
    """The first instruction that does something else, which nobody here can do."""


def _copies(dockerfile: Path) -> Copies:
    try:
        text = dockerfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return Copies(WORKDIR, (), "there is none")
    workdir, files = WORKDIR, list[tuple[str, str]]()
    for line in text.replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if not name or name.startswith("#") or name.upper() in _WITHOUT_EFFECT:
            continue
        found = _places(rest, workdir, dockerfile.parent) if name.upper() in ("COPY", "ADD") else None
        if name.upper() == "WORKDIR" and not files and os.path.isabs(rest.strip()):
            workdir = os.path.normpath(rest.strip())
        elif found is not None:
            files += found
        else:
            return Copies(workdir, (), " ".join(line.split())[:80])
    return Copies(workdir, tuple(files))


def _places(rest: str, workdir: str, top: Path) -> list[tuple[str, str]] | None:
    """Which path goes where; None where it isn't a plain copy into the workspace."""
    try:
        *sources, target = shlex.split(rest)
    except ValueError:
        return None
    whole = os.path.normpath(os.path.join(workdir, target))
    if any(word.startswith("-") for word in sources) or not f"{whole}/".startswith(f"{workdir}/"):
        return None
    if not all((top / source).exists() and ".." not in Path(source).parts for source in sources):
        return None
    below = os.path.relpath(whole, workdir)
    into = target.endswith(("/", ".")) or len(sources) > 1
    files = [(source, not (top / source).is_dir()) for source in sources]
    return [(name, f"{below}/{Path(name).name}" if is_file and into else below) for name, is_file in files]


def build_harbor(task: Task, target: Path) -> None:
    """Copy what the Dockerfile copies. Raises: OSError: it can't be."""
    top = task.path / "environment"
    for source, below in _copies(top / "Dockerfile").files:
        place = target / below
        if (top / source).is_dir():
            shutil.copytree(top / source, place, symlinks=True, dirs_exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(top / source, place)


# --- its tests --------------------------------------------------------------------------------------------------------

_NO_TESTS = Criterion("test.sh", "test", "the tests of the task", "The tests of the task don't pass yet.")


def evaluate_harbor(task: Task, workspace: Path, rooms: Rooms) -> Verdicts:
    """The outcome of each test, on a copy of the workspace: tests of others may write."""
    library = str(Path(str(importlib.util.find_spec("pytest").origin)).parent.parent)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="agentrewind-judged-", ignore_cleanup_errors=True) as place:
        copy = Path(place) / "app"
        copy_of(workspace, copy)
        tests = (task.path / "tests").resolve()
        with rooms(copy, at=task.workdir, readable=(tests, Path(library))) as room:
            words = [python(), "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "--rootdir", str(tests)]
            report = ".agentrewind-report.xml"
            line = shlex.join([*words, "--junitxml", report, *map(str, sorted(tests.glob("test_*.py")))])
            result = room.run(f"PYTHONPATH={shlex.quote(library)} {line}", _TESTS_S)
        found = _outcomes(copy / report)
    missing = f"the test was not run (exit code {result.exit_code}): {result.output[-500:]}"
    items = [(criterion, found.get(criterion.id, ("error", missing))) for criterion in task.checklist]
    return Verdicts(tuple(Verdict(criterion, *outcome) for criterion, outcome in items), ordered=False)


def _outcomes(report: Path) -> dict[str, tuple[Outcome, str]]:
    """By criterion. One that is run with several parameters is satisfied where all of them are."""
    found: dict[str, tuple[Outcome, str]] = {}
    try:
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 (pytest wrote it, in a room of its own)
    except (OSError, ET.ParseError):
        return found
    for case in cases:
        name = _criterion(case.get("classname", ""), case.get("name", ""))
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if bad is not None:
            found[name] = ("failed", (bad.get("message") or "")[:2000])
        else:
            found.setdefault(name, ("satisfied", ""))
    return found


def _criterion(where: str, test: str) -> str:
    """Of `tests.test_outputs.TestMore` and `test_it[1]`: `test_outputs.py::TestMore::test_it`."""
    parts = where.split(".")
    module = max((number for number, part in enumerate(parts) if part.startswith("test_")), default=0)
    return "::".join((f"{parts[module]}.py", *parts[module + 1 :], test.partition("[")[0]))


def _criteria(path: Path) -> Iterator[Criterion]:
    found = False
    for file in sorted((path / "tests").glob("test_*.py")):
        for name, said in _tests(file):
            found = True
            what = said or f"A test of the task doesn't pass yet: {name.replace('_', ' ')}."
            yield Criterion(f"{file.name}::{name}", "test", said or name, what)
    if not found:
        yield _NO_TESTS


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
