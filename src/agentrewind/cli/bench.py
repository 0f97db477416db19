"""`agentrewind bench`: tasks under strategies, harnesses and models, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from agentrewind.bench.arms import ABLATIONS
from agentrewind.bench.comparing import METRICS, Comparison, compared, corrected
from agentrewind.bench.guarding import cases, measured
from agentrewind.bench.matrix import Matrix, Place
from agentrewind.bench.one import Conditions
from agentrewind.bench.recovering import Pair, paired_test, pairs_in, recovered
from agentrewind.bench.report.files import write_report
from agentrewind.bench.results import results_in
from agentrewind.bench.runner import Limits, Tally, run_all, touch
from agentrewind.bench.table import Cell, rows_of
from agentrewind.cli.bench_options import (
    by_models,
    how_often,
    into_a_directory,
    listed,
    models_of,
    of_a_suite,
    sandbox_option,
    tally_facts,
    tasks_of,
    told,
    warn_of_simulation,
)
from agentrewind.cli.bench_study import study
from agentrewind.cli.columns import show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import err, out, sentence
from agentrewind.compose.effects import classifier
from agentrewind.compose.guards import guard_named
from agentrewind.core.codec import to_plain
from agentrewind.core.effects import Confinement as Effects
from agentrewind.core.errors import UsageError
from agentrewind.ui.text import as_json, plural

FOUR = "continue,restart,review,rewind"


@click.group(epilog="Example: agentrewind bench run --suite core --simulated plain --runs 3 --jobs 2 --out results")
def command() -> None:
    """Run tasks under several strategies, and compare what came of them."""


command.add_command(study)


@command.command("run", epilog="Example: agentrewind bench run --suite core --simulated plain --runs 3 --out results")
@of_a_suite
@click.option(
    "--strategies",
    default=FOUR,
    show_default=True,
    callback=listed,
    help="Strategies with commas between, each with what differs from its usual settings: `rewind+memory=none`. There"
    " are keep, memory, selector, trigger, candidates and guard. `ablations` stands for the four of the paper.",
)
@by_models
@click.option("--guard", default="", metavar="WHO", help="Of review: `rules`, MODEL@URL, or `simulated`.")
@how_often
@click.option("--ray", metavar="ADDRESS", help="Run on a Ray cluster; `local` begins one here.")
@click.option("--paper", is_flag=True, help="As in the paper: fresh processes, and no limit of rewinds, time or steps.")
@click.option("--max-steps", type=click.IntRange(1), help="How many model calls a process of an agent may make.")
@click.option("--max-usd", type=click.FloatRange(0), help="Begin no more runs once so much is spent.")
@click.option("--max-tokens", type=click.IntRange(1), help="Begin no more runs once so many tokens are used.")
@sandbox_option
@click.option("--keep-files", is_flag=True, help="Keep the workspaces and snapshots of runs that are over.")
@click.option("--regret", is_flag=True, help="Find out by the reference what each rewind threw away (takes minutes).")
@into_a_directory
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
    regret: bool,
    directory: Path,
    as_object: bool,
) -> None:
    """Make every run that isn't made yet, and show the results.

    The same command again goes on where it was cut off: what is done stays, what was under way is made anew. More runs,
    strategies, harnesses, models or tasks may be asked for. The key of the models is read from OPENAI_API_KEY.
    """
    conditions = Conditions(
        tasks_of(suite, tasks),
        base_url="" if simulated else base_url,
        guard=guard or ("simulated" if simulated else "rules"),
        sandbox=sandbox,
        paper=paper,
        max_steps=max_steps,
        keep_files=keep_files,
        regret=regret,
    )
    matrix = Matrix(suite, _arms(strategies), harnesses, models_of(models, simulated), runs, conditions)
    place = Place(directory)
    tally = run_all(matrix, place, jobs=jobs, ray=ray, limits=Limits(max_usd, max_tokens), told=told)
    _show(place, tally, as_object=as_object)


def _arms(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arm for name in names for arm in (ABLATIONS if name == "ablations" else (name,))))


def _show(place: Place, tally: Tally, *, as_object: bool) -> None:
    rows = rows_of(results_in(place.root)) if tally.done + tally.skipped else []
    if as_object:
        print(as_json({"tally": tally_facts(tally), "cells": [row.facts for row in rows]}))
        return
    console = out()
    if rows:
        table = [rows[0].header, *(row.cells for row in rows)]
        show_columns(table, console, flexible=0, right=range(3, len(table[0])), header=True)
    told = f"{plural(tally.done, 'run')} made, {tally.skipped} done before, {tally.abnormal} abnormal and not counted."
    sentence(f"{told} {tally.stopped}".strip(), console)
    warn_of_simulation((row.simulated for row in rows), console)


@command.command("recover", epilog="Example: agentrewind bench recover --simulated plain --runs 5 --out recovered")
@of_a_suite
@by_models
@how_often
@sandbox_option
@into_a_directory
def recover(  # noqa: PLR0917
    suite: str,
    tasks: tuple[str, ...],
    harnesses: tuple[str, ...],
    models: tuple[str, ...],
    base_url: str,
    simulated: str,
    runs: int,
    jobs: int,
    sandbox: str,
    directory: Path,
    as_object: bool,
) -> None:
    """Give runs of `continue` that their failures ended another chance: once with rewind, once without.

    Both go on from copies of the same conversation and the same files, in the same place, with the same words and with
    counters that begin anew. The same command again goes on where it was cut off.
    """
    conditions = Conditions(
        tasks_of(suite, tasks), base_url="" if simulated else base_url, sandbox=sandbox, recovery=True
    )
    matrix = Matrix(suite, ("continue",), harnesses, models_of(models, simulated), runs, conditions)
    tally = run_all(matrix, Place(directory), jobs=jobs, told=told)
    pairs = pairs_in(directory)
    if as_object:
        arms = [to_plain(item) | {"rate": item.rate} for item in recovered(pairs)] if pairs else []
        print(as_json({"tally": tally_facts(tally), "arms": arms, "tested": paired_test(pairs) if pairs else None}))
        return
    _show_recovered(pairs, tally)


def _show_recovered(pairs: Sequence[Pair], tally: Tally) -> None:
    console = out()
    arms = recovered(pairs)
    rows = [("arm", "failed endpoints", "recovered", "rate", "progress", "nodes more")]
    rows += [
        (item.arm, str(item.pairs), str(item.recovered), f"{100 * item.rate:.1f}", f"{100 * item.change:+.1f}",
         f"{item.nodes:.1f}")
        for item in arms
    ]  # fmt: skip
    show_columns(rows, console, flexible=0, right=range(1, len(rows[0])), header=True)
    found = paired_test(pairs)
    sentence(
        f"{tally.done + tally.skipped} runs of continue, {len(pairs)} of them ended by equal failures. Recovered by"
        f" rewind alone: {found['won']}, without it alone: {found['lost']}.",
        console,
    )
    warn_of_simulation((pair.endpoint.simulated for pair in pairs), console)


@command.command("report", epilog="Example: agentrewind bench report results")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--against", default="rewind", show_default=True, metavar="ARM", help="Which is tested against the others."
)
@json_option
def report(directory: Path, against: str, as_object: bool) -> None:
    """Write one page about the benchmark in DIRECTORY, and its numbers as CSV and JSON, into that directory.

    The page needs no network and no scripts. Its tests need SciPy (the extra `bench`); without it they are left out.
    """
    files, notes = write_report(Place(directory), against)
    if as_object:
        print(as_json({"files": [str(path) for path in files], "notes": notes}))
        return
    for note in notes:
        sentence(note, err())
    sentence(f"Written: {', '.join(str(path) for path in files)}.", out())


@command.command("compare", epilog="Example: agentrewind bench compare rewind continue --in results")
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.option(
    "--in", "directories", type=click.Path(path_type=Path), multiple=True, required=True, help="Where they are."
)
@json_option
def compare(left: str, right: str, directories: tuple[Path, ...], as_object: bool) -> None:
    """Test strategy A against strategy B, on the tasks and runs that both have; Holm over all tests that are made.

    The strategies are named as in `bench run`. Several directories are taken together.
    """
    results = [result for directory in directories for result in results_in(directory)]
    cells = {Cell.of(result) for result in results if result.counts}
    pairs = [(cell, replace(cell, arm=right)) for cell in sorted(cells, key=str) if cell.arm == left]
    found = corrected(
        [compared(results, one, other, metric) for metric in METRICS for one, other in pairs if other in cells]
    )
    if not found:
        known = ", ".join(sorted({cell.arm for cell in cells}))
        raise UsageError(f"{left} and {right} have no runs that could be compared. There are: {known}.")
    if as_object:
        print(as_json([{**to_plain(item), "w": item.ranks.w, "r": item.ranks.r} for item in found]))
        return
    show_columns([COMPARED, *map(_test, found)], out(), flexible=0, right=range(2, len(COMPARED)), header=True)
    sentence(
        "Wilcoxon signed-rank on task means, two-sided; r: matched-pairs rank-biserial; exact: all signs counted;"
        " won / lost and McNemar: pairs of runs.",
        out(),
    )


COMPARED = ("model", "metric", "tasks", "difference", "95 %", "pairs", "W", "r", "p", "exact", "Holm", "won / lost",
            "McNemar")  # fmt: skip


def _test(item: Comparison) -> tuple[str, ...]:
    low, high = (f"{100 * edge:+.1f}" for edge in (item.difference.low, item.difference.high))
    return (
        f"{item.left.harness} {item.left.model}",
        item.metric,
        str(item.tasks),
        f"{100 * item.difference.value:+.1f}",
        f"{low} to {high}",
        str(item.ranks.pairs),
        f"{item.ranks.w:g}",
        f"{item.ranks.r:+.2f}",
        f"{item.p:.3g}",
        "" if item.p_exact is None else f"{item.p_exact:.3g}",
        "" if item.holm is None else f"{item.holm:.3g}",
        f"{item.won} / {item.lost}",
        f"{item.p_mcnemar:.3g}",
    )


@command.command(
    "touched", epilog='Example: agentrewind bench touched results/runs/a/rewind/builtin/m/0 "ended a shell"'
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("what")
def touched(directory: Path, what: str) -> None:
    """Say that a person did WHAT to the run in DIRECTORY while it went on.

    It isn't counted any more, stands in the list of what is abnormal, and is made again by the next `bench run`.
    """
    place = touch(directory, what)
    sentence(
        f"{directory} is not counted any more; {place.abnormal} says why. The next `bench run` makes it again.", out()
    )


@command.command("guard", epilog="Example: agentrewind bench guard --guard rules")
@click.option("--guard", default="rules", show_default=True, metavar="WHO", help="`rules`, or MODEL@URL.")
@json_option
def guard(guard: str, as_object: bool) -> None:
    """Measure a guard of tool calls on the small test set that comes with the package: precision and recall."""
    judge = guard_named(guard, os.environ)
    with TemporaryDirectory(prefix="agentrewind-guard-") as place:  # what lies here plays no part
        reads = classifier(Path(place), Effects(network=False, outside=False))
        found = measured(judge, cases(), reads.command)
    if as_object:
        print(as_json({**to_plain(found), "guard": judge.name, "precision": found.precision, "recall": found.recall}))
        return
    precision = "none was held back" if found.precision is None else f"{found.precision:.2f}"
    total = found.caught + found.missed + found.alarms + found.passed
    sentence(
        f"{judge.name}: precision {precision}, recall {found.recall:.2f} on {total} calls ({found.caught} caught,"
        f" {found.missed} missed, {found.alarms} false alarms, {found.failed} without a verdict). Wrong on:",
        out(),
    )
    for line in found.wrong:
        sentence(f"  {line.splitlines()[0]}", out())
