"""`agentrewind eval`: how well a policy does, with and without ways back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from agentrewind.cli.evaluated import show
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import err, out, progress, sentence
from agentrewind.core.codec import Json, to_plain
from agentrewind.core.errors import UsageError
from agentrewind.learn.archives import Archives
from agentrewind.learn.evaluation import Plan, evaluate, unkept
from agentrewind.learn.plots import figures
from agentrewind.learn.scores import Score, across, base_of, gain, summaries
from agentrewind.learn.workers import processes, ray_actors
from agentrewind.ui.text import as_json


def _listed(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    del ctx, param
    return tuple(item.strip() for item in value.split(",") if item.strip())


@click.command(epilog="Example: agentrewind eval --env sokoban:7:3,minesweeper:6:6 --policy noisy:0.3 --instances 50")
@click.option("--env", "environments", default="minesweeper,sokoban", show_default=True, callback=_listed)
@click.option("--method", "methods", default="retrospective", show_default=True, callback=_listed)
@click.option("--policy", "policies", default="noisy:0.2", show_default=True, callback=_listed)
@click.option("--protocol", "protocols", default="P@1,T@1,T@3", show_default=True, callback=_listed)
@click.option("--seeds", default="0,1,2", show_default=True, callback=_listed)
@click.option("--instances", type=click.IntRange(1), default=100, show_default=True, help="Of each environment.")
@click.option("--split", type=click.Choice(("test", "train")), default="test", show_default=True)
@click.option("--style", type=click.Choice(("full", "compact")), default="full", show_default=True)
@click.option("--base-url", default="", help="Where a policy that is a model is asked; the key: OPENAI_API_KEY.")
@click.option(
    "--alfworld-data",
    envvar="ALFWORLD_DATA",
    type=click.Path(path_type=Path),
    help="The games of ALFWorld, for alfworld.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes, for programs that play.")
@click.option(
    "--ray", "address", default="", metavar="ADDRESS", help="Let --jobs actors of this Ray play; local: here."
)
@click.option(
    "--out", "directory", type=click.Path(path_type=Path), help="Keep every trial's score and the plots here."
)
@click.option("--archives", is_flag=True, help="Keep every trial as a run too: AGENTREWIND_HOME=OUT agentrewind log.")
@json_option
def command(  # noqa: PLR0917
    environments: tuple[str, ...],
    methods: tuple[str, ...],
    policies: tuple[str, ...],
    protocols: tuple[str, ...],
    seeds: tuple[str, ...],
    instances: int,
    split: str,
    style: str,
    base_url: str,
    alfworld_data: Path | None,
    jobs: int,
    address: str,
    directory: Path | None,
    archives: bool,
    as_object: bool,
) -> None:
    """Play environments with a policy, and say how often it solves them.

    --env takes minesweeper[:SIZE[:MINES]], sokoban[:SIZE[:BOXES]], alfworld[:SPLIT] and scienceworld[:TASK]; --method
    zero-shot, react, reflexion, ga-rollback and retrospective; --policy perfect, noisy:RATE, random, or a model's name.
    P@1 plays without a way back, T@1 with ways back that the policy asks for, T@3 with up to three attempts; each has
    60 calls a trial.
    """
    plan = Plan(
        environments, methods, policies, protocols, _seeds(seeds), instances,
        "compact" if style == "compact" else "full", split, base_url=base_url, alfworld=alfworld_data,
    )  # fmt: skip
    if directory is not None and directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise UsageError(f"{directory} isn't empty, or is no directory. Nothing was played; give a new directory.")
    if archives and directory is None:
        raise UsageError("--archives needs --out: the runs are kept there. Nothing was played.")
    workers = ray_actors(address, jobs) if address else processes(jobs)
    keep = Archives(directory) if archives and directory is not None else unkept
    with progress("evaluate") as step:
        scores = evaluate(plan, workers=workers, told=step, keep=keep)
    facts = _facts(plan, scores) if as_object or directory is not None else None
    if directory is not None:
        _keep(directory, facts, scores)
    if as_object:
        print(as_json(facts))
    else:
        show(scores, out())


def _seeds(texts: Sequence[str]) -> tuple[int, ...]:
    if not all(text.isdigit() for text in texts):
        raise UsageError("--seeds takes whole numbers with commas between, such as 0,1,2.")
    return tuple(map(int, texts))


def _facts(plan: Plan, scores: Sequence[Score]) -> Json:
    found = summaries(scores)
    return {
        "plan": {name: value for name, value in to_plain(plan).items() if name not in {"base_url", "alfworld"}},
        "cells": [to_plain(item) for item in found],
        "equal_weight": [to_plain(item) for item in across(scores)],
        "gains": [
            {"cell": to_plain(item.cell), "over": over, "mean": more[0], "deviation": more[1]}
            for item in found
            if (over := base_of(item.cell.protocol)) and (more := gain(scores, item.cell, over))
        ],
    }


def _keep(directory: Path, facts: Json, scores: Sequence[Score]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "summary.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = (json.dumps(to_plain(item), ensure_ascii=False) + "\n" for item in scores)
    (directory / "trials.jsonl").write_text("".join(lines), encoding="utf-8")
    try:
        for name, figure in figures(scores).items():
            figure.savefig(directory / f"{name}.png")
    except UsageError as error:
        sentence(f"No plots were drawn. {error}", err())
