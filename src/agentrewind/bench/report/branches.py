"""A run with its branches: what was kept, what was given up, where it went on, and how far each submission came."""

from __future__ import annotations

import html

from agentrewind.bench.analysis import Segment, segments
from agentrewind.bench.report.svg import drawing, tag, text, titled
from agentrewind.bench.results import Result, Submission
from agentrewind.core.look import colour_of

LEFT, WIDE, HIGH = 60, 780, 34
CLASSES = {"satisfied": "yes", "failed": "no", "error": "error"}


def branch_view(run: Result) -> str:
    """One row for each branch, from left to right by nodes; under it the criteria at each submission."""
    parts = segments(run)
    scale = WIDE / max(run.nodes, 1)
    drawn = [_row(run, part, place, scale) for place, part in enumerate(parts)]
    height = 24 + HIGH * len(parts)
    return drawing(LEFT + WIDE + 40, height, drawn, f"branches of run {run.spec.seed} on {run.spec.task}") + _bars(run)


def _row(run: Result, part: Segment, place: int, scale: float) -> str:
    y = 8 + HIGH * place
    start, middle, end = (LEFT + scale * at for at in (part.start, part.start + part.kept, part.end))
    shapes = [text(0, y + 15, f"b{part.branch}", class_="small")]
    if place:
        shapes.append(tag("line", x1=start, x2=start, y1=y - HIGH + 20, y2=y, class_="fork"))
        said = f"{part.by} went back here; {part.memory} tokens of notes were brought"
        shapes.append(titled(tag("circle", cx=start, cy=y + 10, r=4, fill=colour_of(1)), said))
    shapes.append(titled(
        tag("rect", x=start, y=y + 4, width=max(middle - start, 0.5), height=12, fill=colour_of(0), rx=2),
        f"{part.kept} nodes that stand",
    ))  # fmt: skip
    if end > middle:
        shapes.append(titled(
            tag("rect", x=middle, y=y + 4, width=end - middle, height=12, class_="gone", rx=2),
            f"{part.end - part.start - part.kept} nodes that were given up",
        ))  # fmt: skip
    for item in run.submissions:
        if part.start < item.nodes <= part.end:
            x = LEFT + scale * item.nodes
            shapes.append(titled(
                tag("line", x1=x, x2=x, y1=y, y2=y + 20, class_="won" if item.satisfied == item.total else "lost"),
                f"after {item.nodes} nodes: {item.satisfied}/{item.total} {item.first_failure}",
            ))  # fmt: skip
    return "".join(shapes)


def _bars(run: Result) -> str:
    rows = "".join(_bar(number, item) for number, item in enumerate(run.submissions, 1))
    return f"<table class='bars'>{rows}</table>" if rows else ""


def _bar(number: int, item: Submission) -> str:
    cells = "".join(
        f"<td class='{CLASSES[outcome]}' title='{html.escape(name)}: {outcome}'>{html.escape(name)}</td>"
        for name, outcome in item.criteria.items()
    )
    return f"<tr><th>{number}</th><td class='at'>{item.nodes} nodes, {item.satisfied}/{item.total}</td>{cells}</tr>"
