"""`agentrewind run`: an agent on a task."""

from __future__ import annotations

import os
from typing import cast, get_args

import click

from agentrewind.cli.confining import confinement_of, sandbox_options
from agentrewind.cli.following import follow
from agentrewind.cli.options import agent_options, effects_option, home_option, json_option, share_option
from agentrewind.cli.rule_options import paper_alone, rule_names, rule_options
from agentrewind.cli.viewing import view_option
from agentrewind.compose.agents import OPENAI, Keep, Mode, RunSettings, as_in_the_paper, start
from agentrewind.compose.harnesses import KNOWN
from agentrewind.compose.home import Home
from agentrewind.compose.places import workspace_path
from agentrewind.compose.services import services_of
from agentrewind.core import effects as effect_modes
from agentrewind.journal.writer import Durability
from agentrewind.strategies import NAMES


@click.command(epilog='Example: agentrewind run --model gpt-5-mini --check "pytest -q" "Make the failing test pass"')
@click.option(
    "--agent",
    default="builtin",
    show_default=True,
    metavar="NAME",
    help=f"Which agent: {', '.join(KNOWN)}; or an adapter of your own, as package.module:Class.",
)
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the agent, for example max_steps=30; VALUE is JSON, or text. As often as you like.",
)
@click.option("--model", required=True, metavar="NAME", help="The model, as its endpoint calls it.")
@click.option(
    "--base-url",
    metavar="URL",
    help=f"An OpenAI-compatible endpoint. Default: OPENAI_BASE_URL, else {OPENAI}.",
)
@click.option("--workspace", default=".", show_default=True, metavar="DIR", help="The directory that it works in.")
@click.option("--check", metavar="CMD", help="A shell command that judges the work: exit code 0 accepts it.")
@click.option(
    "--strategy",
    type=click.Choice(NAMES),
    default="rewind",
    show_default=True,
    help="`rewind` gives the agent the two tools to go back; `continue` doesn't. `restart` begins again after each"
    " rejection, with a list of what failed. `review` is `continue` with a guard of every call.",
)
@click.option(
    "--keep",
    type=click.Choice(get_args(Keep)),
    default="none",
    show_default=True,
    help="What a rewind leaves as it is, for comparison: the files (`world`), or the conversation (`context`).",
)
@click.option(
    "--guard",
    default="rules",
    show_default=True,
    metavar="WHO",
    help="With --strategy review: `rules`, or MODEL@URL, a model behind an OpenAI-compatible endpoint (its key:"
    " AGENTREWIND_GUARD_API_KEY). Whatever it can't judge isn't run.",
)
@click.option(
    "--mode",
    type=click.Choice([mode.replace(" ", "-") for mode in get_args(Mode)]),
    default="in-place",
    show_default=True,
    help="How a rewind moves the conversation. `fresh`: into a new process of the agent. `reset`: into the agent's own"
    " list of messages.",
)
@click.option("--spawn", is_flag=True, help="With --mode fresh: no fork of a prepared process, a new interpreter each.")
@click.option(
    "--fork-checkpoints",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Experimental, with --mode fresh: park up to N copies of the agent's process, one before a call of the model;"
    " a rewind to it wakes the copy, with its variables, instead of replaying what led there. 0: none.",
)
@click.option("--max-rewinds", type=click.IntRange(min=0), default=50, show_default=True, help="How many at most.")
@click.option(
    "--durability",
    type=click.Choice(get_args(Durability)),
    default="process",
    show_default=True,
    help="What each step survives: the death of any process, or a power loss.",
)
@rule_options
@click.option(
    "--paper",
    is_flag=True,
    help="As in the paper: fresh processes, no limit of rewinds, all notes, nothing noticed or done unasked.",
)
@effects_option
@sandbox_options
@share_option
@home_option
@view_option
@json_option
@click.argument("task")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    agent: str,
    options: tuple[str, ...],
    model: str,
    base_url: str | None,
    workspace: str,
    check: str | None,
    strategy: str,
    keep: Keep,
    guard: str,
    mode: str,
    spawn: bool,
    fork_checkpoints: int,
    max_rewinds: int,
    durability: Durability,
    paper: bool,
    effects: effect_modes.Mode | None,
    allow_home: bool,
    view: bool,
    as_object: bool,
    task: str,
    **_: object,
) -> None:
    """Let an agent work on TASK in a workspace, with every step recoverable.

    The key of the model is read from OPENAI_API_KEY and kept nowhere. Ends with exit code 0 where the work was
    accepted, 1 where the run failed, 2 where it could not begin.

    Where bubblewrap works, each command of the agent runs in a sandbox: it can write the workspace, and a /tmp and a
    home directory of its own, which go back with the workspace; it reads programs and libraries, nothing else of yours;
    and it has no network. `agentrewind doctor` says what works here.
    """
    home = Home.of()
    root = workspace_path(workspace, home, allow_home=allow_home)
    services = services_of(root)
    confinement = confinement_of(ctx.params, outlasting=bool(services))
    settings = RunSettings(
        agent,
        model,
        task,
        os.environ.get("OPENAI_BASE_URL") or OPENAI if base_url is None else base_url,
        check,
        strategy,
        keep,
        max_rewinds,
        durability,
        cast("Mode", mode.replace("-", " ")),
        spawn,
        rule_names(ctx.params),
        confinement,
        services,
        ctx.params["share"],
        effects=effects,
        fork_checkpoints=fork_checkpoints,
        guard=guard,
        limits=agent_options(options),
    )
    if paper:
        paper_alone(ctx)
        settings = as_in_the_paper(settings)
    ctx.exit(follow(lambda watcher: start(home, settings, root, watcher=watcher), as_object=as_object, view=view))
