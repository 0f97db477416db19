"""`agentrewind eval`: how well a policy does, with and without ways back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from agentrewind.cli.columns import show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import out, progress, sentence
from agentrewind.cli.text import as_json, plural
from agentrewind.core.codec import Json, to_plain
from agentrewind.core.errors import UsageError
from agentrewind.learn.evaluation import Plan, evaluate
from agentrewind.learn.scores import Score, Summary, across, by_length, gain, summaries

OVER = {"T@1": "P@1", "T@3": "T@1"}
"""For a protocol the one that its gain is over: Δ_pro, and Δ_ref."""
NAMES = ("method", "policy", "protocol")


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
    "--out", "directory", type=click.Path(path_type=Path), help="Keep every trial's score and the plots here."
)
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
    directory: Path | None,
    as_object: bool,
) -> None:
    """Play environments with a policy, and say how often it solves them.

    --env takes minesweeper[:SIZE[:MINES]], sokoban[:SIZE[:BOXES]] and alfworld[:SPLIT]; --method zero-shot, react,
    reflexion, ga-rollback and retrospective; --policy perfect, noisy:RATE, random, or a model's name. P@1 plays without
    a way back, T@1 with ways back that the policy asks for, T@3 with up to three attempts; each has 60 calls a trial.
    """
    plan = Plan(
        environments, methods, policies, protocols, _seeds(seeds), instances,
        "compact" if style == "compact" else "full", split, base_url=base_url, alfworld=alfworld_data,
    )  # fmt: skip
    if directory is not None and directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} isn't empty. Nothing was played; give a new directory.")
    with progress("evaluate") as step:
        scores = evaluate(plan, jobs=jobs, told=step)
    facts = _facts(plan, scores) if as_object or directory is not None else None
    if directory is not None:
        _keep(directory, facts, scores)
    if as_object:
        print(as_json(facts))
    else:
        _show(scores, out())


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
            if (over := OVER.get(item.cell.protocol)) and (more := gain(scores, item.cell, over))
        ],
    }


def _show(scores: Sequence[Score], console: Console) -> None:
    found = summaries(scores)
    rows: list[tuple[str, ...]] = [("environment", *NAMES, "solved", "gain", "calls", "states", "to success")]
    rows += [_row(item, scores) for item in found]
    if len({item.cell.environment for item in found}) > 1:
        rows += [_row(item, scores) for item in across(scores)]
    _table(rows, console)
    _table([("by reference length", *NAMES, "solved", "trials"), *_lengths(scores)], console)
    columns = zip(NAMES, _columns(rows[1:]), strict=True)
    alike = "".join(f", {name} {column[0]}" for name, column in columns if len(set(column)) == 1)
    trials = sum(item.trials for item in found)
    sentence(
        f"{plural(trials, 'trial')}{alike}. Solved: mean over seeds ± deviation, in percent. Gain: of"
        " T@1 over P@1 and of T@3 over T@1. States: median of distinct ones visited. To success: median of actions in"
        " trials that solved it.",
        console,
    )


def _columns(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Method, policy and protocol of each row."""
    return [tuple(row[number] for row in rows) for number in range(1, 1 + len(NAMES))]


def _table(rows: Sequence[tuple[str, ...]], console: Console) -> None:
    """What is the same in every row isn't shown in any."""
    alike = {number for number, column in enumerate(_columns(rows[1:]), 1) if len(set(column)) == 1}
    shown = [tuple(cell for number, cell in enumerate(row) if number not in alike) for row in rows]
    numbers = range(1 + len(NAMES) - len(alike), len(shown[0]))
    show_columns(shown, console, flexible=0, right=numbers, header=True)
    console.print()


def _row(item: Summary, scores: Sequence[Score]) -> tuple[str, ...]:
    over = OVER.get(item.cell.protocol)
    more = gain(scores, item.cell, over) if over else None
    return (
        item.cell.environment,
        *_names(item),
        f"{100 * item.success:.1f} ± {100 * item.deviation:.1f}",
        f"{100 * more[0]:+.1f} ± {100 * more[1]:.1f}" if more else "",
        f"{item.calls:.1f}",
        f"{item.states:g}",
        "" if item.to_success is None else f"{item.to_success:g}",
    )


def _names(item: Summary) -> tuple[str, str, str]:
    return (item.cell.method, item.cell.policy, item.cell.protocol)


def _lengths(scores: Sequence[Score]) -> Iterator[tuple[str, ...]]:
    """Success by thirds of the reference length, for each environment."""
    for environment in dict.fromkeys(item.environment for item in scores):
        mine = [item for item in scores if item.environment == environment]
        for third, group in sorted(by_length(mine).items(), reverse=True):
            for item in summaries(group):
                yield (f"{environment} {third}", *_names(item), f"{100 * item.success:.1f}", f"{item.trials}")


def _keep(directory: Path, facts: Json, scores: Sequence[Score]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "summary.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = (json.dumps(to_plain(item), ensure_ascii=False) + "\n" for item in scores)
    (directory / "trials.jsonl").write_text("".join(lines), encoding="utf-8")
