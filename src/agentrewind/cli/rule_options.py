"""The options that say what of a rewind isn't the agent's to decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agentrewind.cli.options import together
from agentrewind.core.errors import UsageError
from agentrewind.strategies.rewind_rules import RuleNames

RULES = {"memory": "--memory", "selector": "--selector", "trigger": "--trigger", "notice": "--notice"}
"""The fields of `RuleNames`, which are parameters of each command with these options, as they are said."""


rule_options = together(
    click.option(
        "--memory",
        default="cumulative",
        show_default=True,
        metavar="POLICY",
        help="Which notes cross over at a rewind: `cumulative` (all), `latest`, `none`, or `budget:TOKENS`: all, the"
        " oldest put into one by the model where they take more.",
    ),
    click.option(
        "--selector",
        default="agent",
        show_default=True,
        metavar="NAME",
        help="Who chooses the target, for studies: `agent`, `random[:SEED]`, `previous`, `best-progress`,"
        " `first-error`, `last-change`, `oracle:UID` (the last point before record UID).",
    ),
    click.option(
        "--trigger",
        default="never",
        show_default=True,
        metavar="LIST",
        help="When to go back unasked: `never`, or some of `failures:N`, `loop`, `regression`, with commas.",
    ),
    click.option(
        "--notice",
        default="on",
        show_default=True,
        metavar="WHAT",
        help="Tell the agent, once, of a loop, a standstill or a repeated error: `on`, `off`, or numbers as in"
        " `loop=2,stall=40,errors=3` (0: never).",
    ),
)
"""The options of all commands that start an agent."""


def rule_names(params: Mapping[str, Any]) -> RuleNames:
    """What the options say. Raises: UsageError: one of them names nothing."""
    found = RuleNames(**{name: params[name] for name in RULES})
    found.rules()
    return found


PAPER = {
    **RULES,
    "mode": "--mode",
    "max_rewinds": "--max-rewinds",
    "keep": "--keep",
    "fork_checkpoints": "--fork-checkpoints",
}
"""Options that `--paper` settles."""


def paper_alone(ctx: click.Context) -> None:
    """Raises: UsageError: an option was given that `--paper` settles otherwise."""
    given = [
        option
        for name, option in PAPER.items()
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT)
    ]
    if given:
        raise UsageError(f"--paper settles {' and '.join(given)}; leave it out, or leave out --paper.")
