"""`agentrewind paths`: what of a directory is saved."""

from __future__ import annotations

from collections import defaultdict

import click

from agentrewind.cli.columns import show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import out
from agentrewind.compose.home import Home
from agentrewind.compose.places import workspace_path
from agentrewind.compose.secret import SETTINGS_FILE
from agentrewind.compose.worlds import unsaved
from agentrewind.core.codec import Json
from agentrewind.core.sizes import size
from agentrewind.snapshots.rules import PathClass
from agentrewind.ui.text import as_json, printable

NAMED = 10
HEADER = ("class", "paths", "size", "meaning")
_MEANING = {
    PathClass.TRACKED: "saved and brought back",
    PathClass.PRIVATE: "saved encrypted, brought back, never shown",
    PathClass.EXCLUDED: "not saved, left as it is",
    PathClass.VOLATILE: "not saved, removed where it is stale",
}


@click.command(epilog="Example: agentrewind paths .")
@click.argument("directory", metavar="[DIR]", default=".")
@json_option
def command(directory: str, as_object: bool) -> None:
    """Show what of a directory falls in which class: saved, private, excluded or volatile, with sizes.

    Patterns in an `agentrewind.toml` there change it: `[paths]` with the lists `private`, `excluded`, `volatile`.
    """
    root = workspace_path(directory, Home.of(), allow_home=True)
    found: dict[PathClass, list[tuple[str, int]]] = defaultdict(list)
    with unsaved(root) as world:
        for path, kind, length in world.paths():
            found[kind].append((path, length))
    if as_object:
        print(as_json({kind.value: _facts(kind, found[kind]) for kind in PathClass}))
        return
    console = out()
    rows = [_row(kind, found[kind]) for kind in PathClass]
    show_columns([HEADER, *rows], console, flexible=3, right=(1, 2), header=True)
    for kind in (PathClass.PRIVATE, PathClass.EXCLUDED, PathClass.VOLATILE):
        names = sorted(path for path, _ in found[kind])
        if names:
            console.print()
            console.print(f"{kind.value}:", style="bold")
        for name in names[:NAMED]:
            console.print(f"  {printable(name)}", overflow="fold")
        if len(names) > NAMED:
            console.print(f"  and {len(names) - NAMED:,} more")
    console.print(f"\nPatterns in {SETTINGS_FILE} change this; `--json` lists all of these.", style="dim")


def _row(kind: PathClass, paths: list[tuple[str, int]]) -> tuple[str, ...]:
    return kind.value, f"{len(paths):,}", size(sum(length for _, length in paths)), _MEANING[kind]


def _facts(kind: PathClass, paths: list[tuple[str, int]]) -> Json:
    """Tracked paths are the rest: their number is enough."""
    total = {"paths": len(paths), "bytes": sum(length for _, length in paths)}
    return total if kind is PathClass.TRACKED else {**total, "items": sorted(path for path, _ in paths)}
