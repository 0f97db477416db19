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


@dataclass(frozen=True, slots=True)
class Paired:
    """How far the left arm is from the right one in success, on the tasks and runs that both have; needs no SciPy."""

    difference: Interval
    ranks: Ranked

    @property
    def p_exact(self) -> float | None:
        return exact_p(self.ranks)


def paired(results: Iterable[Result], left: Cell, right: Cell) -> Paired:
    """Raises: UsageError: they have none in common."""
    both = _both(list(results), left, right)
    return Paired(bootstrap(both.pairs("success"), _mean_of_means), ranked(both.by_task("success")))


def compared(results: Iterable[Result], left: Cell, right: Cell, metric: str = "success") -> Comparison:
    """Both arms over the tasks and runs that both have.

    Raises:
        UsageError: there are none, or SciPy isn't installed.
    """
    both = _both(list(results), left, right)
    mine, other, shared = both.left, both.right, both.shared
    by_task, by_run = both.by_task(metric), both.by_run(metric)
    won = sum(mine[key].success and not other[key].success for key in shared)
    lost = sum(other[key].success and not mine[key].success for key in shared)
    found = ranked(by_task)
    return Comparison(
        left,
        right,
        metric,
        len(both.runs),
        max(len(each) for each in both.runs.values()),
        bootstrap(both.pairs(metric), _mean_of_means),
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


@dataclass(frozen=True, slots=True)
class _Both:
    """The runs of two arms that have the same task and number."""

    left: Mapping[tuple[str, int], Result]
    right: Mapping[tuple[str, int], Result]
    shared: Sequence[tuple[str, int]]

    @property
    def runs(self) -> dict[str, list[int]]:
        """By task, the numbers of its runs."""
        return {task: [run for name, run in self.shared if name == task] for task, _ in self.shared}

    @property
    def _scale(self) -> int:
        """Of which each metric of a run is a whole number of parts."""
        return lcm(*(len(each) for each in self.runs.values()), *(_total(self.left[key]) for key in self.shared))

    def pairs(self, metric: str) -> list[list[float]]:
        """The differences of the runs of each task."""
        return [
            [_value(self.left[task, run], metric) - _value(self.right[task, run], metric) for run in numbers]
            for task, numbers in self.runs.items()
        ]

    def by_task(self, metric: str) -> list[int]:
        """The difference of each task's mean, as a whole number of equal parts."""
        scale, whole = self._scale, lcm(*(len(each) for each in self.runs.values()))
        return [
            sum(self._difference((task, run), metric, scale) for run in numbers) * (whole // len(numbers))
            for task, numbers in self.runs.items()
        ]

    def by_run(self, metric: str) -> list[int]:
        scale = self._scale
        return [self._difference(key, metric, scale) for key in self.shared]

    def _difference(self, key: tuple[str, int], metric: str, scale: int) -> int:
        return _whole(self.left[key], metric, scale) - _whole(self.right[key], metric, scale)


def _both(results: Sequence[Result], left: Cell, right: Cell) -> _Both:
    """Raises: UsageError: they have no run in common."""
    mine, other = _by_run(results, left), _by_run(results, right)
    shared = sorted(mine.keys() & other.keys())
    if not shared:
        raise UsageError(f"{left.arm} and {right.arm} have no run of the same task and number that counts.")
    return _Both(mine, other, shared)


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
