"""What the commands that restore files share: the word about drift, and what is said when they are interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import click

from agentrewind.cli.screen import err, sentence
from agentrewind.core.errors import SnapshotNotFound
from agentrewind.core.records import FilesRestored, Rewound
from agentrewind.core.tree import RunTree
from agentrewind.core.world import Pending, SnapshotId
from agentrewind.snapshots.drifting import Drifting
from agentrewind.snapshots.workspace import WorkspaceWorld

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


def of_run(world: WorkspaceWorld, tree: RunTree, *, keep: bool) -> Drifting:
    """The world of a run, whose drift counts from the run's last look at it."""
    since = last_look(tree)
    if since is not None:
        try:
            world.find(since)
        except SnapshotNotFound:  # collected since: then from whatever was saved last
            since = None
    return Drifting(world, keep=keep, since=since)


def is_told_apart(tree: RunTree) -> bool:
    """Whether what changed after the run's last look can't be its agent's: it looked once more when it ended."""
    return tree.ended is not None and last_look(tree) is not None


def last_look(tree: RunTree) -> SnapshotId | None:
    """The newest state of the workspace that the run recorded: a snapshot that it took, or where it brought it to."""
    looks = [(state.at_ns, state.snapshot) for state in tree.states.values()]
    if tree.ended is not None:
        looks.append((tree.ended.at_ns, tree.ended.snapshot))
    for number, move in enumerate(tree.moves):
        before = tree.moves[number - 1].live if number else None
        looks.append((move.at_ns, _brought_to(tree, move, before)))
    found = [(at, name) for at, name in looks if name is not None]
    return max(found)[1] if found else None


def _brought_to(tree: RunTree, move: Rewound | FilesRestored, before: SnapshotId | None) -> SnapshotId | None:
    """`before`: what the move before this one had saved first."""
    if isinstance(move, FilesRestored):
        return move.snapshot
    if move.keep_world:
        return None
    return before if move.why == "undo" else tree.node(move.target).began.snapshot


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
