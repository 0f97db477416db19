"""`agentrewind sim`: the simulated model on loopback."""

from __future__ import annotations

import signal

import click

from agentrewind.bench.sim.policy import FILE, policy_of
from agentrewind.bench.sim.profiles import DEFAULT, profiles
from agentrewind.bench.sim.server import guard_name, model_name, served
from agentrewind.cli.columns import show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import out, sentence
from agentrewind.core.codec import to_plain
from agentrewind.core.errors import UsageError
from agentrewind.tasks.shipped import find
from agentrewind.tasks.shipped import suite as shipped
from agentrewind.tasks.task import Task
from agentrewind.ui.text import as_json


@click.command(epilog="Example: agentrewind sim --suite core --port 8123")
@click.option("--suite", default="core", show_default=True, help="Whose tasks it knows; `all`: of every suite.")
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="A task, or its directory; instead of the suite.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen on 127.0.0.1. 0: any free one.")
@click.option("--profiles", "listing", is_flag=True, help="Show the profiles and their knobs, and serve nothing.")
@json_option
def command(suite: str, tasks: tuple[str, ...], port: int, listing: bool, as_object: bool) -> None:
    """Serve a simulated model, OpenAI-compatible, until it is interrupted.

    The name of the model says what it plays: TASK:SEED:PROFILE. It keeps nothing: all that it knows stands in the
    messages that it is sent. It says nothing about any real model.
    """
    if listing:
        _list(as_object=as_object)
        return
    policies = {task.name: policy_of(task) for task in _found(suite, tasks)}
    with served(policies, port=port) as server:
        first = next(iter(policies))
        facts = {"base_url": server.base_url, "models": [model_name(name, 0) for name in policies]}
        if as_object:
            print(as_json(facts), flush=True)
        else:
            sentence(
                f"{server.base_url} serves {', '.join(policies)}. Model: {model_name(first, 0)}; guard of its calls:"
                f" {guard_name(first, 0)}. Ctrl-C ends it.",
                out(),
            )
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


def _found(suite: str, names: tuple[str, ...]) -> list[Task]:
    found = tuple(map(find, names)) if names else shipped(suite)
    known = [task for task in found if (task.path / FILE).exists()]
    if not known:
        raise UsageError(f"No task of {suite} has a simulated policy ({FILE}).")
    return known


def _list(*, as_object: bool) -> None:
    if as_object:
        print(as_json([{**to_plain(item), "digest": item.digest} for item in profiles().values()]))
        return
    names = [name for name in to_plain(profiles()[DEFAULT]) if name not in {"name", "says"}]
    rows = [("knob", *profiles())]
    rows += [(name, *(f"{getattr(item, name):g}" for item in profiles().values())) for name in names]
    show_columns(rows, out(), flexible=0, right=range(1, len(rows[0])), header=True)
    for item in profiles().values():
        sentence(f"{item.name}: {item.says}", out())
