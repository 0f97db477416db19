"""Folds over results: curves, costs, thirds, growth of memory. Pure, and needs nothing beyond the standard library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentrewind.bench.results import Result
from agentrewind.bench.statistics import Interval, agreement, bootstrap, pass_all, pass_at, tertiles
from agentrewind.bench.table import Cell, Row, rows_of

CONTINUE = "continue"
POINTS = 60
"""At how many lengths a curve is drawn."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Shares over the length of a trace, in nodes: what is reached by then, flat after a run's end."""

    cell: Cell
    nodes: tuple[int, ...]
    success: tuple[float, ...]
    progress: tuple[float, ...]


def curves(results: Sequence[Result]) -> list[Curve]:
    """One for each cell, over the same lengths."""
    rows = rows_of(results)
    longest = max((result.nodes for row in rows for result in row.results), default=0)
    nodes = tuple(round(longest * step / POINTS) for step in range(POINTS + 1))
    return [_curve(row, nodes) for row in rows]


def _curve(row: Row, nodes: tuple[int, ...]) -> Curve:
    success = tuple(statistics.fmean(solved_by(item, length) for item in row.results) for length in nodes)
    progress = tuple(statistics.fmean(progress_by(item, length) for item in row.results) for length in nodes)
    return Curve(row.cell, nodes, success, progress)


def solved_by(result: Result, nodes: int) -> bool:
    return result.success and result.nodes <= nodes


def progress_by(result: Result, nodes: int) -> float:
    """That of the newest submission by then; 0 before the first."""
    known = [item.progress for item in result.submissions if item.nodes <= nodes]
    return known[-1] if known else 0.0


@dataclass(frozen=True, slots=True)
class Within:
    """What a cell has solved by so many nodes of each run: all cells under an equal budget."""

    cell: Cell
    shares: tuple[tuple[int, float], ...]
    """By budget in nodes, smallest first."""


