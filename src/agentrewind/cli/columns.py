"""Rows in columns that keep what matters: each as wide as it needs, one gives way where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

GAP = 2
LEAST = 12
"""Columns that the one which gives way keeps in any case."""

Cell = str | Text


def show_columns(
    rows: Sequence[Sequence[Cell]], console: Console, *, flexible: int, right: Sequence[int] = (), header: bool = False
) -> None:
    """Print rows of equal length. Column `flexible` is cut where the line would be too long; `right` are numbers."""
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [
        max((row[column].cell_len for row in cells), default=0) for column in range(len(cells[0]) if cells else 0)
    ]
    used = sum(width + GAP for column, width in enumerate(widths) if column != flexible and width)
    if widths:
        widths[flexible] = min(widths[flexible], max(console.width - used, LEAST))
    for number, row in enumerate(cells):
        line = _line(row, _stretched(row, widths, flexible, console.width), right)
        if header and number == 0:
            line.stylize("dim")
        console.print(line, no_wrap=True, overflow="ellipsis")


def _stretched(row: Sequence[Text], widths: list[int], flexible: int, width: int) -> list[int]:
    """The widths for a row with nothing to the right of what gives way: that may then run to the end of the line."""
    if any(cell.cell_len for cell in row[flexible + 1 :]):
        return widths
    before = sum(column + GAP for column in widths[:flexible] if column)
    return [*widths[:flexible], max(width - before, LEAST), *(0 for _ in widths[flexible + 1 :])]


def _line(row: Sequence[Text], widths: Sequence[int], right: Sequence[int]) -> Text:
    parts: list[Text] = []
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        if not width:
            continue
        cut = cell.copy()
        cut.truncate(width, overflow="ellipsis")
        missing = width - cut.cell_len
        if column in right:
            cut.pad_left(missing)
        else:
            cut.pad_right(missing)
        parts.append(cut)
    line = Text(" " * GAP).join(parts)
    line.rstrip()
    return line
