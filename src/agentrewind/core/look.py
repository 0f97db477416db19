"""The colours in which everything of ours is drawn: the page of a run, reports and plots. For light and for dark."""

from __future__ import annotations

LIGHT = {
    "ink": "#17201f", "soft": "#56625f", "line": "#dfe4e3", "panel": "#ffffff", "bg": "#f7f8f8",
    "accent": "#0f766e", "back": "#92560b", "gone": "#8b9794", "good": "#166534", "bad": "#b42318",
}  # fmt: skip
DARK = {
    "ink": "#e6ecea", "soft": "#a9b5b2", "line": "#2b3433", "panel": "#171d1c", "bg": "#101514",
    "accent": "#4fc3b5", "back": "#e0a44b", "gone": "#6f7c78", "good": "#79d597", "bad": "#ff9d92",
}  # fmt: skip
"""Of the page's style sheet those that others use too: text, lesser text, lines, areas; what matters, a way back, what
was left, right and wrong."""

SERIES = ("#11857b", "#c8701f", "#3f75c0", "#a3568f", "#857530", "#4a8a3a", "#bd4f44", "#737373")
"""Of lines, bars and points, in this order: they stand out on both backgrounds, and from one another for most eyes."""

CSS = "\n".join(
    (
        f":root {{ color-scheme: light; {'; '.join(f'--{name}: {value}' for name, value in LIGHT.items())} }}",
        "@media (prefers-color-scheme: dark) {",
        f"  :root {{ color-scheme: dark; {'; '.join(f'--{name}: {value}' for name, value in DARK.items())} }}",
        "}",
    )
)
"""The colours as variables of a page."""


def colour_of(number: int) -> str:
    """The colour of the line with this number, from 0."""
    return SERIES[number % len(SERIES)]
