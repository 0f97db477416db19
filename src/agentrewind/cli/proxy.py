"""`agentrewind proxy`: the proxy of `exec` on its own, for programs that are started elsewhere."""

from __future__ import annotations

import json
import shlex
import signal

import click

from agentrewind.cli.child import signals_held
from agentrewind.cli.following import Follower, summary
from agentrewind.cli.proxied import beginning, proxied_options
from agentrewind.cli.screen import err, progress
from agentrewind.cli.viewing import viewing
from agentrewind.compose.proxying import ProxiedRun
from agentrewind.compose.runs import open_run
from agentrewind.ui.facts import run_facts

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(epilog='Example: agentrewind proxy --workspace project, then `export OPENAI_BASE_URL="..."` as it says')
@proxied_options
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Of 127.0.0.1.")
@click.pass_context
def command(ctx: click.Context, /, port: int, as_object: bool, view: bool, **_: object) -> None:
    """Record the agent programs that use the printed base URL, until Ctrl-C or SIGTERM.

    The URL holds a token and is good until then. `exec` is simpler, and sees more: processes that the agent leaves
    running in the background are ended at a rewind only while they descend from the agent.
    """
    with viewing(wanted=view) as link, progress("looking at the workspace") as line:
        follower = Follower(line, link=link)
        try:
            with beginning(ctx, (), follower.watcher(), port) as run, signals_held():
                _print(run, as_object=as_object)
                signal.sigwait(STOP)
                run.end("The proxy was stopped.", ok=True)
        except BaseException:
            if follower.run_id:
                follower.leave(as_object=False)
            raise
    done = open_run(follower.run_id)
    if as_object:
        print(json.dumps(run_facts(done)))
    else:
        summary(done, err())
    ctx.exit(0 if done.state == "done" else 1)


def _print(run: ProxiedRun, *, as_object: bool) -> None:
    if as_object:
        print(json.dumps({"run": run.id, "addresses": run.addresses}), flush=True)
    else:
        lines = (f"export {name}={shlex.quote(url)}" for name, url in run.addresses.items())
        print("\n".join(lines), flush=True)