def within(results: Sequence[Result]) -> list[Within]:
    """At the least, the middle and the most that the cells take on average, and at twice that."""
    rows = rows_of(results)
    means = sorted(statistics.fmean(item.nodes for item in row.results) for row in rows)
    budgets = sorted({round(each) for each in (*means[:1], *means[len(means) // 2 :][:1], *means[-1:])})
    budgets += [2 * each for each in budgets[-1:]]
    return [
        Within(
            row.cell, tuple((each, statistics.fmean(solved_by(item, each) for item in row.results)) for each in budgets)
        )
        for row in rows
    ]


def rate(row: Row) -> Interval:
    """Success as a mean over tasks, with an interval over tasks."""
    groups = [[float(item.success) for item in group] for group in _by_task(row)]
    return bootstrap(groups, lambda drawn: statistics.fmean(statistics.fmean(group) for group in drawn))


def _by_task(row: Row) -> list[list[Result]]:
    tasks: dict[str, list[Result]] = {}
    for result in row.results:
        tasks.setdefault(result.spec.task, []).append(result)
    return list(tasks.values())


@dataclass(frozen=True, slots=True)
class Spent:
    """What a success costs in a cell, with an interval over tasks; infinite where nothing succeeded."""

    cell: Cell
    success: float
    nodes: Interval
    tokens: Interval
    usd: Interval | None


def spending(results: Sequence[Result]) -> list[Spent]:
    return [_spent(row) for row in rows_of(results)]


def _spent(row: Row) -> Spent:
    groups = _by_task(row)
    priced = all(result.usd is not None for result in row.results)
    return Spent(
        row.cell,
        row.success[0],
        _per_success(groups, [[float(item.nodes) for item in group] for group in groups]),
        _per_success(groups, [[float(item.tokens) for item in group] for group in groups]),
        _per_success(groups, [[item.usd or 0.0 for item in group] for group in groups]) if priced else None,
    )


def _per_success(groups: Sequence[Sequence[Result]], costs: Sequence[Sequence[float]]) -> Interval:
    """The cost of all runs by the number of successes. Each group carries both through the bootstrap."""
    paired = [
        [part for item, cost in zip(group, each, strict=True) for part in (cost, float(item.success))]
        for group, each in zip(groups, costs, strict=True)
    ]
    return bootstrap(paired, _ratio)


def _ratio(groups: Sequence[Sequence[float]]) -> float:
    solved = sum(sum(group[1::2]) for group in groups)
    return sum(sum(group[::2]) for group in groups) / solved if solved else math.inf


def pareto(spent: Iterable[Spent]) -> list[Spent]:
    """Those that no other one beats in both success and tokens a run, cheapest first."""
    known = [item for item in spent if math.isfinite(item.tokens.value)]
    left = [item for item in known if not any(_beats(other, item) for other in known)]
    return sorted(left, key=lambda item: item.tokens.value)


def _beats(one: Spent, other: Spent) -> bool:
    better = (one.success >= other.success, one.tokens.value <= other.tokens.value)
    return all(better) and (one.success > other.success or one.tokens.value < other.tokens.value)


@dataclass(frozen=True, slots=True)
class Third:
    """Success on the tasks of one third of a model's own distribution of `continue` trace lengths. 0: the shortest."""

    cell: Cell
    third: int
    tasks: int
    success: float
    low: float
    """Of its runs, the least."""
    high: float


def thirds(results: Sequence[Result]) -> list[Third]:
    """Empty where no `continue` was run."""
    rows = rows_of(results)
    found: list[Third] = []
    for row in rows:
        base = next((item for item in rows if item.cell == Cell(CONTINUE, row.cell.harness, row.cell.model)), None)
        if base is not None:
            places = tertiles(_lengths(base))
            found += [_third(row, number, places) for number in sorted(set(places.values()))]
    return found


def _lengths(row: Row) -> dict[str, float]:
    """The median trace length of each task."""
    nodes: dict[str, list[int]] = {}
    for result in row.results:
        nodes.setdefault(result.spec.task, []).append(result.nodes)
    return {task: statistics.median(each) for task, each in nodes.items()}


def _third(row: Row, number: int, places: Mapping[str, int]) -> Third:
    mine = [result for result in row.results if places.get(result.spec.task) == number]
    runs: dict[int, list[bool]] = {}
    for result in mine:
        runs.setdefault(result.spec.seed, []).append(result.success)
    shares = [statistics.fmean(each) for each in runs.values()] or [0.0]
    tasks = len({result.spec.task for result in mine})
    return Third(row.cell, number, tasks, statistics.fmean(shares), min(shares), max(shares))


@dataclass(frozen=True, slots=True)
class Growth:
    """What the notes take at the nth rewind of a run, over the runs that made so many."""

    cell: Cell
    rewind: int
    runs: int
    mean: float
    most: int


def growth(results: Sequence[Result]) -> list[Growth]:
    found: list[Growth] = []
    for row in rows_of(results):
        most = max((len(result.moves) for result in row.results), default=0)
        for number in range(most):
            taken = [item.moves[number].memory_tokens for item in row.results if len(item.moves) > number]
            found.append(Growth(row.cell, number + 1, len(taken), statistics.fmean(taken), max(taken)))
    return found


@dataclass(frozen=True, slots=True)
class Regrets:
    """What a cell's rewinds threw away, and how long its failed runs went on in vain, in nodes; None where there is
    nothing to count.
    """

    cell: Cell
    rewinds: int
    too_late: int
    """Those to a point from which the task could not be solved any more."""
    thrown: float | None
    """The median over the others."""
    failed: int
    in_vain: float | None


def regrets(rows: Sequence[Row]) -> list[Regrets]:
    """Of the cells in which somebody looked."""
    return [found for row in rows if (found := _regrets(row)) is not None]


def _regrets(row: Row) -> Regrets | None:
    moves = [move.regret for result in row.results for move in result.moves if move.regret is not None]
    vain = [result.in_vain for result in row.results if result.in_vain is not None]
    if not moves and not vain:
        return None
    thrown = [each for each in moves if each >= 0]
    return Regrets(
        row.cell,
        len(moves),
        len(moves) - len(thrown),
        statistics.median(thrown) if thrown else None,
        len(vain),
        statistics.median(vain) if vain else None,
    )


@dataclass(frozen=True, slots=True)
class Repeats:
    """How alike repeated runs ended, and what several reach together. `k` is how many there are of each task."""

    cell: Cell
    k: int
    alike: int
    tasks: int
    at_k: float
    """pass@k: the mean over tasks of one of k solving it."""
    all_k: float
    """pass^k: of all k solving it."""


def repeats(results: Sequence[Result]) -> list[Repeats]:
    return [_repeats(row) for row in rows_of(results)]


def _repeats(row: Row) -> Repeats:
    outcomes: dict[str, list[bool]] = {}
    for result in row.results:
        outcomes.setdefault(result.spec.task, []).append(result.success)
    k = min(map(len, outcomes.values()))
    alike, tasks = agreement(outcomes)
    at = statistics.fmean(pass_at(k, len(each), sum(each)) for each in outcomes.values())
    every = statistics.fmean(pass_all(k, len(each), sum(each)) for each in outcomes.values())
    return Repeats(row.cell, k, alike, tasks, at, every)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a run's trace on one branch: from node `start` to `end`. `kept` is the part of it that still stands
    at the run's end. `memory` is what the notes take that were brought to its beginning.
    """

    branch: int
    start: int
    end: int
    kept: int
    memory: int
    by: str


def segments(result: Result) -> list[Segment]:
    """A run as its branches, in the order in which they were worked on.

    A rewind abandons the newest `back` nodes of the path.
    """
    cuts = [0, *(move.nodes for move in result.moves), result.nodes]
    kept = [end - start for start, end in pairwise(cuts)]
    for number, move in enumerate(result.moves):
        left = move.back
        for branch in range(number, -1, -1):
            taken = min(left, kept[branch])
            kept[branch] -= taken
            left -= taken
    moves = [None, *result.moves]
    return [
        Segment(number, start, end, kept[number], move.memory_tokens if move else 0, move.by if move else "")
        for number, ((start, end), move) in enumerate(zip(pairwise(cuts), moves, strict=True))
    ]
