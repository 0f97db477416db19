"""The results of a benchmark in rows: one for each strategy, harness and model."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentrewind.bench.results import Result
from agentrewind.core.codec import Json

HEADER = ("strategy", "harness", "model", "runs", "success", "progress", "nodes", "tokens", "rewinds", "USD")


@dataclass(frozen=True, slots=True)
class Cell:
    """What is compared: everything of a run but its task and its number."""

    arm: str
    harness: str
    model: str

    @classmethod
    def of(cls, result: Result) -> Cell:
        return cls(result.spec.arm, result.spec.harness, result.spec.model)


@dataclass(frozen=True, slots=True)
class Row:
    """A cell with its runs. Success and progress are means over tasks and then over runs, with the sample standard
    deviation over runs.
    """

    cell: Cell
    results: tuple[Result, ...]

    @property
    def header(self) -> tuple[str, ...]:
        return HEADER

    @property
    def simulated(self) -> str:
        return self.results[0].simulated

    @property
    def success(self) -> tuple[float, float]:
        return _over_runs(self.results, [float(result.success) for result in self.results])

    @property
    def progress(self) -> tuple[float, float]:
        return _over_runs(self.results, [result.progress for result in self.results])

    @property
    def cells(self) -> tuple[str, ...]:
        usd = [result.usd for result in self.results if result.usd is not None]
        return (
            self.cell.arm,
            self.cell.harness,
            self.cell.model,
            str(len(self.results)),
            _percent(*self.success),
            _percent(*self.progress),
            f"{_mean(result.nodes for result in self.results):.1f}",
            f"{_mean(result.tokens for result in self.results):,.0f}",
            f"{_mean(len(result.moves) for result in self.results):.2f}",
            f"{sum(usd):.2f}" if usd else "",
        )

    @property
    def facts(self) -> Json:
        """Nothing in here depends on how fast or in what order the runs were made."""
        return {
            "strategy": self.cell.arm,
            "harness": self.cell.harness,
            "model": self.cell.model,
            "simulated": self.simulated,
            "runs": len(self.results),
            "success": self.success[0],
            "success_deviation": self.success[1],
            "progress": self.progress[0],
            "progress_deviation": self.progress[1],
            "nodes": _mean(result.nodes for result in self.results),
            "tokens": _mean(result.tokens for result in self.results),
            "rewinds": _mean(len(result.moves) for result in self.results),
            "held": _mean(result.held for result in self.results),
            "usd": sum(result.usd or 0.0 for result in self.results),
        }


def rows_of(results: Iterable[Result]) -> list[Row]:
    """One for each cell, in the order of their names; runs that don't count are left out."""
    cells: dict[Cell, list[Result]] = {}
    for result in results:
        if result.counts:
            cells.setdefault(Cell.of(result), []).append(result)
    return [Row(cell, tuple(found)) for cell, found in sorted(cells.items(), key=lambda item: _order(item[0]))]


def _order(cell: Cell) -> tuple[str, str, str]:
    return cell.harness, cell.model, cell.arm


def _over_runs(results: Sequence[Result], values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation of the runs' means over tasks."""
    runs: dict[int, list[float]] = {}
    for result, value in zip(results, values, strict=True):
        runs.setdefault(result.spec.seed, []).append(value)
    means = [statistics.fmean(each) for each in runs.values()]
    return statistics.fmean(means), statistics.stdev(means) if len(means) > 1 else 0.0


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def _percent(mean: float, deviation: float) -> str:
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}"
