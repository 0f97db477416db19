"""The tasks that come with the package: in short form here, with every gate and screen in `make tasks`."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sqlite3
import stat
import sys
import tomllib
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import agentrewind
from agentrewind.bench.sim.policy import policy_of
from agentrewind.bench.sim.proof import IRREVERSIBLE, proven
from agentrewind.compose.judging import rooms
from agentrewind.tasks.building import build
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.fingerprint import walk
from agentrewind.tasks.gates import GATES
from agentrewind.tasks.inspection import Grounds, grounds, inspected
from agentrewind.tasks.review import review_of
from agentrewind.tasks.screens import SCREENS
from agentrewind.tasks.shipped import suite, suites
from agentrewind.tasks.task import Task

TASKS = suite("all")
QUICK = [
    "structure",
    "imports",
    "feedback",
    "scripts",
    "policy",
    "frozen",
    "shipped",
    "reference",
    "violation",
    "irreversible",
    "S2",
    "S4",
]
WRITTEN = ["structure", "imports", "feedback", "scripts", "policy"]
by_name = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)


HARBOR = Path(os.environ.get("AGENTREWIND_HARBOR", Path.home() / ".cache/agentrewind/lanes/harbor-0.26.0"))
DOCS = Path(__file__).parents[2] / "docs/suite.md"


def problems(task: Task, gates: list[str]) -> list[str]:
    if task.skipped:
        pytest.skip(task.skipped)
    with grounds(task, rooms()) as at:
        found = inspected(at, {**GATES, **SCREENS}, gates)
        return [f"{finding.gate}: {problem}" for finding in found for problem in finding.problems]


@by_name
def test_a_task_passes_the_quick_gates(task):
    """Those of the later tasks are the ones that play nothing: `make tasks` runs all of all."""
    assert problems(task, QUICK if task.suite == "core" else WRITTEN) == []


@pytest.mark.slow
@by_name
@pytest.mark.timeout(900)
def test_a_task_passes_every_gate_and_screen(task):
    assert problems(task, []) == []


@pytest.mark.slow
@by_name
@pytest.mark.timeout(900)
def test_the_errors_of_a_policy_do_what_it_says(task):
    if task.skipped:
        pytest.skip(task.skipped)
    assert proven(task, rooms()) == []


@pytest.mark.parametrize("name", suites())
def test_the_documentation_lists_the_suite_as_it_is(name):
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (\d+) \|", section(name), re.MULTILINE)
    assert sorted(rows) == [(task.name, str(len(task.checklist))) for task in suite(name)]


def section(name: str) -> str:
    return DOCS.read_text(encoding="utf-8").partition(f"## `{name}`\n")[2].partition("\n## ")[0]


def test_the_documentation_counts_the_criteria_as_they_are():
    kinds = [Counter(item.category for task in suite(name) for item in task.checklist) for name in (*suites(), "all")]
    sizes = [len(suite(name)) for name in (*suites(), "all")]
    rows = [[kind, *(str(each[kind]) for each in kinds)] for kind, _ in kinds[-1].most_common()]
    rows += [["all", *(str(each.total()) for each in kinds)]]
    rows += [["a task", *(f"{each.total() / size:.2f}" for each, size in zip(kinds, sizes, strict=True))]]
    said = DOCS.read_text(encoding="utf-8").partition("## In numbers\n")[2].partition("\n## ")[0]
    assert [line.strip("| ").split(" | ") for line in said.splitlines() if line.startswith("|")][2:] == rows
    families = sorted({task.family for task in TASKS})
    assert f"{len(families)} families: {', '.join(families)}." in " ".join(said.split())


def test_the_documentation_tells_what_readers_said():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|((?: \d \|){5})$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    reviews = [(task.name, review_of(task.path)) for task in TASKS]
    wanted = {name: [answer.score for answer in review.answers.values()] for name, review in reviews if review}
    assert {name: [int(score) for score in scores.split("|")[:-1]] for name, scores in rows} == wanted
    assert len(rows) == len(wanted)


def test_no_two_tasks_have_one_name():
    assert [name for name, count in Counter(task.name for task in TASKS).items() if count > 1] == []


@by_name
def test_the_settings_are_those_of_harbor(task, monkeypatch):
    """By the models of the format itself, where `make test-atif` has fetched them."""
    models = HARBOR / "harbor/models"
    if not (HARBOR / "toml").is_dir():  # the last that is fetched
        pytest.skip("the models of harbor aren't there; `make test-atif` fetches them")
    for name, place in (("harbor", HARBOR / "harbor"), ("harbor.models", models)):
        package = types.ModuleType(name)
        package.__path__ = [str(place)]
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.syspath_prepend(str(HARBOR))
    config = importlib.import_module("harbor.models.task.config")
    read = config.TaskConfig.model_validate(tomllib.loads((task.path / "task.toml").read_text()))
    assert (read.schema_version, read.environment.network_mode.value) == ("1.4", "no-network")
    assert read.environment.workdir == task.workdir


@pytest.mark.slow
@by_name
@pytest.mark.timeout(900)
def test_going_back_to_just_before_the_trap_and_on_from_there_succeeds(task, tmp_path, monkeypatch):
    """With a snapshot of ours, for each error that can't be undone: the loss is final without it."""
    if task.skipped:
        pytest.skip(task.skipped)
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    policy = policy_of(task)
    traps = [
        (number, error.id)
        for number, step in enumerate(policy.steps)
        for error in step.errors
        if error.kind in IRREVERSIBLE
    ]
    for number, error in traps:
        app = tmp_path / error / "app"
        build(task, app)
        evaluator = Evaluator(task, rooms())
        with rooms()(app, at=task.workdir) as room, agentrewind.Workspace(app) as workspace:
            for before in range(number):
                room.run(policy.text(before, ""), 300)
            snapshot = workspace.snapshot("before the trap")
            room.run(policy.text(number, error), 300)
            for after in range(number, len(policy.steps)):
                room.run(policy.text(after, ""), 300)
            assert not evaluator.evaluate(app).succeeded
            workspace.restore(snapshot.id)
            for again in range(number, len(policy.steps)):
                room.run(policy.text(again, ""), 300)
            assert evaluator.evaluate(app).succeeded


