"""What somebody else changed in the workspace of a run since the run last looked at it."""

from __future__ import annotations

from agentrewind.core.errors import SnapshotNotFound
from agentrewind.core.records import FilesRestored, Rewound
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.drifting import Drifting
from agentrewind.snapshots.workspace import WorkspaceWorld


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
