"""`agentrewind view`: runs in the browser."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from contextlib import suppress

import click

from agentrewind.cli.options import complete_run
from agentrewind.cli.screen import err, out, sentence
from agentrewind.compose.home import Home
from agentrewind.ui.server import Page


@click.command(epilog="Example: agentrewind view last")
@click.argument("ref", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Of 127.0.0.1.")
@click.option("--open/--no-open", "opens", default=None, help="Open the browser. Default: where there is a screen.")
def command(ref: str | None, port: int, *, opens: bool | None) -> None:
    """Show a run in the browser: its tree, every step, what changed in the files; and go back from there.

    Without RUN, all runs. The page is served to this machine alone, and only to whoever has the link that is printed.
    Where a run's agent is alive the page follows it, and what you ask for is done at its next model call.
    """
    home = Home.of()
    first = home.find(ref) if ref is not None else None
    with Page(home, port=port) as page:
        link = page.link(first or "")
        sentence(link, out())
        sentence("Ctrl-C ends the page; the runs go on without it.", err())
        if opens or (opens is None and _has_screen()):
            with suppress(webbrowser.Error):
                webbrowser.open(link)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def _has_screen() -> bool:
    return sys.stdout.isatty() and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
