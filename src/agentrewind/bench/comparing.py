"""Two arms of a benchmark, paired: by task, and as a sensitivity check by run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from agentrewind.bench.results import Result
from agentrewind.bench.statistics import (
    Interval,
    Ranked,
    Zeros,
    bootstrap,
    exact_p,
    holm,
    mcnemar,
    ranked,
    wilcoxon,
)
from agentrewind.bench.table import Cell
from agentrewind.core.errors import UsageError

METRICS = ("success", "progress")


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left` against `right` on one metric. Differences are left minus right; `holm` is of the family of all tests that
    were made together, None where a test was made alone.
    """

    left: Cell
    right: Cell
    metric: str
    tasks: int
    runs: int
    """Of each arm on each task."""
    difference: Interval
    """Of the means over tasks, from -1 to 1; the interval is over tasks."""
    ranks: Ranked
    p: float
    p_exact: float | None
    p_pratt: float
    p_runs: float
    """Paired run by run, which takes repeated runs for independent ones: too ready to see something."""
    won: int
    lost: int
    """Pairs of runs with the same number of which only the left one, only the right one, succeeded."""
    p_mcnemar: float
    holm: float | None = None


def compared(results: Iterable[Result], left: Cell, right: Cell, metric: str = "success") -> Comparison:
    """Both arms over the tasks and runs that both have.

    Raises:
        UsageError: there are none, or SciPy isn't installed.
    """
    known = list(results)
    mine, other = _by_run(known, left), _by_run(known, right)
    shared = sorted(mine.keys() & other.keys())
    if not shared:
        raise UsageError(f"{left.arm} and {right.arm} have no run of the same task and number that counts.")
    tasks = sorted({task for task, _ in shared})
    runs = {task: [run for name, run in shared if name == task] for task in tasks}
    scale = lcm(*(len(each) for each in runs.values()), *(_total(mine[key]) for key in shared))
    by_task = [
        sum(_whole(mine[task, run], metric, scale) - _whole(other[task, run], metric, scale) for run in runs[task])
        * (lcm(*(len(each) for each in runs.values())) // len(runs[task]))
        for task in tasks
    ]
    by_run = [_whole(mine[key], metric, scale) - _whole(other[key], metric, scale) for key in shared]
    pairs = [
        [_value(mine[task, run], metric) - _value(other[task, run], metric) for run in runs[task]] for task in tasks
    ]
    won = sum(mine[key].success and not other[key].success for key in shared)
    lost = sum(other[key].success and not mine[key].success for key in shared)
    found = ranked(by_task)
    return Comparison(
        left,
        right,
        metric,
        len(tasks),
        max(len(each) for each in runs.values()),
        bootstrap(pairs, _mean_of_means),
        found,
        wilcoxon(by_task),
        exact_p(found),
        wilcoxon(by_task, _PRATT),
        wilcoxon(by_run),
        won,
        lost,
        mcnemar(won, lost),
    )


_PRATT: Zeros = "pratt"


def family(results: Sequence[Result], left: str) -> list[Comparison]:
    """The arm of that name against every other one of the same harness and model, on both metrics, Holm over all.

    Raises:
        UsageError: as `compared`.
    """
    cells = sorted({Cell.of(result) for result in results if result.counts}, key=lambda cell: (cell.model, cell.arm))
    mine = [cell for cell in cells if cell.arm == left]
    pairs = [
        (cell, other)
        for cell in mine
        for other in cells
        if other.arm != left and (other.harness, other.model) == (cell.harness, cell.model)
    ]
    found = [compared(results, cell, other, metric) for metric in METRICS for cell, other in pairs]
    return corrected(found)


def corrected(found: Sequence[Comparison]) -> list[Comparison]:
    """The same tests as a family."""
    values = holm({place: item.p for place, item in enumerate(found)})
    return [replace(item, holm=values[place]) for place, item in enumerate(found)]


def _by_run(results: Iterable[Result], cell: Cell) -> Mapping[tuple[str, int], Result]:
    """The runs of a cell that count, by task and number."""
    mine = (result for result in results if result.counts and Cell.of(result) == cell)
    return {(result.spec.task, result.spec.seed): result for result in mine}


def _total(result: Result) -> int:
    return result.total or 1


def _value(result: Result, metric: str) -> float:
    return float(result.success) if metric == "success" else result.progress


def _whole(result: Result, metric: str, scale: int) -> int:
    """The metric as a whole number of parts of 1 / scale, which it is without rounding."""
    if metric == "success":
        return scale * result.success
    return result.satisfied * (scale // _total(result))


def _mean_of_means(groups: Sequence[Sequence[float]]) -> float:
    return sum(sum(group) / len(group) for group in groups) / len(groups)
