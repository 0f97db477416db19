"""`agentrewind exec`: any agent program, recoverable."""

from __future__ import annotations

import json
import os
import shutil

import click
from rich.text import Text

from agentrewind.cli.child import describe, run_child
from agentrewind.cli.following import Follower, summary
from agentrewind.cli.proxied import beginning, proxied_options
from agentrewind.cli.screen import ProgressLine, err, progress, sentence
from agentrewind.cli.viewing import viewing
from agentrewind.compose.agents import Watcher
from agentrewind.compose.proxying import ProxiedRun
from agentrewind.compose.runs import open_run
from agentrewind.core.errors import UsageError
from agentrewind.ui.facts import run_facts

NOT_HEARD = (
    "No call of a model came through: the command was led to the proxy by {}; check that it reads one of these (else"
    " hand the address on: sh -c 'COMMAND --base-url \"$OPENAI_BASE_URL\"'), and see `agentrewind doctor` for programs"
    " whose calls go another way."
)


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Example: agentrewind exec --workspace project -- python my_agent.py",
)
@proxied_options
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], as_object: bool, view: bool, **_: object) -> None:
    """Run an agent program, in any language, with every step of it recoverable.

    COMMAND is started as it is, in this terminal, with variables that lead its model calls through a proxy of ours:
    OPENAI_BASE_URL, OPENAI_API_BASE, ANTHROPIC_BASE_URL, ANTHROPIC_API_BASE. At each call the workspace is saved; an
    agent with tools gets two more, to go back. Its keys go to the model's endpoint and are kept nowhere.

    Ends with the exit code of COMMAND (1 where that is 0 and --check doesn't accept the work). With --json, the last
    line of standard output says how the run went.
    """
    if shutil.which(words[0]) is None:
        raise UsageError(f"There is no command {words[0]!r}.")
    with viewing(wanted=view) as link, progress("looking at the workspace") as line:
        until_started = _UntilStarted(line)
        follower = Follower(line, link=link)
        told = follower.watcher()
        watcher = Watcher(told.began, say=told.say, progress=until_started)
        try:
            with beginning(ctx, words, watcher) as run:
                until_started.started = True
                before = _calls(run)
                code = run_child(words, run.environ(os.environ))
                ok = run.end(describe(code), ok=code == 0)
                unheard = NOT_HEARD.format(", ".join(run.addresses)) if _calls(run) == before else ""
        except BaseException:
            if follower.run_id:
                follower.leave(as_object=False)
            raise
    _conclude(follower.run_id, as_object=as_object)
    if unheard:
        sentence(Text(unheard, style="yellow"), err())
    ctx.exit(code or (0 if ok else 1))


class _UntilStarted:
    """Progress on the terminal, until the terminal is the program's."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self.started = False

    def __call__(self, done: int, total: int | None) -> None:
        if not self.started:
            self._line(done, total)


def _calls(run: ProxiedRun) -> int:
    """How many calls of a model are recorded."""
    return sum(node.is_llm for node in run.tree.nodes.values())


def _conclude(run_id: str, *, as_object: bool) -> None:
    run = open_run(run_id)
    if as_object:
        print("\n" + json.dumps(run_facts(run)))
    else:
        summary(run, err())
