"""What an evaluation found, drawn: one picture a question. Needs matplotlib (the extra `bench`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentrewind.core.errors import UsageError
from agentrewind.core.look import LIGHT, SERIES, colour_of
from agentrewind.learn.scores import (
    LENGTHS,
    Score,
    Summary,
    across,
    attempts_of,
    by_length,
    cell_of,
    difficulty_of,
    kind_of,
    summaries,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDED = "The plots need matplotlib: `pip install 'agentrewind[bench]'`."
WIDE, HIGH, LEGEND = 3.6, 3.0, 1.2
"""Inches: of one panel, and for the legend beside all."""
IN_A_ROW = 3
Line = tuple[str, list[tuple[str, float, float]]]
"""A name, and for each place on the horizontal axis a share and its deviation."""


def figures(scores: Sequence[Score]) -> dict[str, Figure]:
    """The pictures that the scores are enough for, by name.

    Raises:
        UsageError: matplotlib isn't installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UsageError(NEEDED) from error
    with mpl.rc_context(look()):
        made = ((name, draw(scores)) for name, draw in _PICTURES.items())
        return {name: figure for name, figure in made if figure is not None}


def look() -> dict[str, Any]:
    """Matplotlib's settings for a picture that looks like our pages."""
    from matplotlib.rcsetup import cycler

    ink, soft = LIGHT["ink"], LIGHT["soft"]
    return {
        "font.size": 9, "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": soft,
        "xtick.color": soft, "ytick.color": soft, "xtick.labelcolor": ink, "ytick.labelcolor": ink,
        "grid.color": LIGHT["line"], "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=SERIES), "figure.facecolor": LIGHT["panel"],
    }  # fmt: skip


def _success(scores: Sequence[Score]) -> Figure:
    """Every environment and their mean, one bar a protocol, with the deviation over seeds."""
    found = summaries(scores)
    whole = across(scores) if len({kind_of(item.environment) for item in scores}) > 1 else []
    names = _names(found)
    lines = {name: (name, list[tuple[str, float, float]]()) for name in dict.fromkeys(names.values())}
    for item in (*found, *whole):
        lines[names[_series(item)]][1].append((item.cell.environment, item.success, item.deviation))
    bars = list(lines.values())
    figure, (axes,) = _panels(1, 0.4 + 0.28 * len(_places(bars)))
    _bars(axes, bars)
    axes.set_title("solved, mean over seeds ± deviation", fontsize=9)
    return _with_legend(figure)


def _lengths(scores: Sequence[Score]) -> Figure | None:
    parted = {name: by_length(mine) for name, mine in _by_environment(scores)}
    parted = {name: groups for name, groups in parted.items() if len(groups) > 1}
    if not parted:
        return None
    figure, panels = _panels(len(parted))
    for axes, (name, groups) in zip(panels, parted.items(), strict=True):
        ordered = sorted(groups.items(), key=lambda item: LENGTHS.index(item[0].split(" (")[0]))
        _lines(axes, _series_along(ordered))
        axes.set_title(f"{name}: solved by reference length", fontsize=9)
    return _with_legend(figure)


def _difficulty(scores: Sequence[Score]) -> Figure | None:
    """One panel for each kind of world that was played in several sizes."""
    kinds = {
        kind: [(name.partition(":")[2], mine) for name, mine in sorted(group, key=lambda item: difficulty_of(item[0]))]
        for kind, group in groupby(sorted(_by_environment(scores)), key=lambda item: kind_of(item[0]))
    }
    kinds = {kind: group for kind, group in kinds.items() if len(group) > 1}
    if not kinds:
        return None
    figure, panels = _panels(len(kinds))
    for axes, (kind, group) in zip(panels, kinds.items(), strict=True):
        _lines(axes, _series_along(group))
        axes.set_title(f"{kind}: solved by difficulty", fontsize=9)
        axes.set_xlabel(_DIFFICULTY.get(kind, ""))
    return _with_legend(figure)


def _attempts(scores: Sequence[Score]) -> Figure | None:
    """One line an environment, from one attempt with ways back on."""
    tries = [item for item in scores if attempts_of(item.protocol)]
    if len({item.protocol for item in tries}) < 2:  # noqa: PLR2004
        return None
    figure, (axes,) = _panels(1, 1.3)
    ordered = sorted(tries, key=lambda item: attempts_of(item.protocol))
    groups = [(str(number), list(group)) for number, group in groupby(ordered, lambda i: attempts_of(i.protocol))]
    _lines(axes, _series_along(groups, _series_of_environment))
    axes.set_title("solved by the number of attempts", fontsize=9)
    axes.set_xlabel("attempts")
    return _with_legend(figure)


def _exploration(scores: Sequence[Score]) -> Figure:
    """How far trials went: distinct states, and actions of those that solved it."""
    figure, panels = _panels(2, max(1.0, 0.28 * len({item.environment for item in scores})))
    facts: tuple[tuple[str, Callable[[Score], int | None]], ...] = (
        ("distinct states visited", lambda item: item.states),
        ("actions to success", lambda item: item.actions if item.solved else None),
    )
    for axes, (title, of) in zip(panels, facts, strict=True):
        _boxes(axes, scores, of)
        axes.set_title(f"{title}: median, quartiles, 5 to 95 %", fontsize=9)
    return _with_legend(figure)


