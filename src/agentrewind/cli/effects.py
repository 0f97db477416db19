"""`agentrewind effects`: what a command would do that a rewind can't undo."""

from __future__ import annotations

import click
from rich.text import Text

from agentrewind.cli.options import json_option
from agentrewind.cli.screen import out
from agentrewind.compose.effects import classifier
from agentrewind.compose.places import named
from agentrewind.core.codec import to_plain
from agentrewind.core.effects import Effect, overall
from agentrewind.ui.text import as_json, printable

STYLES = {"read": "dim", "workspace": "green", "unknown": "yellow", "outside": "red", "external": "red"}


@click.command(epilog="Example: agentrewind effects 'git commit -am done && git push'")
@click.argument("text", metavar="COMMAND")
@click.option("--workspace", "-w", default=".", help="The directory that it would run in.", show_default=True)
@json_option
def command(text: str, workspace: str, as_object: bool) -> None:
    """Say what a shell command would do that bringing the files back can't undo. Runs nothing.

    The classes: `read` changes nothing, `workspace` what a rewind restores; `outside` is the rest of this machine,
    `external` the network; `unknown` can't be told. It is what a parse of the text says, and that is a guess.
    """
    effects = classifier(named(workspace, "workspace").resolve()).command(text)
    if as_object:
        print(as_json({"class": overall(effects), "effects": [to_plain(effect) for effect in effects]}))
        return
    for effect in effects:
        out().print(said(effect), soft_wrap=True)


def said(effect: Effect) -> Text:
    """One effect in one line."""
    kind = f"{effect.kind}, reads" if effect.reads else effect.kind
    undo = f"; undone by: {effect.undo}" if effect.undo else ""
    return Text.assemble((f"{kind:16}", STYLES[effect.kind]), "  ", printable(effect.what + undo))
