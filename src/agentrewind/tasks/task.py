"""A benchmark task: a directory that says what is asked, what the world is at first, and how the result is judged.

::

    task.toml               schema_version "1.4"; [metadata.mettle] says what the other runners need not know
    instruction.md          all that the agent is told
    environment/setup.py    builds the first state; argument: the target directory
    solution/solve.sh       a linear script that reaches everything; `# step NAME` lines cut it into steps
    solution/violate.sh     the same work in an order that ignores a dependency; `# fails at: P3` names what must fail
    solution/policy.toml    how a simulated model goes about it
    tests/checklist.toml    the criteria, in order
    tests/checks.py         a function `p3_...` for the criterion P3
    tests/expected.json     frozen values, so that no check needs the builder
    tests/test.sh           runs the checks where another runner expects that
    review.toml             what a reader who didn't write it says of it, if one has

It is a Harbor task with some more files, so that other runners can run it (`agentrewind tasks export`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from agentrewind.core.errors import BadTask

SCHEMA = "1.4"
WORKDIR = "/app"
"""Where the workspace of a task is seen, unless it says otherwise."""
_FAILS_AT = re.compile(r"^# fails at: (\S+)$", re.MULTILINE)
_STEP = re.compile(r"^# step (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One executable check, and what the agent is told where it is the first that doesn't hold."""

    id: str
    category: str
    intent: str
    """What it is meant to establish; never shown to the agent."""
    feedback: str


@dataclass(frozen=True, slots=True)
class Checklist:
    """The criteria in their order. Unordered ones (of another benchmark) have no prefix to count."""

    criteria: tuple[Criterion, ...]
    ordered: bool = True

    def __len__(self) -> int:
        return len(self.criteria)

    def __iter__(self) -> Iterator[Criterion]:
        return iter(self.criteria)

    def __getitem__(self, name: str) -> Criterion:
        """Raises: KeyError: there is no criterion of that id."""
        return {item.id: item for item in self.criteria}[name]

    def index(self, name: str) -> int:
        """The place of a criterion, from 0. Raises: KeyError: there is no criterion of that id."""
        return self.criteria.index(self[name])


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the reference that runs in a shell of its own."""

    name: str
    script: str


@dataclass(frozen=True, slots=True)
class Quote:
    """A value that a later deliverable has to quote from an earlier one (screen S2)."""

    within: str
    """The later one, a path in the workspace."""
    key: str
    """Where it stands in there: `a.b.c` in a JSON object, what a line `key: ...` says in a text."""
    of: str
    """The earlier one; the value is its SHA-256, or what `of_key` says of it."""
    of_key: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the work that can only begin when the former one has made what it makes (screen S1)."""

    makes: str
    """A path in the workspace."""
    steps: tuple[str, ...]
    criterion: str


@dataclass(frozen=True, slots=True)
class Screens:
    """What a task declares about its length, to be checked by the screens."""

    stages: tuple[Stage, ...] = ()
    quotes: tuple[Quote, ...] = ()
    defects: tuple[str, ...] = ()
    """Steps of the reference that each repair one, in the order in which they come to light."""
    symptom: str = ""
    """A command whose output shows the defect that is in the way."""
    log: str = ""
    """The deliverable with the reconstructed entries, a JSON list or an object with a list, a CSV or lines of JSON."""
    entries: int = 0


@dataclass(frozen=True)
class Task:
    """A task as its directory says it; `loading.load` makes one."""

    path: Path
    name: str
    instruction: str
    checklist: Checklist
    suite: str = ""
    kind: str = "agentrewind"
    """`agentrewind`, or `harbor`: a directory of another benchmark, whose criteria are its tests."""
    title: str = ""
    family: str = ""
    trap: str = ""
    workdir: str = WORKDIR
    network: bool = False
    requires: tuple[str, ...] = ()
    """Programs that it needs besides python3."""
    check_timeout_s: float = 60.0
    """How long one check may take."""
    screens: Screens = field(default_factory=Screens)
    cannot_run: str = ""
    """Why it can't be run here whatever is installed; empty where it can."""

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.name}" if self.suite else self.name

    @property
    def skipped(self) -> str:
        """Why it can't be run on this machine, in words for a person; empty where it can. Skipped is never failed."""
        missing = [tool for tool in ("python3", *self.requires) if shutil.which(tool) is None]
        if missing:
            return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        return self.cannot_run

    @property
    def setup(self) -> Path:
        return self.path / "environment/setup.py"

    @property
    def solution(self) -> Path:
        return self.path / "solution/solve.sh"

    @property
    def violation(self) -> Path:
        return self.path / "solution/violate.sh"

    @property
    def tests(self) -> Path:
        return self.path / "tests"

    @property
    def policy(self) -> Path | None:
        """How a simulated model goes about it; None where the task doesn't say."""
        path = self.path / "solution/policy.toml"
        return path if path.is_file() else None

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The reference, cut at its `# step NAME` lines; each is a command of its own, no variable goes across.

        Raises:
            BadTask: there is no reference, two steps have one name, or something stands before the first.
        """
        return steps(text_of(self.solution), self.solution)

    @cached_property
    def fails_at(self) -> Criterion:
        """What must be the first criterion to fail after the violation.

        Raises:
            BadTask: the violation is missing, or names no criterion.
        """
        found = _FAILS_AT.search(text_of(self.violation))
        if found is None:
            raise BadTask(f"{self.violation} has no line `# fails at: ID` that names the criterion that must fail.")
        try:
            return self.checklist[found[1]]
        except KeyError:
            raise BadTask(f"{self.violation} is to fail at {found[1]}, which is no criterion of {self.name}.") from None


def steps(script: str, path: Path) -> tuple[Step, ...]:
    """Cut a script at its `# step NAME` lines. Raises: BadTask: see `Task.steps`."""
    head, *parts = _STEP.split(script)
    early = [line for line in head.splitlines() if line.strip() and not line.startswith(("#", "set "))]
    if early:
        raise BadTask(f"{path}: `{early[0]}` stands before the first `# step NAME` line, so it belongs to no step.")
    found = tuple(Step(name, text.strip("\n") + "\n") for name, text in zip(parts[::2], parts[1::2], strict=True))
    names = [step.name for step in found]
    if not found or len(set(names)) < len(names):
        raise BadTask(f"{path} has no `# step NAME` line, or two of the same name.")
    return found


def text_of(file: Path) -> str:
    """The text of a file of a task. Raises: BadTask: it isn't there, or is no text."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadTask(f"{file.parent} is no task, or not a whole one: there is no {file.name}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadTask(f"{file} can't be read: {error}.") from error
