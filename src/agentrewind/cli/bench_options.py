"""What the commands of `agentrewind bench` that make runs have in common: options, and how they tell of their way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console

from agentrewind.bench.one import SIMULATED
from agentrewind.bench.results import Result
from agentrewind.bench.runner import Tally
from agentrewind.bench.sim.profiles import DEFAULT
from agentrewind.cli.options import json_option, together
from agentrewind.cli.screen import err, glyphs, sentence
from agentrewind.compose.agents import OPENAI
from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.tasks.loading import load
from agentrewind.tasks.shipped import names as known_suites
from agentrewind.tasks.shipped import suite as shipped
from agentrewind.ui.text import plural


def listed(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    del ctx, param
    return tuple(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))


of_a_suite = together(
    click.option("--suite", default="core", show_default=True, help="A suite, `all` of them, or a directory of tasks."),
    click.option("--tasks", default="", callback=listed, help="Only these of the suite, with commas between."),
)
by_models = together(
    click.option("--harness", "harnesses", default="builtin", show_default=True, callback=listed),
    click.option("--models", default="", callback=listed, help="Models, as their endpoint calls them."),
    click.option("--base-url", envvar="OPENAI_BASE_URL", default=OPENAI, help="Where models are asked."),
    click.option(
        "--simulated",
        is_flag=False,
        flag_value=DEFAULT,
        default="",
        metavar="[PROFILE]",
        help="Instead of models: a profile of the simulated one (`agentrewind sim --profiles` lists them), also with"
        " knobs of its own: `plain:attribution=0.3`.",
    ),
)
how_often = together(
    click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="How often each."),
    click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many at a time."),
)
sandbox_option = click.option("--sandbox", default="auto", show_default=True, help="As of `agentrewind run`.")
into_a_directory = together(
    click.option("--out", "directory", type=click.Path(path_type=Path), required=True, help="Where the results go."),
    json_option,
)
"""What every command has that makes runs."""


def tasks_of(suite: str, names: Sequence[str]) -> dict[str, str]:
    """The tasks that can run here, by name. Says which can't."""
    if suite in known_suites():
        found = shipped(suite)
    else:
        paths = sorted(path.parent for path in Path(suite).glob("*/task.toml"))
        if not paths:
            raise UsageError(
                f"There is no suite {suite!r}, nor a directory of tasks. Known: {', '.join(known_suites())}."
            )
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


def models_of(models: Sequence[str], simulated: str) -> tuple[str, ...]:
    if simulated and models:
        raise UsageError("Give --models or --simulated, not both.")
    if not simulated and not models:
        raise UsageError("Name a model with --models, or play with --simulated plain, which needs none.")
    return (SIMULATED + simulated.replace(":", ","),) if simulated else tuple(models)


def told(tally: Tally, result: Result | None, why: str) -> None:
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


def warn_of_simulation(simulated: Iterable[object], console: Console) -> None:
    """What a table with any simulated run in it doesn't say."""
    if any(simulated):
        sentence("The policy is simulated: this says nothing about any real model (docs/benchmark.md).", console)


def _rate(tally: Tally) -> str:
    made = tally.total - tally.left
    left = timedelta(seconds=round(tally.left / tally.rate)) if tally.rate else None
    spent = f", {tally.usd:.2f} USD" if tally.usd else ""
    return f"{made} of {tally.total}, {tally.rate * 60:.1f} a minute{spent}" + (f", {left} left" if left else "")


def tally_facts(tally: Tally) -> Json:
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
