"""Drawings as SVG text: shapes, and axes between two ranges."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; `_` in a name stands for `-`, and a name's last `_` is dropped."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_said(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def _said(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, said: str, *, anchor: str = "start", class_: str = "") -> str:
    more = {"class": class_} if class_ else {}
    return tag("text", html.escape(said), x=x, y=y, text_anchor=anchor, **more)


def titled(shape: str, title: str) -> str:
    """A shape that says something when it is pointed at."""
    return tag("g", f"{tag('title', html.escape(title))}{shape}")


def drawing(width: int, height: int, parts: Iterable[str], label: str) -> str:
    """The whole picture; `label` is for those who can't see it."""
    return tag("svg", "".join(parts), viewBox=f"0 0 {width} {height}", width=width, role="img", aria_label=label)


_MANY = 10_000


@dataclass(frozen=True, slots=True)
class Plot:
    """A rectangle in which x and y of two ranges are drawn."""

    left: float
    top: float
    width: float
    height: float
    xs: tuple[float, float]
    ys: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.xs
        return self.left + self.width * (value - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        low, high = self.ys
        return self.top + self.height * (1 - (value - low) / ((high - low) or 1))

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> str:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return tag("polyline", points=path, fill="none", stroke=colour, stroke_width=2)

    def frame(
        self, xs: Sequence[float], ys: Sequence[float], *, x_label: str, y_label: str, percent: bool = True
    ) -> str:
        """Grid, numbers and labels."""
        bottom, right = self.top + self.height, self.left + self.width
        parts = [tag("line", x1=self.left, x2=right, y1=self.y(value), y2=self.y(value), class_="grid") for value in ys]
        parts += [
            text(self.left - 6, self.y(value) + 4, f"{100 * value:.0f}%" if percent else _round(value), anchor="end")
            for value in ys
        ]
        parts += [text(self.x(value), bottom + 16, _round(value), anchor="middle") for value in xs]
        parts.append(tag("line", x1=self.left, x2=right, y1=bottom, y2=bottom, class_="axis"))
        parts.append(text((self.left + right) / 2, bottom + 34, x_label, anchor="middle", class_="label"))
        parts.append(text(self.left - 6, self.top - 12, y_label, anchor="start", class_="label"))
        return "".join(parts)


def ticks(high: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to at least `high`."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / count
    size = 10 ** (len(str(int(raw))) - 1) if raw >= 1 else 10 ** -_places(raw)
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10, 20) if size * factor >= raw)
    number = int(-(-high // step))
    return [step * at for at in range(number + 1)]


def _places(value: float) -> int:
    places = 0
    while value < 1:
        value *= 10
        places += 1
    return places


def _round(value: float) -> str:
    if value >= _MANY:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def legend(left: float, top: float, names: Sequence[tuple[str, str]]) -> str:
    """Names with their colours, one below another."""
    return "".join(
        tag("rect", x=left, y=top + 18 * place, width=12, height=12, fill=colour, rx=2)
        + text(left + 18, top + 18 * place + 10, name)
        for place, (name, colour) in enumerate(names)
    )
