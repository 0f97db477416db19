"""How a command was used badly, in a readable sentence that says where help is."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from agentrewind.cli.group import group

_PLAINER = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"is not a valid integer(?: range)?", "is not a whole number"),
        (r"is not a valid float(?: range)?", "is not a number"),
        (r"(\S+) is not in the range x>=(\S+?)\.?$", r"\1 is less than \2."),
        (r"(\S+) is not in the range x<=(\S+?)\.?$", r"\1 is more than \2."),
        (r"(\S+) is not in the range (\S+?)<=x<=(\S+?)\.?$", r"\1 is not between \2 and \3."),
    )
)


def sentence(error: click.ClickException, arguments: Sequence[str]) -> str:
    """What was wrong with these arguments, and which help page says how it is right."""
    text = error.format_message()
    for pattern, plain in _PLAINER:
        text = pattern.sub(plain, text)
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else _named(arguments)
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} `{command} --help` says how it is used."


def _named(arguments: Sequence[str]) -> str:
    """The command that the arguments name, as far as they do."""
    path, command = ["agentrewind"], group.get_command
    for word in arguments:
        found = command(click.Context(group), word)
        if found is None:
            break
        path.append(word)
        if not isinstance(found, click.Group):
            break
        command = found.get_command
    return " ".join(path)
