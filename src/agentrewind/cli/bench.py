"""`agentrewind bench`: tasks under strategies, harnesses and models, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import click

from agentrewind.bench.arms import ABLATIONS
from agentrewind.bench.matrix import Matrix, Place
from agentrewind.bench.one import SIMULATED, Conditions
from agentrewind.bench.results import Result, results_in
from agentrewind.bench.runner import Limits, Tally, run_all
from agentrewind.bench.table import rows_of
from agentrewind.cli.columns import show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import err, glyphs, out, sentence
from agentrewind.cli.text import as_json, plural
from agentrewind.compose.agents import OPENAI
from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.tasks.loading import load
from agentrewind.tasks.shipped import suite as shipped
from agentrewind.tasks.shipped import suites

FOUR = "continue,restart,review,rewind"


def _listed(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    del ctx, param
    return tuple(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))


@click.group(epilog="Example: agentrewind bench run --suite core --simulated plain --runs 3 --jobs 2 --out results")
def command() -> None:
    """Run tasks under several strategies, and compare what came of them."""


@command.command("run", epilog="Example: agentrewind bench run --suite core --simulated plain --runs 3 --out results")
@click.option("--suite", default="core", show_default=True, help="A suite, or a directory of tasks.")
@click.option("--tasks", default="", callback=_listed, help="Only these of the suite, with commas between.")
@click.option(
    "--strategies",
    default=FOUR,
    show_default=True,
    callback=_listed,
    help="Strategies with commas between, each with what differs from its usual settings: `rewind+memory=none`. There"
    " are keep, memory, selector, trigger, candidates and guard. `ablations` stands for the four of the paper.",
)
@click.option("--harness", "harnesses", default="builtin", show_default=True, callback=_listed)
@click.option("--models", default="", callback=_listed, help="Models, as their endpoint calls them.")
@click.option("--base-url", envvar="OPENAI_BASE_URL", default=OPENAI, help="Where models are asked.")
@click.option(
    "--simulated",
    default="",
    metavar="PROFILE",
    help="Instead of models: a profile of the simulated one (`agentrewind sim --profiles` lists them), also with knobs"
    " of its own: `plain:attribution=0.3`.",
)
@click.option("--guard", default="", metavar="WHO", help="Of review: `rules`, MODEL@URL, or `simulated`.")
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="How often each.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many at a time.")
@click.option("--ray", metavar="ADDRESS", help="Run on a Ray cluster; `local` begins one here.")
@click.option("--paper", is_flag=True, help="As in the paper: fresh processes, and no limit of rewinds, time or steps.")
@click.option("--max-steps", type=click.IntRange(1), help="How many model calls a process of an agent may make.")
@click.option("--max-usd", type=click.FloatRange(0), help="Begin no more runs once so much is spent.")
@click.option("--max-tokens", type=click.IntRange(1), help="Begin no more runs once so many tokens are used.")
@click.option("--sandbox", default="auto", show_default=True, help="As of `agentrewind run`.")
@click.option("--keep-files", is_flag=True, help="Keep the workspaces and snapshots of runs that are over.")
@click.option("--out", "directory", type=click.Path(path_type=Path), required=True, help="Where the results go.")
@json_option
def run(  # noqa: PLR0917
    suite: str,
    tasks: tuple[str, ...],
    strategies: tuple[str, ...],
    harnesses: tuple[str, ...],
    models: tuple[str, ...],
    base_url: str,
    simulated: str,
    guard: str,
    runs: int,
    jobs: int,
    ray: str | None,
    paper: bool,
    max_steps: int | None,
    max_usd: float | None,
    max_tokens: int | None,
    sandbox: str,
    keep_files: bool,
    directory: Path,
    as_object: bool,
) -> None:
    """Make every run that isn't made yet, and show the results.

    The same command again goes on where it was cut off: what is done stays, what was under way is made anew. More runs,
    strategies, harnesses, models or tasks may be asked for. The key of the models is read from OPENAI_API_KEY.
    """
    conditions = Conditions(
        _tasks(suite, tasks),
        base_url="" if simulated else base_url,
        guard=guard or ("simulated" if simulated else "rules"),
        sandbox=sandbox,
        paper=paper,
        max_steps=max_steps,
        keep_files=keep_files,
    )
    matrix = Matrix(suite, _arms(strategies), harnesses, _models(models, simulated), runs, conditions)
    place = Place(directory)
    tally = run_all(matrix, place, jobs=jobs, ray=ray, limits=Limits(max_usd, max_tokens), told=_told)
    _show(place, tally, as_object=as_object)


def _tasks(suite: str, names: Sequence[str]) -> dict[str, str]:
    """The tasks that can run here, by name. Says which can't."""
    if suite in suites():
        found = shipped(suite)
    else:
        paths = sorted(path.parent for path in Path(suite).glob("*/task.toml"))
        if not paths:
            raise UsageError(f"There is no suite {suite!r}, nor a directory of tasks. Known: {', '.join(suites())}.")
        found = tuple(load(path) for path in paths)
    unknown = set(names) - {task.name for task in found}
    if unknown:
        known = ", ".join(task.name for task in found)
        raise UsageError(f"{suite} has no task {', '.join(sorted(unknown))}. It has {known}.")
    chosen = [task for task in found if not names or task.name in names]
    for task in chosen:
        if task.skipped:
            sentence(f"{task.name} is skipped: {task.skipped}", err())
    return {task.name: str(task.path) for task in chosen if not task.skipped}


