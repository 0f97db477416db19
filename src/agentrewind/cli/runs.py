"""`agentrewind runs`: what runs there are."""

from __future__ import annotations

import click
from rich.text import Text

from agentrewind.cli.columns import Cell, show_columns
from agentrewind.cli.options import json_option
from agentrewind.cli.screen import out
from agentrewind.cli.summary import STYLES, score, task_line
from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, JournalError
from agentrewind.ui.facts import run_facts
from agentrewind.ui.text import as_json, one_line, printable

NEWEST = 30
HEADER = ("run", "state", "score", "rewinds", "task")


@click.command(epilog="Example: agentrewind runs")
@click.option("--all", "every", is_flag=True, help=f"Not only the newest {NEWEST}.")
@json_option
def command(every: bool, as_object: bool) -> None:
    """List the runs, newest last."""
    home = Home.of()
    ids = home.run_ids()
    shown = ids if every else ids[-NEWEST:]
    found = [(run_id, _read(home, run_id)) for run_id in shown]
    if as_object:
        print(as_json([_facts(run_id, run) for run_id, run in found]))
        return
    if not ids:
        print(f"There is no run yet in {printable(str(home.runs))}. `agentrewind run` makes one.")
        return
    console = out()
    show_columns(
        [HEADER, *(_row(run_id, run) for run_id, run in found)], console, flexible=4, right=(2, 3), header=True
    )
    if len(shown) < len(ids):
        console.print(f"{len(ids) - len(shown):,} older ones: `agentrewind runs --all`", style="dim")


def _read(home: Home, run_id: str) -> Run | AgentRewindError:
    """A damaged run doesn't hide the others, however it is damaged."""
    try:
        run = Run(home, run_id)
        _row(run_id, run)
        run_facts(run)
    except AgentRewindError as error:
        return error
    except Exception as error:  # noqa: BLE001 (whatever its journal does to the reader)
        return JournalError(f"{type(error).__name__}: {error}")
    return run


def _facts(run_id: str, run: Run | AgentRewindError) -> Json:
    return run_facts(run) if isinstance(run, Run) else {"run": run_id, "state": "damaged", "reason": str(run)}


def _row(run_id: str, run: Run | AgentRewindError) -> tuple[Cell, ...]:
    if not isinstance(run, Run):
        return run_id, Text("damaged", style="bold red"), "", "", one_line(str(run))
    return run_id, Text(run.state, style=STYLES[run.state]), score(run.tree), str(run.tree.rewinds), task_line(run)