# --- damages ----------------------------------------------------------------------------------------------------------


def damaged(at: Grounds) -> Iterator[Path]:
    """The solved workspace with one damage each: a file longer, otherwise, or gone; a database with a row less."""
    for path in walk(at.solved):
        if not path.is_file() or ".git" in path.parts:
            continue
        for damage in (
            lengthened,
            with_another_digit,
            Path.unlink,
            *([with_a_row_less] if path.suffix == ".db" else []),
        ):
            spoilt = Path(shutil.copytree(at.solved, at.place / "spoilt", symlinks=True))
            damage(spoilt / path.relative_to(at.solved))
            yield spoilt
            shutil.rmtree(spoilt)


def lengthened(path: Path) -> None:
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    path.write_bytes(path.read_bytes() + b"\nmore\n")


def with_another_digit(path: Path) -> None:
    """The last of the first line that has any."""
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    data = re.sub(
        rb"(\d)(?=\D*(?:\n|\Z))", lambda found: b"%d" % ((int(found[1]) + 1) % 10), path.read_bytes(), count=1
    )
    path.write_bytes(data)


def with_a_row_less(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            database.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
        database.commit()


@pytest.mark.slow
@by_name
@pytest.mark.timeout(1800)
def test_for_every_criterion_there_is_a_damage_that_it_is_the_first_to_show(task):
    """A step left out, an error of the policy, the violation, or a damage to a file."""
    if task.skipped:
        pytest.skip(task.skipped)
    shown = {error.breaks for step in policy_of(task).steps for error in step.errors} | {task.fails_at.id}
    with grounds(task, rooms()) as at:

        def first(workspace: Path) -> str:
            verdict = at.verdicts(workspace).first_unsatisfied
            return "" if verdict is None else verdict.criterion.id

        shown |= {first(at.without([step.name])) for step in task.steps}
        wanted = {criterion.id for criterion in task.checklist}
        for workspace in damaged(at):
            if wanted <= shown:
                break
            shown.add(first(workspace))
    assert wanted - shown == set()
