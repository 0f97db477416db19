"""Arguments and options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar, get_args

import click

from agentrewind.cli.screen import interactive
from agentrewind.compose.home import LAST, Home
from agentrewind.core.codec import Json
from agentrewind.core.effects import Mode
from agentrewind.core.errors import AgentRewindError, UsageError

F = TypeVar("F", bound=Callable[..., Any])


class Option(Protocol):
    """Adds an option to a command, or several."""

    def __call__(self, function: F, /) -> F: ...


def together(*options: Option) -> Option:
    """Several options as one, in the order in which the help shows them."""

    def add(function: F, /) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def run_argument(function: F) -> F:
    return click.argument("ref", metavar="RUN", shell_complete=complete_run)(function)


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The runs whose ids begin so, the newest first, for a shell's completion."""
    del ctx, param
    with suppress(AgentRewindError, OSError):
        return [name for name in [LAST, *reversed(Home.of().run_ids())] if name.startswith(incomplete)]
    return []


def json_option(function: F) -> F:
    return click.option("--json", "as_object", is_flag=True, help="Print one JSON value instead.")(function)


def dry_run_option(function: F) -> F:
    return click.option("--dry-run", is_flag=True, help="Only show what would change.")(function)


def yes_option(function: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Don't ask.")(function)


def share_option(function: F) -> F:
    return click.option(
        "--share", is_flag=True, help="Let other runs that say so too work in the same directory at the same time."
    )(function)


def home_option(function: F) -> F:
    return click.option("--allow-home", is_flag=True, help="Accept your home directory as the workspace.")(function)


def agent_options(words: Sequence[str]) -> dict[str, Json]:
    """`NAME=VALUE` as settings; a value is JSON where it can be read as such. Raises: UsageError."""
    found: dict[str, Json] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {word!r} sets nothing: write NAME=VALUE.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def effects_option(function: F) -> F:
    return click.option(
        "--effects",
        type=click.Choice(get_args(Mode)),
        help="What is done about calls with effects that no rewind undoes: they are written down; the agent is told"
        " before they run; a person is asked; they aren't run. Default: what agentrewind.toml says, else `record`.",
    )(function)


def confirm(question: str) -> None:
    """Have a person say yes. Raises: UsageError: nobody can be asked. click.exceptions.Exit: the answer is no."""
    if not interactive():
        raise UsageError("This changes files, and nobody can be asked here. Say --yes to do it, --dry-run to look.")
    if not click.confirm(question, default=False, err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)
