"""What `agentrewind exec` and `agentrewind proxy` share: options, settings, and how a run of theirs begins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager

import click
from click.core import ParameterSource

from agentrewind.cli.options import effects_option, home_option, json_option, share_option, together
from agentrewind.cli.rule_options import RULES, rule_names, rule_options
from agentrewind.cli.viewing import view_option
from agentrewind.compose.agents import Watcher
from agentrewind.compose.home import Home
from agentrewind.compose.places import workspace_path
from agentrewind.compose.proxying import ProxiedRun, ProxiedSettings, begun, begun_again
from agentrewind.compose.runs import open_run
from agentrewind.core.errors import UsageError
from agentrewind.integrations.proxy import ANTHROPIC, OPENAI
from agentrewind.strategies import NAMES

OF_A_NEW_RUN = {
    "workspace": "--workspace",
    "strategy": "--strategy",
    "check": "--check",
    "max_rewinds": "--max-rewinds",
    "allow_home": "--allow-home",
    "share": "--share",
    "effects": "--effects",
    "inject": "--no-inject",
    **RULES,
}
"""Options that a run which goes on has from its beginning."""


proxied_options = together(
    click.option("--workspace", default=".", show_default=True, metavar="DIR", help="The directory that is saved."),
    click.option(
        "--base-url",
        metavar="URL",
        help=f"Where the model is. Default: OPENAI_BASE_URL, else {OPENAI}.",
    ),
    click.option(
        "--strategy",
        type=click.Choice(NAMES),
        default="rewind",
        show_default=True,
        help="`rewind` gives the agent the two tools to go back; `continue` only records.",
    ),
    click.option("--max-rewinds", type=click.IntRange(min=0), default=50, show_default=True, help="How many at most."),
    click.option(
        "--check",
        metavar="CMD",
        help="A shell command that judges the work at the end: exit code 0 accepts it.",
    ),
    rule_options,
    effects_option,
    click.option(
        "--inject/--no-inject",
        default=True,
        show_default=True,
        help="Whether the two tools are added to the agent's requests. Its shell reaches them in any case.",
    ),
    click.option("--resume", metavar="RUN", help="Go on with a run of a program that was cut off or failed."),
    share_option,
    home_option,
    view_option,
    json_option,
)
"""The options of both commands."""


def beginning(
    ctx: click.Context, command: Sequence[str], watcher: Watcher, port: int = 0
) -> AbstractContextManager[ProxiedRun]:
    """The run that the options ask for: a new one, or one that goes on. Raises: UsageError: nothing was made."""
    options = ctx.params
    if options["resume"] is not None:
        _refuse_with_resume(ctx)
        run = open_run(options["resume"])
        return begun_again(run, command, base_url=options["base_url"], port=port, watcher=watcher)
    home = Home.of()
    workspace = workspace_path(options["workspace"], home, allow_home=options["allow_home"])
    settings = ProxiedSettings(
        tuple(command),
        _base_url(options["base_url"]),
        os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC,
        options["strategy"],
        options["check"],
        options["max_rewinds"],
        rules=rule_names(options),
        share=options["share"],
        effects=options["effects"],
        inject=options["inject"],
    )
    return begun(home, settings, workspace, port=port, watcher=watcher)


def _base_url(given: str | None) -> str:
    """The endpoint that was named, be it the empty text of an unset variable: that is refused, not replaced."""
    if given is not None:
        return given
    return os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or OPENAI


def _refuse_with_resume(ctx: click.Context) -> None:
    given = [
        option
        for name, option in OF_A_NEW_RUN.items()
        if ctx.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
    ]
    if given:
        raise UsageError(f"{' and '.join(given)} can't change in a run that goes on; leave it out with --resume.")
