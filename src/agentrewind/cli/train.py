"""`agentrewind train`: train a model on trials that go back."""

from __future__ import annotations

from pathlib import Path

import click

from agentrewind.cli.options import json_option
from agentrewind.cli.screen import err, out, sentence
from agentrewind.cli.trained import comparison, line_of, show_comparison
from agentrewind.core.codec import Json, to_plain
from agentrewind.learn.training.recipe import read_recipe
from agentrewind.learn.training.trainer import Trainer
from agentrewind.ui.text import as_json


@click.command(epilog="Example: agentrewind train recipes/minesweeper.toml --out trained")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path),
    help="Of the training run; one that is there goes on where it was stopped. Named like the recipe by default.",
)
@click.option("--updates", type=click.IntRange(0), help="In place of the recipe's number; stop early, go on later.")
@click.option("--no-eval", "unmeasured", is_flag=True, help="Train only; `agentrewind eval` measures later.")
@json_option
def command(recipe: Path, directory: Path | None, updates: int | None, *, unmeasured: bool, as_object: bool) -> None:
    """Train a model by a recipe: imitate solvers, then learn from trials that go back.

    Weights, optimiser, metrics and scores are kept in the directory. The same command goes on where it was stopped, and
    ends with the same weights as if it had not been. Held-out instances are played before the first update and after
    the last one.
    """
    found = read_recipe(recipe)
    if updates is not None:
        found = found.up_to(updates)
    where = directory or Path(f"{found.name}-trained")

    def told(line: Json) -> None:
        sentence(line_of(line, found), err() if as_object else out())

    done = Trainer(found, where, told).train(measure=not unmeasured)
    if as_object:
        compared = [to_plain(each) for each in comparison(done.before, done.after)]
        print(as_json({"directory": str(where), "weights": str(done.weights), "scores": compared}))
        return
    show_comparison(comparison(done.before, done.after), out())
    sentence(
        f"The weights are in {done.weights}: `agentrewind eval --style {found.style} --policy {done.weights}`.", out()
    )
