"""`agentrewind cost`: what runs took, kept and abandoned."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich.console import Console

from agentrewind.cli.columns import show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import out
from agentrewind.compose.home import LAST
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.cost import Cost, RunCost
from agentrewind.ui.facts import cost_facts
from agentrewind.ui.text import as_json, duration, one_line, plural, printable

COUNTS = ("", "calls", "tools", "in", "cached", "written", "out", "thought", "USD", "memory")
TIMES = ("", "wall", "model", "tools", "snapshots", "restores")
SELDOM = frozenset(("cached", "written", "thought", "memory"))
"""Columns that are left out where they would say nothing, so that the others fit a terminal."""
MONEY = 4
"""Decimals of a price."""


@click.command(epilog="Example: agentrewind cost last")
@click.argument("refs", metavar="[RUN]...", nargs=-1)
@json_option
def command(refs: tuple[str, ...], as_object: bool) -> None:
    """Show what runs took: calls, tokens, US dollars, time; what of it stands, what was abandoned, by branch.

    Prices are those of the day on which a call was recorded. What isn't known is said, and never counted as 0: a sum
    with a `+` has calls beside it that have no price, or no token numbers.
    """
    runs = list({run.id: run for run in map(open_run, refs or (LAST,))}.values())
    if as_object:
        found = [cost_facts(run) for run in runs]
        print(as_json(found[0] if len(refs) <= 1 else found))
        return
    console = out()
    whole: list[RunCost] = []
    for run in runs:
        whole.append(run.cost())
        _show(run, whole[-1], console)
        console.print()
    if len(whole) > 1:
        _table(_sums("all runs", whole), console)
        console.print()
    for line in _unknown(whole):
        console.print(line, soft_wrap=True)


def _show(run: Run, cost: RunCost, console: Console) -> None:
    console.print(f"{run.id}  {printable(one_line(run.started.task))}", style="bold", soft_wrap=True)
    rows = [("all", cost.total), ("retained", cost.retained), ("abandoned", cost.abandoned)]
    if len(cost.branches) > 1:
        rows += [(f"branch {branch}", of) for branch, of in cost.branches.items()]
    if len(cost.models) > 1:
        rows += [(printable(model), of) for model, of in cost.models.items()]
    _table(rows, console)


def _sums(title: str, costs: Iterable[RunCost]) -> list[tuple[str, Cost]]:
    found = list(costs)
    return [
        (title, sum((cost.total for cost in found), Cost())),
        ("retained", sum((cost.retained for cost in found), Cost())),
        ("abandoned", sum((cost.abandoned for cost in found), Cost())),
    ]


def _table(rows: Iterable[tuple[str, Cost]], console: Console) -> None:
    """Counts and times below one another: side by side they are too wide for a terminal."""
    found = list(rows)
    for cells in ([COUNTS, *(_counts(*row) for row in found)], [TIMES, *(_times(*row) for row in found)]):
        shown = [column for column, name in enumerate(cells[0]) if name not in SELDOM or _says(cells, column)]
        table = [[row[column] for column in shown] for row in cells]
        show_columns(table, console, flexible=0, right=range(1, len(shown)), header=True)


def _says(cells: list[tuple[str, ...]], column: int) -> bool:
    return any(row[column] != "0" for row in cells[1:])


def _counts(name: str, cost: Cost) -> tuple[str, ...]:
    counts = (cost.input, cost.cached, cost.cache_write, cost.output, cost.reasoning)
    tokens = (_at_least(f"{count:,}", count, cost.uncounted) for count in counts)
    return (name, f"{cost.calls:,}", f"{cost.tools:,}", *tokens, dollars(cost), f"{cost.memory_tokens:,}")


def _times(name: str, cost: Cost) -> tuple[str, ...]:
    times = (cost.wall_ms, cost.model_ms, cost.tool_ms, cost.snapshot_ms, cost.restore_ms)
    return (name, *map(_time, times))


def _time(took_ms: float) -> str:
    if took_ms >= 1000:  # noqa: PLR2004
        return duration(took_ms / 1000)
    return f"{took_ms:.0f} ms" if took_ms else "0"


def _at_least(text: str, known: float, missing: int) -> str:
    return text if not missing else f"{text}+" if known else "unknown"


def dollars(cost: Cost) -> str:
    """`0.0123`, `0.0123+` where other calls have no price, `unknown` where none has."""
    return _at_least(f"{cost.spent:.{MONEY}f}", cost.usd is not None, cost.unpriced)


def _unknown(costs: Iterable[RunCost]) -> Iterable[str]:
    reasons: dict[str, int] = {}
    tables: set[str] = set()
    failed = 0
    for cost in costs:
        tables.update(cost.tables)
        failed += cost.total.failed
        for why, count in cost.unknown.items():
            reasons[why] = reasons.get(why, 0) + count
    if tables:
        yield f"Prices: {printable(', '.join(sorted(tables)))}, as they were when each call was recorded (list prices)."
    for why, count in reasons.items():
        yield f"Without a price: {plural(count, 'call')}: {printable(why)}."
    if failed:
        yield f"{plural(failed, 'call')} got no answer and {'has' if failed == 1 else 'have'} no tokens."
