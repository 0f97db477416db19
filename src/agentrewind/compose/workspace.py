"""A directory whose state can be saved and brought back, with or without an agent."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from agentrewind.compose.home import Home
from agentrewind.compose.places import named, workspace_path
from agentrewind.compose.runs import settle_if_possible
from agentrewind.compose.worlds import open_world
from agentrewind.core.world import Changes, RestoreReport, Snapshot, SnapshotId, Verification
from agentrewind.snapshots.rules import PathRules


class Workspace:
    """Snapshots of one directory, which itself gets no new file.

    One process at a time may hold a workspace; a second one is refused with `Busy`. A restore that a crash cut off is
    finished when the workspace is opened again; where that can't be done it stays pending until the next restore.

    Args:
        path: an existing directory; not `/` and not a home directory.
        store: where its snapshots are kept; by default below the user's data directory, shared with the runs there.
        rules: which paths are private, excluded or volatile; by default those of its `agentrewind.toml`.

    Raises:
        WorkspaceRefused: not a directory that can be a workspace. Busy: somebody else holds it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        store: str | os.PathLike[str] | None = None,
        rules: PathRules | None = None,
    ) -> None:
        home = Home.of()
        root = workspace_path(path, home)
        self.path = root
        self._world = open_world(home, root, store=None if store is None else named(store, "store"), rules=rules)
        try:
            settle_if_possible(home, self._world, root)
        except BaseException:
            self._world.close()
            raise

    def snapshot(self, label: str = "") -> Snapshot:
        """Save the present state; it survives the death of any process when this returns. Where nothing has changed it
        is an entry of its own if it has a label, or if what is there was saved by a run or a restore only.

        Raises:
            StorageFull: nothing was added.
        """
        if label:
            return self._world.snapshot(label, own=True)
        found = self._world.snapshot()
        return found if self._world.by_hand(found.id) else self._world.snapshot(own=True)

    def restore(self, snapshot: str, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        """Make the directory equal to a snapshot, touching only what differs; `report.live` is the way back.

        Raises:
            SnapshotNotFound, SnapshotDamaged, SnapshotIncomplete, RestoreRefused, StorageFull: nothing was touched.
            RestoreInterrupted: stopped half-way; opening the workspace again finishes it.
        """
        return self._world.restore(SnapshotId(snapshot), dry_run=dry_run, accept_incomplete=accept_incomplete)

    def diff(self, a: str, b: str) -> Changes:
        """Which paths differ from snapshot `a` to snapshot `b`. Raises: SnapshotNotFound."""
        return self._world.diff(SnapshotId(a), SnapshotId(b))

    def verify(self, snapshot: str) -> Verification:
        """Read every object of a snapshot and compare its hash. Raises: SnapshotNotFound."""
        return self._world.verify(SnapshotId(snapshot))

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All snapshots of this directory, oldest first; also those of its runs."""
        return self._world.snapshots()

    def close(self) -> None:
        """Let others use the workspace. The snapshots stay."""
        self._world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
