"""`agentrewind tasks`: the tasks of the benchmark, and writing ones of one's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from agentrewind.cli.columns import Cell, show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import glyphs, out, sentence
from agentrewind.compose.judging import rooms
from agentrewind.core.errors import UsageError
from agentrewind.tasks import exporting
from agentrewind.tasks.building import build as build_task
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.gates import GATES
from agentrewind.tasks.inspection import Finding, grounds, inspected
from agentrewind.tasks.review import review_of
from agentrewind.tasks.screens import SCREENS
from agentrewind.tasks.shipped import EVERY, find, suite
from agentrewind.tasks.task import Task
from agentrewind.ui.text import as_json, one_line, plural, printable, printable_block

_ALL = {**GATES, **SCREENS}
_ONE = click.argument("ref", metavar="TASK")
_INTO = click.argument("target", metavar="DIR", type=click.Path(path_type=Path))


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog="Example: agentrewind tasks list")
def command() -> None:
    """List, check and write the tasks of the benchmark.

    TASK is a name that `list` shows, or the directory of a task: one of ours, or one of Harbor or Terminal-Bench 2.
    """


@command.command("list", epilog="Example: agentrewind tasks list --suite core")
@click.option("--suite", "only", default="", help="Only the tasks of this suite; `all`: of every one.")
@json_option
def list_(only: str, as_object: bool) -> None:
    """List the tasks that come with agentrewind."""
    tasks = suite(only or EVERY)
    if as_object:
        print(as_json([_facts(task) for task in tasks]))
        return
    rows: list[tuple[Cell, ...]] = [
        (task.id, str(len(task.checklist)), task.family, f"skipped: {task.skipped}" if task.skipped else task.title)
        for task in tasks
    ]
    show_columns([("task", "criteria", "family", ""), *rows], out(), flexible=3, right=(1,), header=True)


def _facts(task: Task) -> dict[str, object]:
    return {
        "task": task.id,
        "title": task.title,
        "family": task.family,
        "trap": task.trap,
        "kind": task.kind,
        "requires": task.requires,
        "skipped": task.skipped or None,
        "criteria": [{"id": item.id, "category": item.category, "intent": item.intent} for item in task.checklist],
    }


@command.command(epilog="Example: agentrewind tasks show core/fixture-catalog --criteria")
@_ONE
@click.option(
    "--criteria", is_flag=True, help="Also what no agent is told: what is judged, the trap, and a reader's review."
)
@json_option
def show(ref: str, criteria: bool, as_object: bool) -> None:
    """Show what an agent is told of a task."""
    task = find(ref)
    if as_object:
        print(as_json({**_facts(task), "instruction": task.instruction}))
        return
    console = out()
    console.print(Text(printable_block(task.instruction.rstrip())))
    if task.skipped:
        sentence(f"\nIt can't be run here: {task.skipped}.", console)
    if criteria:
        console.print(Text(f"\ntrap: {task.trap}\n"))
        rows = [(item.id, item.category, item.intent) for item in task.checklist]
        show_columns(rows, console, flexible=2)
        _show_review(task, console)


def _show_review(task: Task, console: Console) -> None:
    if (review := review_of(task.path)) is not None:
        console.print(f"\nreview by {review.reader}, {review.date}, scores from 1 to 5:")
        answers = [(question, str(answer.score), answer.says) for question, answer in review.answers.items()]
        show_columns(answers, console, flexible=2)


@command.command(epilog="Example: agentrewind tasks build core/fixture-catalog work")
@_ONE
@_INTO
def build(ref: str, target: Path) -> None:
    """Build the first state of a task.

    DIR is empty or doesn't exist.
    """
    task = find(ref)
    build_task(task, target)
    sentence(f"{task.id} is in {target}. `agentrewind tasks show {ref}` says what is to be done there.", out())


@command.command(epilog="Example: agentrewind tasks judge core/fixture-catalog work")
@_ONE
@click.argument("workspace", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@json_option
def judge(ref: str, workspace: Path, as_object: bool) -> int:
    """Judge a workspace, which stays as it is.

    Shows every criterion, and the feedback that an agent would get; exit code 0 where the work succeeded.
    """
    task = find(ref)
    verdicts = Evaluator(task, rooms()).evaluate(workspace)
    if as_object:
        items = [{"id": item.criterion.id, "outcome": item.outcome, "detail": item.detail} for item in verdicts.items]
        said = {"succeeded": verdicts.succeeded, "progress": verdicts.progress, "feedback": verdicts.feedback}
        print(as_json({**said, "criteria": items}))
        return int(not verdicts.succeeded)
    console = out()
    marks = {"satisfied": (glyphs(console).yes, "green"), "failed": (glyphs(console).no, "red"), "error": ("!", "red")}
    rows = [
        (
            Text(marks[item.outcome][0], style=marks[item.outcome][1]),
            item.criterion.id,
            one_line(item.detail) or item.criterion.intent,
        )
        for item in verdicts.items
    ]
    show_columns(rows, console, flexible=2)
    console.print(f"progress: {verdicts.satisfied}/{len(verdicts.items)}")
    if verdicts.feedback:
        sentence(Text(f"feedback: {verdicts.feedback}"), console)
    return int(not verdicts.succeeded)


@command.command(epilog="Example: agentrewind tasks new my-task")
@_INTO
def new(target: Path) -> None:
    """Begin a task of your own.

    It is a small one that passes every gate, to be changed piece by piece.
    """
    exporting.new(target)
    sentence(f"A task is in {target}. `agentrewind tasks check {target}` says what doesn't hold after a change.", out())


@command.command(epilog="Example: agentrewind tasks export core/fixture-catalog harbor/fixture-catalog")
@_ONE
@_INTO
def export(ref: str, target: Path) -> None:
    """Write a task out for Harbor.

    What is in DIR then needs nothing of agentrewind.
    """
    task = find(ref)
    exporting.export(task, target)
    sentence(f"{task.id} is in {target}, for Harbor and runners like it.", out())


@command.command(epilog="Example: agentrewind tasks check --all")
@click.argument("refs", metavar="[TASK]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All tasks that come with agentrewind.")
@click.option("--only", multiple=True, type=click.Choice(list(_ALL)), help="Only this gate or screen; may be repeated.")
@click.option(
    "--jobs", type=click.IntRange(1), default=min(os.cpu_count() or 1, 8), show_default=True, help="Tasks at a time."
)
@json_option
def check(refs: tuple[str, ...], everything: bool, only: tuple[str, ...], jobs: int, as_object: bool) -> int:
    """Run the gates and screens of tasks.

    They have to be passed for a task to be admitted; exit code 0 where all are. Each one builds the task anew and shows
    one property by running it: the reference reaches everything, the violation fails where it says, what the trap
    destroys is nowhere afterwards, and so on.
    """
    if bool(refs) == everything:
        raise UsageError("Name the tasks to check, or say --all.")
    tasks = suite(EVERY) if everything else tuple(map(find, refs))
    for task in tasks:
        if task.kind != "agentrewind":
            raise UsageError(
                f"{task.id} is a task of another benchmark, and the gates are about ours: nothing was run."
            )
    found: list[tuple[Task, list[Finding]]] = []
    with ThreadPoolExecutor(jobs) as pool:
        for task, findings in zip(tasks, pool.map(lambda task: _admitted(task, only), tasks), strict=True):
            found.append((task, findings))
            if not as_object:
                _show(task, findings)
    if as_object:
        print(as_json([_findings_facts(task, findings) for task, findings in found]))
    return int(any(finding.problems for _, findings in found for finding in findings))


def _findings_facts(task: Task, findings: Sequence[Finding]) -> dict[str, object]:
    return {"task": task.id, "skipped": task.skipped or None, "findings": [asdict(item) for item in findings]}


def _admitted(task: Task, only: Sequence[str]) -> list[Finding]:
    if task.skipped:
        return []
    with grounds(task, rooms()) as at:
        return list(inspected(at, _ALL, only))


def _show(task: Task, findings: Sequence[Finding]) -> None:
    console = out()
    if not findings:
        sentence(f"{task.id}: skipped, {task.skipped}", console)
        return
    bad = [finding for finding in findings if finding.problems]
    mark, style = (glyphs(console).no, "red") if bad else (glyphs(console).yes, "green")
    passed = f"{len(findings) - len(bad)} of {plural(len(findings), 'gate')}"
    console.print(Text(f"{mark} ", style=style) + Text(f"{task.id}: {passed} passed"))
    for finding in bad:
        for problem in finding.problems:
            sentence(Text(f"  {finding.gate}: {printable(problem)}"), console)
