"""The policy file of a task: its reference cut into steps, each with a menu of errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from agentrewind.core.errors import UsageError
from agentrewind.tasks.task import Task

FILE = "solution/policy.toml"
Kind = Literal["order violation", "destructive slip", "repairable bug"]
_ID = re.compile(r"[a-z0-9-]+")
LONGEST = 6000
"""How many characters a command may have."""


@dataclass(frozen=True, slots=True)
class Slip:
    """What may be done in place of a step. `repair` puts it right afterwards; empty: the step itself, done again."""

    id: str
    kind: Kind
    probability: float
    run: str
    breaks: str
    """The first criterion that it leaves unsatisfied where all else is right."""
    lesson: str
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    id: str
    criterion: str
    """What it works for."""
    says: str
    run: str
    errors: tuple[Slip, ...] = ()

    def error(self, name: str) -> Slip | None:
        return next((error for error in self.errors if error.id == name), None)


@dataclass(frozen=True, slots=True)
class Policy:
    """A task as the simulated model knows it: what to do, and what each rejection says."""

    task: str
    steps: tuple[Step, ...]
    feedback: Mapping[str, str]
    """By criterion, in order: the text by which a rejection is recognised."""

    def text(self, number: int, form: str) -> str:
        """The command of a step: `form` is empty for what is right, else the id of an error or `repair:` and its id."""
        step = self.steps[number]
        kind, _, name = form.rpartition(":")
        error = step.error(name) if name else None
        body = step.run if error is None else (error.repair or step.run) if kind else error.run
        return f"# step {number + 1} of {len(self.steps)}, {step.id}: {step.says}\n{body.strip()}\n"

    def forms(self) -> Iterator[tuple[int, str]]:
        """Every command that there is, as step and form. A right one before another of the same text."""
        for number, step in enumerate(self.steps):
            yield number, ""
            for error in step.errors:
                yield number, error.id
                if error.repair:
                    yield number, f"repair:{error.id}"


def policy_of(task: Task) -> Policy:
    """The policy of a task, beside its reference.

    Raises:
        UsageError: there is none, or it isn't as the format says; the text names file and place.
    """
    scripts = {step.name: step.script for step in task.steps}
    return policy_from(task.path / FILE, task.name, {item.id: item.feedback for item in task.checklist}, scripts)


def policy_from(path: Path, name: str, feedback: Mapping[str, str], scripts: Mapping[str, str]) -> Policy:
    """The policy in the file `path`; `feedback` is that of each criterion, `scripts` are the steps of the reference,
    both in their order.

    Raises:
        UsageError: as `policy_of`.
    """
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"The task {name} has no simulated policy: {path} can't be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}.") from None
    try:
        policy = Policy(name, _steps(given, scripts), dict(feedback))
        _checked(policy)
    except _Wrong as error:
        raise UsageError(f"{path}: {error}.") from None
    return policy


class _Wrong(Exception):
    pass


def _steps(given: Mapping[str, Any], scripts: Mapping[str, str]) -> tuple[Step, ...]:
    steps = _list(given, "steps")
    if [item.get("id") for item in steps] != list(scripts):
        raise _Wrong(f"its steps are not those of the reference, in their order: {', '.join(scripts)}")
    return tuple(_step(item, scripts) for item in steps)


def _step(given: Mapping[str, Any], scripts: Mapping[str, str]) -> Step:
    name = _text(given, "id", "a step")
    where = f"step {name!r}"
    errors = tuple(_slip(item, where) for item in given.get("errors", []))
    return Step(name, _text(given, "criterion", where), _text(given, "says", where), scripts[name], errors)


def _slip(given: Mapping[str, Any], where: str) -> Slip:
    name = _text(given, "id", f"an error of {where}")
    where = f"{where}, error {name!r}"
    kind, probability = _text(given, "kind", where), given.get("probability")
    if kind not in get_args(Kind):
        raise _Wrong(f"{where} is of kind {kind!r}; there are {', '.join(get_args(Kind))}")
    if not isinstance(probability, int | float) or not 0 < probability <= 1:
        raise _Wrong(f"{where} needs a probability above 0 and at most 1")
    run, breaks, lesson = (_text(given, key, where) for key in ("run", "breaks", "lesson"))
    return Slip(name, cast("Kind", kind), float(probability), run, breaks, lesson, str(given.get("repair", "")))


def _list(given: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = given.get(key)
    if not isinstance(found, list) or not found:
        raise _Wrong(f"it has no [[{key}]]")
    return found


def _text(given: Mapping[str, Any], key: str, where: str) -> str:
    found = given.get(key)
    if not isinstance(found, str) or not found.strip():
        raise _Wrong(f"{where} has no {key}")
    if len(found) > LONGEST:
        raise _Wrong(f"{where}: {key} is longer than {LONGEST} characters")
    return found


def _checked(policy: Policy) -> None:
    """Raises: _Wrong."""
    names = [step.id for step in policy.steps]
    bad = next((name for name in names if names.count(name) > 1 or not _ID.fullmatch(name)), None)
    if bad is not None:
        raise _Wrong(f"the step id {bad!r} is not of small letters, digits and '-', or stands twice")
    commands = [policy.text(*form) for form in policy.forms()]
    if len(set(commands)) < len(commands):
        raise _Wrong("two commands are the same, so they could not be told apart")
    known = set(policy.feedback)
    for step in policy.steps:
        if sum(error.probability for error in step.errors) > 1:
            raise _Wrong(f"the errors of step {step.id!r} have probabilities of more than 1 together")
        unknown = {step.criterion, *(error.breaks for error in step.errors)} - known
        if unknown:
            raise _Wrong(f"step {step.id!r} names {', '.join(sorted(unknown))}, which is no criterion of the task")
    lessons = [error.lesson for step in policy.steps for error in step.errors]
    if len(set(lessons)) < len(lessons):
        raise _Wrong("two errors have the same lesson")
