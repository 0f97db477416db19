"""What `agentrewind eval` prints: tables of shares, gains, and how far trials went."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from agentrewind.cli.columns import show_columns
from agentrewind.cli.screen import sentence
from agentrewind.learn.scores import LENGTHS, Score, Summary, across, base_of, by_length, gain, kind_of, summaries
from agentrewind.ui.text import plural

NAMES = ("method", "policy", "protocol")


def show(scores: Sequence[Score], console: Console) -> None:
    """Print the tables of an evaluation."""
    found = summaries(scores)
    rows: list[tuple[str, ...]] = [("environment", *NAMES, "solved", "gain", "calls", "states", "to success")]
    rows += [_row(item, scores) for item in found]
    if len({kind_of(item.cell.environment) for item in found}) > 1:
        rows += [_row(item, scores) for item in across(scores)]
    _table(rows, console, len(NAMES))
    _table(_lengths(scores), console, len(NAMES) - 1)
    columns = zip(NAMES, _columns(rows[1:], len(NAMES)), strict=True)
    alike = "".join(f", {name} {column[0]}" for name, column in columns if len(set(column)) == 1)
    trials = sum(item.trials for item in found)
    sentence(
        f"{plural(trials, 'trial')}{alike}. Solved: mean over seeds ± deviation, in percent. Gain: of"
        " T@1 over P@1, and of T@2 and more over T@1. States: median of distinct ones visited. To success: median of"
        " actions in trials that solved it.",
        console,
    )


def _columns(rows: Sequence[tuple[str, ...]], names: int) -> list[tuple[str, ...]]:
    """What comes after the first column and says of which cell a row is."""
    return [tuple(row[number] for row in rows) for number in range(1, 1 + names)]


def _table(rows: Sequence[tuple[str, ...]], console: Console, names: int) -> None:
    """What is the same in every row isn't shown in any."""
    alike = {number for number, column in enumerate(_columns(rows[1:], names), 1) if len(set(column)) == 1}
    shown = [tuple(cell for number, cell in enumerate(row) if number not in alike) for row in rows]
    numbers = range(1 + names - len(alike), len(shown[0]))
    show_columns(shown, console, flexible=0, right=numbers, header=True)
    console.print()


def _row(item: Summary, scores: Sequence[Score]) -> tuple[str, ...]:
    over = base_of(item.cell.protocol)
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


def _lengths(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """Success by reference length, for each environment: one row a length, one column a protocol."""
    protocols = list(dict.fromkeys(item.protocol for item in scores))
    rows: list[tuple[str, ...]] = [("by reference length", *NAMES[:2], "trials", *protocols)]
    for environment in dict.fromkeys(item.environment for item in scores):
        parted = by_length([item for item in scores if item.environment == environment])
        for length in sorted(parted, key=lambda name: LENGTHS.index(name.split(" (")[0])):
            found = summaries(parted[length])
            for names in dict.fromkeys(_names(item)[:2] for item in found):
                mine = {item.cell.protocol: item for item in found if _names(item)[:2] == names}
                shares = (f"{100 * mine[name].success:.1f}" if name in mine else "" for name in protocols)
                rows.append((f"{environment} {length}", *names, str(next(iter(mine.values())).trials), *shares))
    return rows
