"""`agentrewind doctor`: what works here, what is lost where something doesn't, and what to do."""

from __future__ import annotations

import os
from dataclasses import asdict
from itertools import groupby

import click
from rich.console import Console
from rich.text import Text

from agentrewind.cli.options import home_option, json_option
from agentrewind.cli.screen import glyphs, out
from agentrewind.compose.doctor import Finding, examined
from agentrewind.compose.home import Home
from agentrewind.compose.places import workspace_path
from agentrewind.ui.text import as_json, plural, printable

_STYLES = {"works": "green", "less": "yellow", "wrong": "bold red"}


@click.command(epilog="Example: agentrewind doctor")
@click.option("--workspace", default=".", show_default=True, metavar="DIR", help="The directory that is to be saved.")
@home_option
@json_option
@click.pass_context
def command(ctx: click.Context, workspace: str, allow_home: bool, as_object: bool) -> None:
    """Try what agentrewind stands on here: sandbox, storage, agents and SDKs, hooks.

    Makes nothing but agentrewind's own directory, and reaches no network. Ends with exit code 1 where something should
    be put right; what merely can't be had here is said, with what is lost.
    """
    home = Home.of()
    found = examined(home, workspace_path(workspace, home, allow_home=allow_home), os.environ)
    wrong = sum(item.state == "wrong" for item in found)
    if as_object:
        print(as_json({"ok": not wrong, "findings": [asdict(item) for item in found]}))
    else:
        _show(found, out())
    if wrong:
        ctx.exit(1)


def _show(found: list[Finding], console: Console) -> None:
    for group, items in groupby(found, key=lambda item: item.group):
        console.print(Text(group, style="bold"))
        for item in items:
            _line(item, console)
        console.print()
    wrong = sum(item.state == "wrong" for item in found)
    less = sum(item.state == "less" for item in found)
    if wrong:
        text = Text(f"{plural(wrong, 'thing')} should be put right.", style="bold red")
    else:
        text = Text("Nothing is wrong.", style="bold green")
    text.append(f" {plural(less, 'thing')} can't be had here." if less else "", style="not bold")
    console.print(text)


def _line(item: Finding, console: Console) -> None:
    signs = glyphs(console)
    sign = {"works": signs.yes, "less": signs.dot, "wrong": signs.no}[item.state]
    style = _STYLES[item.state]
    console.print(
        Text.assemble((f"  {sign:<3}", style), (f"{item.name:<20} ", ""), printable(item.what)), soft_wrap=True
    )
    for head, text in (("lost", item.lost), ("do", item.remedy)):
        if text:
            console.print(Text(f"{'':26}{head}: {printable(text)}", style="dim"), soft_wrap=True)
