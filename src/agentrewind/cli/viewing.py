"""The page of a run beside the command that makes the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from agentrewind.compose.home import Home
from agentrewind.ui.server import Page

F = TypeVar("F", bound=Callable[..., Any])
Link = Callable[[str], str]
"""The address at which a run is shown."""


def view_option(function: F) -> F:
    return click.option("--view", is_flag=True, help="Show the run in the browser while it goes on; prints the link.")(
        function
    )


@contextmanager
def viewing(*, wanted: bool) -> Iterator[Link | None]:
    """The page's server, where it is `wanted`. Raises: UsageError: a package for it is missing."""
    if not wanted:
        yield None
        return
    with Page(Home.of()) as page:
        yield page.link
