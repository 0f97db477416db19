"""The page of a study: its question, a picture, a table, and what may and may not be concluded."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentrewind.bench.analysis import Spent, curves, growth, rate, spending, within
from agentrewind.bench.comparing import Paired, paired
from agentrewind.bench.report.charts import (
    colours,
    curve_chart,
    growth_chart,
    interval_chart,
    level_chart,
    named,
    pareto_chart,
)
from agentrewind.bench.report.page import budgets, simulated_notice
from agentrewind.bench.report.parts import chapter, document, interval, probability, table
from agentrewind.bench.results import Result
from agentrewind.bench.statistics import Interval
from agentrewind.bench.studies import Study
from agentrewind.bench.table import Cell, Row, rows_of
from agentrewind.core.codec import Json, to_plain

COLUMNS = ("arm", "runs", "success", "difference", "nodes / success", "p exact", "progress", "nodes",
           "tokens / success", "rewinds", "held back", "told wrongly")  # fmt: skip

FIGURES = (
    "Success is a mean over tasks, with a 95 % bootstrap interval over tasks; failures cost too."
    " Differences are in points of success against <code>{against}</code> of the same model, on the tasks and runs that"
    " both have; p exact counts all assignments of signs, and isn't corrected for how many arms there are."
)
BUDGET = (
    "All arms saw the same tasks with the same numbers of runs. A budget isn't known to the agent, so what an arm has"
    " reached by so many calls is what it would have reached with that budget."
)


@dataclass(frozen=True, slots=True)
class Line:
    """An arm of a study. `success` is a mean over tasks with an interval over tasks; `difference` is that to the arm to
    which all are compared (None for that itself).
    """

    row: Row
    success: Interval
    spent: Spent
    difference: Paired | None
    wrong: int
    """How many of its verdicts the agent was told otherwise."""

    @property
    def cell(self) -> Cell:
        return self.row.cell


def lines_of(study: Study, results: Sequence[Result]) -> list[Line]:
    """One for each arm and model of the study that has results, in the order in which it names them."""
    rows = {row.cell: row for row in rows_of(results) if row.cell.arm in study.arms}
    spent = {item.cell: item for item in spending([result for row in rows.values() for result in row.results])}
    order = sorted(rows, key=lambda cell: (cell.harness, cell.model, study.arms.index(cell.arm)))
    return [_line(study, rows[cell], spent[cell], results) for cell in order]


def _line(study: Study, row: Row, spent: Spent, results: Sequence[Result]) -> Line:
    base = replace(row.cell, arm=study.against)
    known = row.cell != base and any(result.counts and Cell.of(result) == base for result in results)
    wrong = sum(bool(item.told) for result in row.results for item in result.submissions)
    return Line(row, rate(row), spent, paired(results, row.cell, base) if known else None, wrong)


def write_study(study: Study, results: Sequence[Result], directory: Path, conditions: Json) -> list[Path]:
    """Write page, table and numbers into `directory`: the files."""
    lines = lines_of(study, results)
    mine = [result for line in lines for result in line.row.results]
    contents = {
        f"study-{study.name}.html": _page(study, lines, mine),
        f"study-{study.name}.csv": _csv(lines),
        f"study-{study.name}.json": json.dumps(_data(study, lines, conditions), indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in contents.items():
        (directory / name).write_text(text, "utf-8")
    return [directory / name for name in contents]


def _page(study: Study, lines: Sequence[Line], results: Sequence[Result]) -> str:
    tasks = len({result.spec.task for result in results})
    runs = len({result.spec.seed for result in results})
    simulated = any(line.row.simulated for line in lines)
    return document(
        study.asks,
        [
            f"<h1>{html.escape(study.asks)}</h1>",
            f"<p class='soft'>{len(results)} runs: {tasks} tasks, up to {runs} runs of each in each arm.</p>",
            simulated_notice([line.row for line in lines]),
            *_pictures(study, lines, results),
            chapter(
                "Figures",
                FIGURES.format(against=html.escape(study.against)),
                table(COLUMNS, [cells_of(study, line, lines) for line in lines]),
            ),
            "<h2>What may be concluded</h2>",
            f"<p>It shows {html.escape(study.shows)}.</p>",
            f"<p>It doesn't show {html.escape(study.not_shown)}.</p>" if simulated else "",
            f"<p>{BUDGET}</p>",
        ],
    )


def _pictures(study: Study, lines: Sequence[Line], results: Sequence[Result]) -> Iterator[str]:
    cells = [line.cell for line in lines]
    paint = colours(cells)
    if "lines" in study.pictures:
        shades = colours([Cell(arm, "", "") for arm in study.arms])
        points = [(line.cell.arm, study.level(line.cell.model), line.success) for line in lines]
        yield _caption(f"Success over {study.knob}; pale lines are 95 % intervals over tasks.")
        yield level_chart(points, {cell.arm: colour for cell, colour in shades.items()}, study.knob)
    if "growth" in study.pictures and growth(results):
        yield _caption("What the notes in the context take after each rewind, on average.")
        yield growth_chart(growth(results), paint)
    if "costs" in study.pictures:
        yield _caption("Success, and all tokens of an arm by the number of its successes.")
        yield pareto_chart([line.spent for line in lines], paint)
        yield _caption("The share of runs that had succeeded by so many calls: every arm under an equal budget.")
        yield curve_chart(curves(results), paint, "success")
        yield budgets(within(results), cells)
    if "intervals" in study.pictures:
        yield _caption("Success, with 95 % intervals over tasks.")
        yield interval_chart([(label(study, line.cell, cells), line.success) for line in lines])


def _caption(said: str) -> str:
    return f"<p class='soft'>{html.escape(said)}</p>"


def label(study: Study, cell: Cell, cells: Sequence[Cell]) -> str:
    """An arm by what tells it from the others; at a level of a knob, by that in place of the model."""
    if not study.knob:
        return named(cell, cells)
    others = [replace(item, model="") for item in cells]
    return f"{named(replace(cell, model=''), others)} · {study.knob} {study.level(cell.model):g}"


def cells_of(study: Study, line: Line, lines: Sequence[Line]) -> tuple[str, ...]:
    """A line of the table."""
    facts = line.row.facts
    difference = line.difference
    return (
        label(study, line.cell, [item.cell for item in lines]),
        str(len(line.row.results)),
        _percent(line.success),
        "" if difference is None else _percent(difference.difference, sign="+"),
        interval(line.spent.nodes),
        "" if difference is None else probability(difference.p_exact),
        f"{100 * line.row.progress[0]:.1f}",
        f"{facts['nodes']:.1f}",
        interval(line.spent.tokens),
        f"{facts['rewinds']:.2f}",
        f"{facts['held']:.2f}",
        str(line.wrong) if line.wrong else "",
    )


def _percent(found: Interval, *, sign: str = "") -> str:
    value, low, high = (f"{100 * each:{sign}.1f}" for each in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def _facts(line: Line) -> dict[str, Json]:
    return {
        **line.row.facts,
        "success_low": line.success.low,
        "success_high": line.success.high,
        "nodes_per_success": _finite(line.spent.nodes.value),
        "tokens_per_success": _finite(line.spent.tokens.value),
        "told_wrongly": line.wrong,
        "difference": None if line.difference is None else line.difference.difference.value,
        "difference_low": None if line.difference is None else line.difference.difference.low,
        "difference_high": None if line.difference is None else line.difference.difference.high,
        "p_exact": None if line.difference is None else line.difference.p_exact,
    }


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value


def _csv(lines: Sequence[Line]) -> str:
    out = io.StringIO()
    rows = [_facts(line) for line in lines]
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _data(study: Study, lines: Sequence[Line], conditions: Json) -> Mapping[str, Json]:
    return {
        "study": to_plain(study),
        "against": study.against,
        "arms": [_facts(line) for line in lines],
        "conditions": conditions,
    }
