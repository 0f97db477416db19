"""`agentrewind bench study`: a question about recovery, answered by one command with a picture."""

from __future__ import annotations

from pathlib import Path

import click

from agentrewind.bench.matrix import Place
from agentrewind.bench.one import Conditions
from agentrewind.bench.report.files import conditions_of
from agentrewind.bench.report.study import COLUMNS, cells_of, lines_of, write_study
from agentrewind.bench.results import results_in
from agentrewind.bench.runner import run_all
from agentrewind.bench.studies import STUDIES, study_named
from agentrewind.cli.bench_options import (
    by_models,
    how_often,
    into_a_directory,
    models_of,
    of_a_suite,
    sandbox_option,
    tally_facts,
    tasks_of,
    told,
    warn_of_simulation,
)
from agentrewind.cli.columns import show_columns
from agentrewind.cli.screen import out, sentence
from agentrewind.ui.text import as_json, plural

SHOWN = 5
"""How many columns of the table fit into a terminal; the page has all of them."""


def _listed(ctx: click.Context, _param: click.Parameter, value: object) -> None:
    """Say which studies there are, and end."""
    if value and not ctx.resilient_parsing:
        show_columns([(item.name, item.asks) for item in STUDIES.values()], out(), flexible=1)
        ctx.exit()


@click.command("study", epilog="Example: agentrewind bench study validators --simulated plain --runs 3 --out studies")
@click.argument("name")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_listed, help="The studies.")
@of_a_suite
@by_models
@how_often
@sandbox_option
@into_a_directory
def study(  # noqa: PLR0917
    name: str,
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
    """Answer one question: make the runs that it needs, and write a page with a picture, a table and numbers.

    `--list` names the questions. The same command again goes on where it was cut off. Studies with the same options may
    share a directory, and then share the runs that they have in common.
    """
    chosen = study_named(name)
    conditions = Conditions(
        tasks_of(suite, tasks),
        base_url="" if simulated else base_url,
        guard="simulated" if simulated else "rules",
        sandbox=sandbox,
    )
    place = Place(directory)
    matrix = chosen.matrix(suite, harnesses, models_of(models, simulated), runs, conditions)
    tally = run_all(matrix, place, jobs=jobs, told=told)
    wanted = set(matrix.specs())
    results = [result for result in results_in(directory) if result.spec in wanted]
    files = write_study(chosen, results, directory, conditions_of(place))
    lines = lines_of(chosen, results)
    if as_object:
        arms = [line.row.facts for line in lines]
        print(as_json({"tally": tally_facts(tally), "arms": arms, "files": [str(path) for path in files]}))
        return
    shown = [COLUMNS[:SHOWN], *(cells_of(chosen, line, lines)[:SHOWN] for line in lines)]
    show_columns(shown, out(), flexible=0, right=range(1, SHOWN), header=True)
    sentence(f"{plural(len(results), 'run')}, {tally.abnormal} abnormal and not counted. Written: {files[0]}.", out())
    warn_of_simulation((line.row.simulated for line in lines), out())
