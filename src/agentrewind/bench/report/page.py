"""One page for a benchmark, which needs neither network nor scripts."""

from __future__ import annotations

import html
from collections.abc import Sequence

from agentrewind.bench.analysis import (
    Repeats,
    Spent,
    Within,
    curves,
    growth,
    regrets,
    repeats,
    spending,
    thirds,
    within,
)
from agentrewind.bench.comparing import Comparison
from agentrewind.bench.power import ASSUMED, DRAWS, power
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
from agentrewind.bench.report.parts import chapter, document, interval, probability, table
from agentrewind.bench.results import Result
from agentrewind.bench.table import Cell, Row, rows_of
from agentrewind.core.codec import Json

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
        simulated_notice(rows),
        *(f"<p class='warn'>{html.escape(note)}</p>" for note in notes),
        "<h2>Results</h2>",
        _headline(rows),
        chapter("Over the length of a run", "A run that has ended keeps what it reached.",
                *(curve_chart(curves(results), paint, metric) for metric in ("success", "progress"))),
        chapter("Under an equal budget", "The share of runs that had succeeded by so many LLM and tool calls.",
                budgets(within(results), cells)),
        _compared(comparisons),
        chapter("What a success costs", "All tokens of a strategy, those of its failures too, by the number of its"
                " successes, with a 95 % bootstrap interval over tasks. The line joins what nothing beats in both.",
                pareto_chart(spending(results), paint), _costs(spending(results), cells)),
        chapter("Task by task", "Each dot is a run: full where it succeeded. It leads to the run below.",
                heat_map(counted, cells)),
        chapter("By length of the task", "Thirds of each model's own distribution of <code>continue</code> trace"
                " lengths; lines are the range over runs.", thirds_chart(thirds(results), paint)),
        chapter("Memory", "What the notes in the context take after each rewind, the mean over the runs that made"
                " so many.", growth_chart(growth(results), paint)) if growth(results) else "",
        chapter("Repeated runs", "How often all runs of a task ended alike; what one of them, or all of them, reach.",
                _repeated(repeats(results), cells)),
        *_power(counted),
        *_regrets(rows, cells),
        "<h2>Runs</h2>",
        _runs(counted),
        chapter("Conditions", "", _conditions(conditions)),
    ]  # fmt: skip
    return document(title, body)


def _about(results: Sequence[Result], cells: Sequence[Cell]) -> str:
    tasks = len({result.spec.task for result in results})
    runs = len({result.spec.seed for result in results})
    return f"<p class='soft'>{len(results)} runs: {tasks} tasks, {len(cells)} arms, up to {runs} runs of each.</p>"


def simulated_notice(rows: Sequence[Row]) -> str:
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
    return table(header, [row.cells for row in rows])


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
    return chapter("Paired differences", said, forest(found), table(header, rows))


def _comparison(item: Comparison) -> tuple[str, ...]:
    return (
        item.metric,
        item.right.arm,
        f"{100 * item.difference.value:+.1f} ({100 * item.difference.low:+.1f} to {100 * item.difference.high:+.1f})",
        f"{item.ranks.w:g}",
        str(item.ranks.pairs),
        f"{item.ranks.r:+.2f}",
        *(probability(value) for value in (item.p, item.p_exact, item.p_pratt, item.holm, item.p_runs)),
        f"{item.won} / {item.lost}",
        probability(item.p_mcnemar),
    )


def budgets(found: Sequence[Within], cells: Sequence[Cell]) -> str:
    header = ("arm", *(f"{nodes:,} nodes" for nodes, _ in found[0].shares)) if found else ()
    rows = [(named(item.cell, cells), *(f"{100 * share:.1f} %" for _, share in item.shares)) for item in found]
    return table(header, rows)


def _costs(spent: Sequence[Spent], cells: Sequence[Cell]) -> str:
    rows = [
        (named(item.cell, cells), *(interval(part) for part in (item.tokens, item.nodes, item.usd))) for item in spent
    ]
    return table(("arm", "tokens for each success", "nodes for each success", "USD for each success"), rows)


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
    return table(("arm", "tasks whose runs ended alike", "pass@k", "pass^k"), rows)


def _power(results: Sequence[Result]) -> list[str]:
    """What so many tasks and runs can see; 24 tasks beside those that there are."""
    tasks = len({result.spec.task for result in results})
    runs = len({result.spec.seed for result in results})
    if not tasks:
        return []
    columns = sorted({runs, 3, 5, 10})
    rows = [(f"{number} tasks", *(f"{power(number, each):.2f}" for each in columns)) for number in sorted({tasks, 24})]
    said = ASSUMED.format(draws=f"{DRAWS:,}")
    return [chapter("What so many runs can see", said, table(("", *(f"{each} runs" for each in columns)), rows))]


def _regrets(rows: Sequence[Row], cells: Sequence[Cell]) -> list[str]:
    """What rewinds threw away, where somebody looked."""
    found = [(named(item.cell, cells), item) for item in regrets(rows)]
    if not found:
        return []
    said = (
        "The last point from which a tail of the reference still reaches everything, found by bisection, against the"
        " point that was gone back to. In vain: the calls at the end of a failed run after that point."
    )
    header = ("arm", "rewinds", "to a point that was lost already", "nodes thrown away (median)", "failed runs",
              "nodes in vain (median)")  # fmt: skip
    shown = [
        (name, str(item.rewinds), str(item.too_late), _number(item.thrown), str(item.failed), _number(item.in_vain))
        for name, item in found
    ]
    return [chapter("Regret", said, table(header, shown))]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


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
    return table(("setting", "value"), rows)
