"""One page for a benchmark, which needs neither network nor scripts."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from agentrewind.bench.analysis import Repeats, Spent, Within, curves, growth, repeats, spending, thirds, within
from agentrewind.bench.comparing import Comparison
from agentrewind.bench.report.branches import branch_view
from agentrewind.bench.report.charts import (
    anchor_of,
    colours,
    curve_chart,
    forest,
    growth_chart,
    heat_map,
    named,
    pareto_chart,
    thirds_chart,
)
from agentrewind.bench.results import Result
from agentrewind.bench.statistics import Interval
from agentrewind.bench.table import Cell, Row, rows_of
from agentrewind.core.codec import Json
from agentrewind.core.look import CSS

STYLE = (
    f"{CSS}\n"
    """\
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1000px; padding: 2rem 1.25rem 4rem; background: var(--panel); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif }
h1 { font-size: 1.7rem; margin: 0 0 .25rem } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem }
p { max-width: 46rem } .soft, .small, caption { color: var(--soft) }
.warn { border-left: 4px solid var(--back); background: var(--bg); padding: .6rem 1rem; margin: 1rem 0 }
.scroll { overflow-x: auto } svg { max-width: 100%; height: auto; display: block; margin: .5rem 0 }
svg text { fill: var(--ink); font-size: 13px } svg .small { font-size: 11px; fill: var(--soft) }
svg .label { fill: var(--soft) } .grid { stroke: var(--line) } .axis { stroke: var(--soft) }
.fork { stroke: var(--back); stroke-dasharray: 3 3 } .gone { fill: var(--soft); fill-opacity: .35 }
.none { fill: var(--bg) } circle.won { fill: var(--good) }
circle.lost { fill: var(--panel); stroke: var(--bad); stroke-width: 2 }
line.won { stroke: var(--good); stroke-width: 3 } line.lost { stroke: var(--bad); stroke-width: 2 }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } thead th { color: var(--soft); font-weight: 600 }
.bars td, .bars th { padding: .1rem .4rem; font-size: 12px; border: 0; text-align: left }
.bars .yes { background: color-mix(in srgb, var(--good) 20%, transparent) }
.bars .no { background: color-mix(in srgb, var(--bad) 27%, transparent) }
.bars .error { background: color-mix(in srgb, var(--back) 27%, transparent) }
details { border-top: 1px solid var(--line); padding: .35rem 0 } summary { cursor: pointer }
code { font-size: .92em }
"""
)
MANY = 400
"""Of more runs than this the page shows only those that made a rewind or failed."""


def page(
    title: str, results: Sequence[Result], comparisons: Sequence[Comparison], conditions: Json, notes: Sequence[str]
) -> str:
    """The whole report. `notes` say what was left out and why; `conditions` is what was the same for all runs."""
    rows = rows_of(results)
    cells = [row.cell for row in rows]
    paint = colours(cells)
    counted = [result for result in results if result.counts]
    body = [
        f"<h1>{html.escape(title)}</h1>",
        _about(counted, cells),
        _simulated(rows),
        *(f"<p class='warn'>{html.escape(note)}</p>" for note in notes),
        "<h2>Results</h2>",
        _headline(rows),
        _chapter("Over the length of a run", "A run that has ended keeps what it reached.",
                 *(curve_chart(curves(results), paint, metric) for metric in ("success", "progress"))),
        _chapter("Under an equal budget", "The share of runs that had succeeded by so many LLM and tool calls.",
                 _budgets(within(results), cells)),
        _compared(comparisons),
        _chapter("What a success costs", "All tokens of a strategy, those of its failures too, by the number of its"
                 " successes, with a 95 % bootstrap interval over tasks. The line joins what nothing beats in both.",
                 pareto_chart(spending(results), paint), _costs(spending(results), cells)),
        _chapter("Task by task", "Each dot is a run: full where it succeeded. It leads to the run below.",
                 heat_map(counted, cells)),
        _chapter("By length of the task", "Thirds of each model's own distribution of <code>continue</code> trace"
                 " lengths; lines are the range over runs.", thirds_chart(thirds(results), paint)),
        _chapter("Memory", "What the notes in the context take after each rewind, the mean over the runs that made"
                 " so many.", growth_chart(growth(results), paint)) if growth(results) else "",
        _chapter("Repeated runs", "How often all runs of a task ended alike; what one of them, or all of them, reach.",
                 _repeated(repeats(results), cells)),
        "<h2>Runs</h2>",
        _runs(counted),
        _chapter("Conditions", "", _conditions(conditions)),
    ]  # fmt: skip
    head = (
        f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{html.escape(title)}</title>"
    )
    return (
        f"<!doctype html><html lang='en'><head>{head}<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _about(results: Sequence[Result], cells: Sequence[Cell]) -> str:
    tasks = len({result.spec.task for result in results})
    runs = len({result.spec.seed for result in results})
    return f"<p class='soft'>{len(results)} runs: {tasks} tasks, {len(cells)} arms, up to {runs} runs of each.</p>"


def _simulated(rows: Sequence[Row]) -> str:
    """On the first screen, where a policy is simulated."""
    found = sorted({(row.cell.model, row.simulated) for row in rows if row.simulated})
    if not found:
        return ""
    seeds = sorted({result.spec.seed for row in rows for result in row.results})
    names = ", ".join(f"{html.escape(model)} (knobs {digest})" for model, digest in found)
    return (
        f"<p class='warn'><strong>Simulated policy.</strong> {names}, seeds {seeds[0]} to {seeds[-1]}. Restores, costs"
        " and sensitivities are real; how often a policy errs, and how well it knows why, are numbers that somebody"
        " chose. This says nothing about any real model.</p>"
    )


def _headline(rows: Sequence[Row]) -> str:
    header = rows[0].header if rows else ()
    return _table(header, [row.cells for row in rows])


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _chapter(title: str, said: str, *parts: str) -> str:
    told = f"<p class='soft'>{said}</p>" if said else ""
    return f"<h2>{html.escape(title)}</h2>{told}{''.join(parts)}"


def _compared(found: Sequence[Comparison]) -> str:
    if not found:
        return ""
    header = ("metric", "against", "difference", "W", "pairs that differ", "r", "p", "p exact", "p Pratt", "p (Holm)",
              "p by runs", "won / lost", "McNemar")  # fmt: skip
    rows = [_comparison(item) for item in found]
    said = (
        f"{html.escape(found[0].left.arm)} against every other arm: two-sided Wilcoxon signed-rank tests on task means,"
        f" Holm over all {len(found)} tests here, r is the matched-pairs rank-biserial correlation. p exact counts all"
        " assignments of signs (up to 20 pairs). p by runs takes repeated runs for independent ones, which they aren't."
    )
    return _chapter("Paired differences", said, forest(found), _table(header, rows))


def _comparison(item: Comparison) -> tuple[str, ...]:
    return (
        item.metric,
        item.right.arm,
        f"{100 * item.difference.value:+.1f} ({100 * item.difference.low:+.1f} to {100 * item.difference.high:+.1f})",
        f"{item.ranks.w:g}",
        str(item.ranks.pairs),
        f"{item.ranks.r:+.2f}",
        *(_p(value) for value in (item.p, item.p_exact, item.p_pratt, item.holm, item.p_runs)),
        f"{item.won} / {item.lost}",
        _p(item.p_mcnemar),
    )


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if value >= 0.0001 else "< 0.0001"  # noqa: PLR2004


def _budgets(found: Sequence[Within], cells: Sequence[Cell]) -> str:
    header = ("arm", *(f"{nodes:,} nodes" for nodes, _ in found[0].shares)) if found else ()
    rows = [(named(item.cell, cells), *(f"{100 * share:.1f} %" for _, share in item.shares)) for item in found]
    return _table(header, rows)


def _costs(spent: Sequence[Spent], cells: Sequence[Cell]) -> str:
    rows = [
        (named(item.cell, cells), *(_interval(part) for part in (item.tokens, item.nodes, item.usd))) for item in spent
    ]
    return _table(("arm", "tokens for each success", "nodes for each success", "USD for each success"), rows)


def _interval(found: Interval | None) -> str:
    if found is None:
        return ""
    if not math.isfinite(found.value):
        return "no success"
    value, low, high = (_rounded(each) for each in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004


def _repeated(found: Sequence[Repeats], cells: Sequence[Cell]) -> str:
    rows = [
        (
            named(item.cell, cells),
            f"{item.alike} of {item.tasks}" if item.tasks else "",
            f"{100 * item.at_k:.1f} (k = {item.k})",
            f"{100 * item.all_k:.1f} (k = {item.k})",
        )
        for item in found
    ]
    return _table(("arm", "tasks whose runs ended alike", "pass@k", "pass^k"), rows)


def _runs(results: Sequence[Result]) -> str:
    shown = list(results)
    told = ""
    if len(shown) > MANY:
        shown = [result for result in results if result.moves or not result.success][:MANY]
        told = f"<p class='soft'>{len(shown)} of {len(results)} runs: those with a rewind or a failure.</p>"
    legend = (
        "<p class='soft'>A row for each branch: dark what stands, pale what was given up, a dot where the run went on."
        " Strokes are submissions; below, the verdict on each criterion.</p>"
    )
    return told + legend + "".join(map(_run, shown))


def _run(result: Result) -> str:
    spec = result.spec
    name = f"{spec.task} · {spec.arm} · {spec.harness} · {spec.model} · run {spec.seed}"
    came = "accepted" if result.success else f"{result.satisfied}/{result.total}"
    facts = f"{came}, {result.nodes} nodes, {len(result.moves)} rewinds, {result.tokens:,} tokens"
    inside = f"<p class='soft'>{html.escape(result.ended)} <code>{html.escape(result.run_id)}</code></p>"
    return (
        f"<details id='{anchor_of(result)}'><summary>{html.escape(name)}: {facts}</summary>"
        f"{inside}{branch_view(result)}</details>"
    )


def _conditions(conditions: Json) -> str:
    rows = [(str(key), str(value)) for key, value in conditions.items()] if isinstance(conditions, dict) else []
    return _table(("setting", "value"), rows)