def _arms(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arm for name in names for arm in (ABLATIONS if name == "ablations" else (name,))))


def _models(models: Sequence[str], simulated: str) -> tuple[str, ...]:
    if simulated and models:
        raise UsageError("Give --models or --simulated, not both.")
    if not simulated and not models:
        raise UsageError("Name a model with --models, or play with --simulated plain, which needs none.")
    return (SIMULATED + simulated.replace(":", ","),) if simulated else tuple(models)


def _told(tally: Tally, result: Result | None, why: str) -> None:
    console = err()
    glyph = glyphs(console)
    if result is None:
        sentence(f"{glyph.no} no result: {why}", console)
    else:
        spec = result.spec
        mark = glyph.no if result.abnormal else glyph.yes if result.success else glyph.dot
        came = f"abnormal: {why}" if result.abnormal else f"{result.satisfied}/{result.total}"
        name = f"{spec.task} {spec.arm} {spec.harness} {spec.model} {spec.seed}"
        sentence(f"{mark} {name}: {came}, {plural(result.nodes, 'node')}", console)
    sentence(f"  {_rate(tally)}", console)


def _rate(tally: Tally) -> str:
    made = tally.total - tally.left
    left = timedelta(seconds=round(tally.left / tally.rate)) if tally.rate else None
    spent = f", {tally.usd:.2f} USD" if tally.usd else ""
    return f"{made} of {tally.total}, {tally.rate * 60:.1f} a minute{spent}" + (f", {left} left" if left else "")


def _show(place: Place, tally: Tally, *, as_object: bool) -> None:
    rows = rows_of(results_in(place.root)) if tally.done + tally.skipped else []
    if as_object:
        print(as_json({"tally": _facts(tally), "cells": [row.facts for row in rows]}))
        return
    console = out()
    if rows:
        table = [rows[0].header, *(row.cells for row in rows)]
        show_columns(table, console, flexible=0, right=range(3, len(table[0])), header=True)
    told = f"{plural(tally.done, 'run')} made, {tally.skipped} done before, {tally.abnormal} abnormal and not counted."
    sentence(f"{told} {tally.stopped}".strip(), console)
    if any(row.simulated for row in rows):
        sentence("The policy is simulated: this says nothing about any real model (docs/benchmark.md).", console)


def _facts(tally: Tally) -> Json:
    return {
        "total": tally.total,
        "made": tally.done,
        "done_before": tally.skipped,
        "abnormal": tally.abnormal,
        "left": tally.left,
        "usd": tally.usd,
        "tokens": tally.tokens,
        "stopped": tally.stopped,
    }
