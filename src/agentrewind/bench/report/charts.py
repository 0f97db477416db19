"""The pictures of the report, from folds over results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agentrewind.bench.analysis import Curve, Growth, Spent, Third, pareto
from agentrewind.bench.comparing import Comparison
from agentrewind.bench.report.svg import Plot, drawing, legend, tag, text, ticks, titled
from agentrewind.bench.results import Result
from agentrewind.bench.statistics import Interval
from agentrewind.bench.table import Cell
from agentrewind.core.look import colour_of

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
WIDE = 900


def colours(cells: Sequence[Cell]) -> dict[Cell, str]:
    return {cell: colour_of(place) for place, cell in enumerate(dict.fromkeys(cells))}


def named(cell: Cell, cells: Sequence[Cell]) -> str:
    """A cell by what tells it from the others."""
    parts = [cell.arm]
    if len({item.harness for item in cells}) > 1:
        parts.append(cell.harness)
    if len({item.model for item in cells}) > 1:
        parts.append(cell.model)
    return " · ".join(parts)


def curve_chart(found: Sequence[Curve], paint: Mapping[Cell, str], metric: str) -> str:
    """Success or progress over the length of the trace."""
    cells = [item.cell for item in found]
    xs = ticks(max((item.nodes[-1] for item in found), default=1))
    plot = Plot(60, 28, 560, 240, (0, xs[-1]), (0, 1))
    parts = [plot.frame(xs, SHARES, x_label="LLM and tool calls", y_label=metric)]
    for item in found:
        values = item.success if metric == "success" else item.progress
        line = plot.line([*zip(item.nodes, values, strict=True), (xs[-1], values[-1])], paint[item.cell])
        parts.append(titled(line, f"{named(item.cell, cells)}: {100 * values[-1]:.1f} % at the end"))
    parts.append(legend(650, 36, [(named(cell, cells), paint[cell]) for cell in cells]))
    return drawing(WIDE, 320, parts, f"{metric} over the length of the trace")


def forest(found: Sequence[Comparison]) -> str:
    """The paired differences with their intervals."""
    height = 60 + 26 * len(found)
    reach = max((abs(edge) for item in found for edge in (item.difference.low, item.difference.high)), default=0.1)
    edge = max(math.ceil(reach * 10) / 10, 0.1)
    plot = Plot(300, 24, 300, height - 64, (-edge, edge), (0, 1))
    parts = []
    for value in (-edge, -edge / 2, 0.0, edge / 2, edge):
        parts.append(tag("line", x1=plot.x(value), x2=plot.x(value), y1=16, y2=height - 34, class_="grid"))
        parts.append(text(plot.x(value), height - 16, f"{100 * value:+.0f}", anchor="middle"))
    parts.append(tag("line", x1=plot.x(0), x2=plot.x(0), y1=16, y2=height - 34, class_="axis"))
    cells = [cell for item in found for cell in (item.left, item.right)]
    for place, item in enumerate(found):
        y = 32 + 26 * place
        low, value, high = (plot.x(each) for each in (item.difference.low, item.difference.value, item.difference.high))
        row = tag("line", x1=low, x2=high, y1=y, y2=y, stroke=colour_of(0), stroke_width=2)
        row += tag("circle", cx=value, cy=y, r=5, fill=colour_of(0))
        said = " to ".join(f"{100 * edge:+.1f}" for edge in (item.difference.low, item.difference.high))
        parts += [
            text(290, y + 4, f"{item.metric}: against {named(item.right, cells)}", anchor="end"),
            titled(row, said),
            text(615, y + 4, f"{100 * item.difference.value:+.1f}   r {item.ranks.r:+.2f}   p (Holm) {_p(item.holm)}"),
        ]
    parts.append(
        text(plot.x(0), 10, "points of difference, 95 % bootstrap over tasks", anchor="middle", class_="label")
    )
    return drawing(WIDE, height, parts, "paired differences")


def _p(value: float | None) -> str:
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"  # noqa: PLR2004


def pareto_chart(spent: Sequence[Spent], paint: Mapping[Cell, str]) -> str:
    """Success against what a success costs; the line joins those that nothing beats."""
    cells = [item.cell for item in spent]
    known = [item for item in spent if math.isfinite(item.tokens.value)]
    xs = ticks(max((item.tokens.high for item in known if math.isfinite(item.tokens.high)), default=1))
    plot = Plot(60, 28, 560, 240, (0, xs[-1]), (0, 1))
    parts = [plot.frame(xs, SHARES, x_label="tokens for each success", y_label="success")]
    front = pareto(known)
    parts.append(plot.line([(item.tokens.value, item.success) for item in front], "#9999"))
    for item in known:
        y = plot.y(item.success)
        bar = tag("line", x1=plot.x(item.tokens.low), x2=min(plot.x(item.tokens.high), 620.0), y1=y, y2=y,
                  stroke=paint[item.cell], stroke_width=1.5)  # fmt: skip
        dot = tag("circle", cx=plot.x(item.tokens.value), cy=y, r=6, fill=paint[item.cell])
        said = (
            f"{named(item.cell, cells)}: {100 * item.success:.1f} %, {item.tokens.value:,.0f} tokens for each success"
        )
        parts.append(titled(bar + dot, said))
    parts.append(legend(650, 36, [(named(cell, cells), paint[cell]) for cell in cells]))
    return drawing(WIDE, 320, parts, "success and what it costs")


def interval_chart(found: Sequence[tuple[str, Interval]]) -> str:
    """Shares with their intervals, a row for each."""
    height = 64 + 24 * len(found)
    plot = Plot(330, 24, 400, height - 64, (0, 1), (0, 1))
    parts = []
    for value in SHARES:
        parts.append(tag("line", x1=plot.x(value), x2=plot.x(value), y1=16, y2=height - 34, class_="grid"))
        parts.append(text(plot.x(value), height - 16, f"{100 * value:.0f}%", anchor="middle"))
    for place, (name, share) in enumerate(found):
        y = 32 + 24 * place
        row = tag("line", x1=plot.x(share.low), x2=plot.x(share.high), y1=y, y2=y, stroke=colour_of(0), stroke_width=2)
        row += tag("circle", cx=plot.x(share.value), cy=y, r=5, fill=colour_of(0))
        low, high = (f"{100 * each:.1f}" for each in (share.low, share.high))
        parts += [
            text(320, y + 4, name, anchor="end"),
            titled(row, f"{name}: {100 * share.value:.1f} % ({low} to {high})"),
            text(745, y + 4, f"{100 * share.value:.1f} %"),
        ]
    return drawing(WIDE, height, parts, "success of each arm, with 95 % intervals over tasks")


def level_chart(found: Sequence[tuple[str, float, Interval]], paint: Mapping[str, str], knob: str) -> str:
    """Success at each level of a knob, a line for each arm, with its intervals side by side."""
    plot = Plot(60, 28, 560, 240, (0, 1), (0, 1))
    levels = sorted({level for _, level, _ in found})
    parts = [plot.frame(levels, SHARES, x_label=knob, y_label="success")]
    for place, (arm, colour) in enumerate(paint.items()):
        aside = 5 * (place - (len(paint) - 1) / 2)
        points = sorted((level, share) for name, level, share in found if name == arm)
        parts.append(plot.line([(level, share.value) for level, share in points], colour))
        for level, share in points:
            x, low, high = plot.x(level) + aside, plot.y(share.low), plot.y(share.high)
            shape = tag("line", x1=x, x2=x, y1=low, y2=high, stroke=colour, stroke_opacity=0.45)
            shape += tag("circle", cx=plot.x(level), cy=plot.y(share.value), r=4, fill=colour)
            parts.append(titled(shape, f"{arm}, {knob} {level:g}: {100 * share.value:.1f} %"))
    parts.append(legend(650, 36, list(paint.items())))
    return drawing(WIDE, 320, parts, f"success over {knob}")


def thirds_chart(found: Sequence[Third], paint: Mapping[Cell, str]) -> str:
    """Success by thirds of the trace length that `continue` has on a task."""
    cells = list(dict.fromkeys(item.cell for item in found))
    numbers = sorted({item.third for item in found})
    plot = Plot(60, 28, 560, 220, (0, len(numbers)), (0, 1))
    parts = [plot.frame((), SHARES, x_label="", y_label="success")]
    wide = plot.width / max(len(numbers), 1)
    bar = 0.8 * wide / max(len(cells), 1)
    for item in found:
        left = plot.left + numbers.index(item.third) * wide + 0.1 * wide + cells.index(item.cell) * bar
        top = plot.y(item.success)
        shape = tag("rect", x=left, y=top, width=bar * 0.9, height=plot.y(0) - top, fill=paint[item.cell])
        middle = left + bar * 0.45
        shape += tag("line", x1=middle, x2=middle, y1=plot.y(item.low), y2=plot.y(item.high), class_="axis")
        said = f"{named(item.cell, cells)}: {100 * item.success:.1f} % of {item.tasks} tasks"
        parts.append(titled(shape, said))
    names = ("short", "medium", "long")
    parts += [
        text(plot.left + (place + 0.5) * wide, 268, names[number], anchor="middle")
        for place, number in enumerate(numbers)
    ]
    parts.append(legend(650, 36, [(named(cell, cells), paint[cell]) for cell in cells]))
    return drawing(WIDE, 290, parts, "success by thirds of trace length")


def growth_chart(found: Sequence[Growth], paint: Mapping[Cell, str]) -> str:
    """What the notes take from rewind to rewind."""
    cells = list(dict.fromkeys(item.cell for item in found))
    xs = ticks(max((item.rewind for item in found), default=1))
    ys = ticks(max((item.most for item in found), default=1))
    plot = Plot(60, 28, 560, 240, (0, xs[-1]), (0, ys[-1]))
    parts = [plot.frame(xs, ys, x_label="rewind of a run", y_label="tokens of notes", percent=False)]
    for cell in cells:
        points = [(float(item.rewind), item.mean) for item in found if item.cell == cell]
        parts.append(plot.line(points, paint[cell]))
        parts += [tag("circle", cx=plot.x(x), cy=plot.y(y), r=3, fill=paint[cell]) for x, y in points]
    parts.append(legend(650, 36, [(named(cell, cells), paint[cell]) for cell in cells]))
    return drawing(WIDE, 320, parts, "growth of memory")


def heat_map(results: Sequence[Result], cells: Sequence[Cell]) -> str:
    """Task by strategy: the share of solved runs by shade, each run as a dot that leads to it."""
    tasks = sorted({result.spec.task for result in results})
    left, high, wide = 220, 30, max(90, min(150, 640 // max(len(cells), 1)))
    parts = [
        text(left + wide * (place + 0.5), 14 + 12 * (place % 2), named(cell, cells), anchor="middle", class_="small")
        for place, cell in enumerate(cells)
    ]
    for row, task in enumerate(tasks):
        y = 36 + row * high
        parts.append(text(left - 8, y + 19, task, anchor="end"))
        for place, cell in enumerate(cells):
            runs = [item for item in results if item.spec.task == task and Cell.of(item) == cell]
            parts.append(_square(runs, left + wide * place, y, wide - 2, high - 2))
    return drawing(max(WIDE, left + wide * len(cells) + 10), 44 + high * len(tasks), parts, "tasks by strategies")


def _square(runs: Sequence[Result], x: float, y: float, wide: float, high: float) -> str:
    counted = [run for run in runs if run.counts]
    if not counted:
        return tag("rect", x=x, y=y, width=wide, height=high, class_="none")
    share = sum(run.success for run in counted) / len(counted)
    parts = [tag("rect", x=x, y=y, width=wide, height=high, fill=colour_of(0), fill_opacity=0.08 + 0.62 * share, rx=3)]
    step = min(16.0, wide / len(counted))
    for place, run in enumerate(sorted(counted, key=lambda item: item.spec.seed)):
        dot = tag("circle", cx=x + 10 + step * place, cy=y + high / 2, r=5, class_="won" if run.success else "lost")
        said = f"run {run.spec.seed}: {run.satisfied}/{run.total}, {run.nodes} nodes, {len(run.moves)} rewinds"
        parts.append(tag("a", titled(dot, said), href=f"#{anchor_of(run)}"))
    return "".join(parts)


def anchor_of(run: Result) -> str:
    return "run-" + "".join(letter if letter.isalnum() else "-" for letter in run.spec.key)
