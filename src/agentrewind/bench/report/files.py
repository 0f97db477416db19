"""Writing a report: the page, and the same numbers for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentrewind.bench.analysis import curves, growth, regrets, repeats, spending, thirds, within
from agentrewind.bench.comparing import Comparison, family
from agentrewind.bench.matrix import Place
from agentrewind.bench.report.page import page
from agentrewind.bench.results import RESULT, TOUCHED, Result, results_in
from agentrewind.bench.table import rows_of
from agentrewind.core.codec import Json, to_plain
from agentrewind.core.errors import UsageError

PAGE, TABLE, RUNS, DATA = "report.html", "table.csv", "runs.csv", "report.json"
_RUN_COLUMNS = ("success", "satisfied", "total", "nodes", "calls", "input_tokens", "output_tokens", "usd", "held")


def write_report(place: Place, against: str = "rewind") -> tuple[list[Path], list[str]]:
    """Write the report into the directory of the benchmark: the files, and what had to be left out.

    Raises:
        UsageError: there are no results.
    """
    results = results_in(place.root)
    comparisons, notes = _compared(results, against)
    notes += _left_out(place)
    conditions = conditions_of(place)
    contents = {
        PAGE: page(f"Benchmark {place.root.name}", results, comparisons, conditions, notes),
        TABLE: _csv(rows_of(results)[0].facts, [row.facts for row in rows_of(results)]) if rows_of(results) else "",
        RUNS: _runs(results),
        DATA: json.dumps(_data(results, comparisons, conditions, notes), indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in contents.items():
        (place.root / name).write_text(text, "utf-8")
    return [place.root / name for name in contents], notes


def _compared(results: Sequence[Result], against: str) -> tuple[list[Comparison], list[str]]:
    try:
        return family(results, against), []
    except UsageError as error:
        return [], [f"No tests were made: {error}"]


def _left_out(place: Place) -> list[str]:
    """What isn't counted, in sentences; each run that a person touched in one of its own."""
    lines = place.abnormal.read_text("utf-8").splitlines() if place.abnormal.exists() else []
    found: list[dict[str, str]] = [json.loads(line) for line in lines]
    touched = [item for item in found if item["why"].startswith(TOUCHED)]
    others = len(found) - len(touched)
    notes = [f"Not counted, as {place.abnormal.name} says: {others}."] if others else []
    return notes + [_touched(place, item) for item in touched]


def _touched(place: Place, item: Mapping[str, str]) -> str:
    again = "since made again" if (place.root / "runs" / item["run"] / RESULT).exists() else "not made again yet"
    return f"{item['run']} was {item['why']} ({item['at']}). It isn't counted, and was {again}."


def conditions_of(place: Place) -> Json:
    plan = to_plain(place.begun())
    flat = {key: value for key, value in plan.items() if key != "conditions"}
    return {**flat, **{key: value for key, value in (plan.get("conditions") or {}).items() if key != "tasks"}}


def _data(results: Sequence[Result], comparisons: Sequence[Comparison], conditions: Json, notes: Sequence[str]) -> Json:
    return {
        "cells": [row.facts for row in rows_of(results)],
        "comparisons": [_comparison(item) for item in comparisons],
        "spending": [_finite(to_plain(item)) for item in spending(results)],
        "curves": [to_plain(item) for item in curves(results)],
        "within": [to_plain(item) for item in within(results)],
        "thirds": [to_plain(item) for item in thirds(results)],
        "growth": [to_plain(item) for item in growth(results)],
        "repeats": [to_plain(item) for item in repeats(results)],
        "regrets": [to_plain(item) for item in regrets(rows_of(results))],
        "conditions": conditions,
        "notes": list(notes),
    }


def _comparison(item: Comparison) -> Json:
    return {**to_plain(item), "w": item.ranks.w, "r": item.ranks.r, "pairs": item.ranks.pairs}


def _finite(value: Json) -> Json:
    """JSON has no infinity: nothing stands for it."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value


def _csv(first: Json, rows: Sequence[Json]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(first), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _runs(results: Sequence[Result]) -> str:
    rows = [
        {
            **to_plain(item.spec),
            "counts": item.counts,
            **{name: getattr(item, name) for name in _RUN_COLUMNS},
            "rewinds": len(item.moves),
            "submissions": len(item.submissions),
            "simulated": item.simulated,
            "run_id": item.run_id,
        }
        for item in results
    ]
    return _csv(rows[0], rows)
