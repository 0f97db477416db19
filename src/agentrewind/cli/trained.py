"""What `agentrewind train` prints: a line a step, and a table of before and after."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console

from agentrewind.bench.statistics import Interval, bootstrap
from agentrewind.cli.columns import show_columns
from agentrewind.cli.screen import sentence
from agentrewind.core.codec import Json
from agentrewind.learn.methods import RETROSPECTIVE
from agentrewind.learn.scores import Score
from agentrewind.learn.training.recipe import Recipe
from agentrewind.ui.text import plural

NO_MEMORY = "no-memory"


@dataclass(frozen=True, slots=True)
class Compared:
    """One protocol and whose remarks went back, before and after."""

    protocol: str
    remarks: str
    before: float
    after: float
    change: Interval
    """Of the paired differences: instances are drawn again, each with all its seeds."""
    asked: float
    """Rewinds that were asked for, a trial, after training."""
    calls: float


def comparison(before: Sequence[Score] | None, after: Sequence[Score] | None) -> list[Compared]:
    """Nothing where one of them wasn't measured."""
    if not before or not after:
        return []
    found = []
    for method, protocol in dict.fromkeys((score.method, score.protocol) for score in after):
        old, new = (
            [item for item in part if (item.method, item.protocol) == (method, protocol)] for part in (before, after)
        )
        found.append(
            Compared(
                protocol, "own" if method == RETROSPECTIVE.name else method, _share(old), _share(new),
                paired(new, old), statistics.fmean(item.rewinds for item in new),
                statistics.fmean(item.calls for item in new),
            )
        )  # fmt: skip
    return found


def paired(scores: Iterable[Score], others: Iterable[Score]) -> Interval:
    """How much more is solved, and where 95 % of the bootstrap over instances lie."""
    mine, theirs = (_by_instance(part) for part in (scores, others))
    groups = [[statistics.fmean(mine[task]) - statistics.fmean(theirs[task])] for task in mine if task in theirs]
    return bootstrap(groups, lambda drawn: statistics.fmean(each[0] for each in drawn))


def show_comparison(found: Sequence[Compared], console: Console) -> None:
    if not found:
        return
    rows = [("protocol", "remarks", "before", "after", "change", "95 %", "asked", "calls")]
    rows += [
        (
            item.protocol, item.remarks, _percent(item.before), _percent(item.after), f"{100 * item.change.value:+.1f}",
            f"{100 * item.change.low:+.1f} to {100 * item.change.high:+.1f}", f"{item.asked:.2f}", f"{item.calls:.1f}",
        )
        for item in found
    ]  # fmt: skip
    show_columns(rows, console, flexible=1, right=range(2, 8), header=True)
    console.print()
    sentence(f"Solved, in percent, and the paired change. {_verdict(found)}", console)


def _verdict(found: Sequence[Compared]) -> str:
    last = next((item for item in reversed(found) if item.remarks == "own"), found[-1])
    gained = last.change.low > 0
    text = (
        f"{last.protocol} gained {100 * last.change.value:.1f} points, and the interval excludes 0."
        if gained
        else f"The interval of {last.protocol} doesn't exclude 0: no gain was shown."
    )
    memory = next((item for item in found if item.remarks == NO_MEMORY), None)
    if memory is None:
        return text
    more = 100 * (last.after - memory.after)
    return f"{text} Beside going back without memory, its own remarks are worth {more:+.1f} points after training."


def line_of(line: Json, recipe: Recipe) -> str:
    """One line of metrics as text."""
    return _LINES[line["phase"]](line, recipe)


def _clone(line: Json, recipe: Recipe) -> str:
    steps = recipe.cloning.steps if recipe.cloning else 0
    return f"clone {line['cloned']:,} of {steps:,}: loss {line['loss']:.3f}, gradient {line['norm']:.2f}"


def _update(line: Json, recipe: Recipe) -> str:
    return (
        f"update {line['updated']} of {recipe.updates}: solved {_percent(line['solved'])} % (at once"
        f" {_percent(line['first'])} %), asked back {line['asked']:.2f}, spread {line['spread']:.2f},"
        f" {plural(line['rows'], 'row')}, gradient {line['norm']:.2f}, {line['tokens_s']:,.0f} tokens/s"
    )


_LINES: dict[str, Callable[[Json, Recipe], str]] = {
    "demonstrations": lambda line, _: f"demonstrations: {line['trials']:,} trials",
    "clone": _clone,
    "update": _update,
    "evaluation": lambda line, _: f"evaluation after {plural(line['updated'], 'update')}",
    "gate": lambda line, _: (
        f"gate: an oracle's remarks solve {100 * line['gap']:+.1f} points more than none;"
        f" {100 * line['least']:.1f} are wanted"
    ),
}


def _by_instance(scores: Iterable[Score]) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = {}
    for item in scores:
        found.setdefault(item.task, []).append(item.solved)
    return found


def _share(scores: Iterable[Score]) -> float:
    return statistics.fmean(item.solved for item in scores)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
