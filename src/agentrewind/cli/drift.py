"""What the commands that restore files share: the word about drift, and what is said when they are interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import click

from agentrewind.cli.screen import err, sentence
from agentrewind.core.world import Pending

F = TypeVar("F", bound=Callable[..., Any])


def drift_option(function: F) -> F:
    """Adds `keep_drift`: True, False, or None where nothing was said."""
    return click.option(
        "--keep-drift/--discard-drift",
        "keep_drift",
        default=None,
        help="Leave what somebody else changed since the last look as it is, or make it equal too. It is saved first"
        " either way.",
    )(function)


class _Restorable(Protocol):
    @property
    def pending(self) -> Pending | None: ...


@contextmanager
def told_if_interrupted(world: _Restorable, again: str) -> Iterator[None]:
    """On Ctrl-C say in what state the files are; `again` is the command that goes on."""
    try:
        yield
    except KeyboardInterrupt:
        pending = world.pending
        if pending is None:
            sentence("No restore was under way any more, or none had begun: nothing is left half-done.", err())
        else:
            sentence(
                f"The restore to snapshot {pending.target[:12]} was cut off: the files may be a mixture. What they were"
                f" is saved. `{again}` finishes it; `agentrewind snap restore {pending.live[:12]}` takes it back.",
                err(),
            )
        raise