_PICTURES: dict[str, Callable[[Sequence[Score]], Figure | None]] = {
    "success": _success,
    "by_length": _lengths,
    "by_difficulty": _difficulty,
    "by_attempts": _attempts,
    "exploration": _exploration,
}
_DIFFICULTY = {"minesweeper": "size : mines", "sokoban": "size : boxes"}


def _panels(count: int, wider: float = 1.0) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    rows = -(-count // IN_A_ROW)
    size = (WIDE * min(count, IN_A_ROW) * wider + LEGEND, HIGH * rows)
    figure = Figure(figsize=size, layout="constrained", dpi=120)
    grid = figure.subplots(rows, min(count, IN_A_ROW), squeeze=False)
    panels: list[Axes] = [axes for row in grid for axes in row]
    for axes in panels[count:]:
        figure.delaxes(axes)
    return figure, panels[:count]


def _with_legend(figure: Figure) -> Figure:
    """One for all panels, beside them."""
    named = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named.keys(), loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _series(item: Summary) -> tuple[str, str, str]:
    return (item.cell.method, item.cell.policy, item.cell.protocol)


def _series_of_environment(item: Summary) -> tuple[str, ...]:
    return (item.cell.method, item.cell.policy, item.cell.environment)


def _names(found: Sequence[Summary], series: Callable[[Summary], tuple[str, ...]] = _series) -> dict[Any, str]:
    """For each series a name, of what isn't alike in all of them."""
    every = list(dict.fromkeys(map(series, found)))
    differing = [at for at in range(len(every[0])) if len({parts[at] for parts in every}) > 1] or [len(every[0]) - 1]
    return {parts: " ".join(parts[at] for at in differing) for parts in every}


def _series_along(
    groups: Sequence[tuple[str, Sequence[Score]]], series: Callable[[Summary], tuple[str, ...]] = _series
) -> list[Line]:
    """For each series its share in each of the groups."""
    every = [(place, item) for place, group in groups for item in summaries(group)]
    names = _names([item for _, item in every], series)
    lines: dict[str, Line] = {name: (name, []) for name in names.values()}
    for place, item in every:
        lines[names[series(item)]][1].append((place, item.success, item.deviation))
    return list(lines.values())


def _places(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(place for _, points in lines for place, _, _ in points))


def _bars(axes: Axes, lines: Sequence[Line]) -> None:
    places = _places(lines)
    width = 0.8 / len(lines)
    for number, (name, points) in enumerate(lines):
        at = [places.index(place) + (number - (len(lines) - 1) / 2) * width for place, _, _ in points]
        heights = [100 * share for _, share, _ in points]
        axes.bar(at, heights, width, yerr=[100 * spread for *_, spread in points], label=name, capsize=2)
    _percent(axes, places)


def _lines(axes: Axes, lines: Sequence[Line]) -> None:
    places = _places(lines)
    for name, points in lines:
        at = [places.index(place) for place, _, _ in points]
        heights = [100 * share for _, share, _ in points]
        spread = [100 * spread for *_, spread in points]
        axes.errorbar(at, heights, spread, label=name, marker="o", markersize=4, capsize=3)
    _percent(axes, places)


def _percent(axes: Axes, places: Sequence[str]) -> None:
    axes.set_xticks(range(len(places)), list(map(_broken, places)))
    axes.set_ylim(0, 105)
    axes.set_ylabel("solved, %")
    axes.grid(axis="y")


def _broken(place: str) -> str:
    """In two lines, where it has two parts: a world and its size, a length and its bound."""
    name, colon, rest = place.partition(":") if place[:1].isalpha() else (place, "", "")
    return f"{name}\n{rest}" if colon else place.replace(" (", "\n(")


def _boxes(axes: Axes, scores: Sequence[Score], of: Callable[[Score], int | None]) -> None:
    found = summaries(scores)
    names = _names(found)
    environments = list(dict.fromkeys(item.cell.environment for item in found))
    kinds = list(dict.fromkeys(names.values()))
    width = 0.8 / len(kinds)
    for item in found:
        values = [value for score in scores if cell_of(score) == item.cell and (value := of(score)) is not None]
        if values:
            number = kinds.index(names[_series(item)])
            at = environments.index(item.cell.environment) + (number - (len(kinds) - 1) / 2) * width
            _box(axes, at, width, values, colour_of(number))
    axes.set_xticks(range(len(environments)), list(map(_broken, environments)))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    for number, name in enumerate(kinds):
        axes.plot([], [], color=colour_of(number), linewidth=6, alpha=0.5, label=name)


def _box(axes: Axes, at: float, width: float, values: Sequence[int], colour: str) -> None:
    drawn = axes.boxplot(
        [values], positions=[at], widths=width * 0.8, whis=(5, 95), showfliers=False, patch_artist=True,
        manage_ticks=False, medianprops={"color": LIGHT["ink"]},
    )  # fmt: skip
    drawn["boxes"][0].set(facecolor=colour, alpha=0.5)


def _by_environment(scores: Sequence[Score]) -> Iterator[tuple[str, list[Score]]]:
    for name in dict.fromkeys(item.environment for item in scores):
        yield name, [item for item in scores if item.environment == name]
