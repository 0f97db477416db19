"""`agentrewind mcp`: the two tools and the history of a run, for clients of the Model Context Protocol."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console

from agentrewind.cli.differing import show_files
from agentrewind.cli.log import show
from agentrewind.compose.differences import NOW, difference
from agentrewind.compose.home import LAST, Home
from agentrewind.compose.runs import Run, open_run
from agentrewind.compose.tool_program import call
from agentrewind.core.errors import UsageError
from agentrewind.engine.processes import RUN_MARK
from agentrewind.integrations.mcp import Offered, address, serve_http, serve_stdio
from agentrewind.integrations.proxy import Listening
from agentrewind.ui.text import plural

_WIDTH = 120


@click.command(epilog="Example: agentrewind mcp --run last --http")
@click.option("--run", "ref", metavar="RUN", help="Default: the run that this is started inside of, else the last.")
@click.option("--http", is_flag=True, help="Serve over HTTP on 127.0.0.1, not over standard input and output.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="With --http.")
def command(ref: str | None, http: bool, port: int) -> None:
    """Offer a run's two tools and its history to an MCP client.

    The tools are those that `exec` adds to an agent's requests; they work as long as the run is alive, and a rewind is
    made before the agent's next turn. With --http, the address is printed: it holds a token, without which nobody is
    let in. Resources: agentrewind://tree, agentrewind://memory, agentrewind://diff/RECORD.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("The MCP server needs one more package: `pip install 'agentrewind[mcp]'` adds it.")
    offered = _offered(open_run(ref or os.environ.get(RUN_MARK) or LAST).id)
    if not http:
        with _lent_streams():
            serve_stdio(offered)
        return
    listening = Listening(port)
    print(address(listening), flush=True)
    serve_http(offered, listening)


@contextmanager
def _lent_streams() -> Iterator[None]:
    """Inside, the standard streams are others at the same files: the server of `mcp` 1 closes those that it finds."""
    kept = sys.stdin, sys.stdout
    with open(os.dup(0)) as stdin, open(os.dup(1), "w") as stdout:
        sys.stdin, sys.stdout = stdin, stdout
        try:
            yield
        finally:
            sys.stdin, sys.stdout = kept


def _offered(run_id: str) -> Offered:
    """Of one run; each answer is of the moment in which it is asked for."""
    return Offered(
        call=lambda tool, arguments: call(Home.of().run_dir(run_id), tool, arguments),
        tree=lambda: _tree(open_run(run_id)),
        memory=lambda: _memory(open_run(run_id)),
        diff=lambda record: _diff(open_run(run_id), record),
    )


def _plain() -> Console:
    return Console(file=io.StringIO(), width=_WIDTH, color_system=None, force_terminal=False, legacy_windows=False)


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _tree(run: Run) -> str:
    console = _plain()
    show(run, console)
    return _text(console)


def _memory(run: Run) -> str:
    notes = run.tree.notes
    if not notes:
        return "The run was never rewound, so there is no note."
    told = (f"{note.branch}, back to before {note.target}, by {note.by}:\n{note.text}\n" for note in notes)
    return f"{plural(len(notes), 'note')}, oldest first.\n\n" + "\n".join(told)


def _diff(run: Run, record: str) -> str:
    console, found = _plain(), difference(run, record, NOW)
    show_files(found.files, found.total, console)
    return _text(console)
