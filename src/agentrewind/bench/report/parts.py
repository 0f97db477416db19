"""What the pages of a benchmark are made of: their style, tables, chapters, numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from agentrewind.bench.statistics import Interval
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


def document(title: str, body: Iterable[str]) -> str:
    """A whole page that needs nothing else."""
    head = (
        f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{html.escape(title)}</title>"
    )
    return (
        f"<!doctype html><html lang='en'><head>{head}<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def chapter(title: str, said: str, *parts: str) -> str:
    told = f"<p class='soft'>{said}</p>" if said else ""
    return f"<h2>{html.escape(title)}</h2>{told}{''.join(parts)}"


def probability(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if value >= 0.0001 else "< 0.0001"  # noqa: PLR2004


def interval(found: Interval | None) -> str:
    if found is None:
        return ""
    if not math.isfinite(found.value):
        return "no success"
    value, low, high = (_rounded(each) for each in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004
