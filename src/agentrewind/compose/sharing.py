"""A workspace that several runs use at the same time: each opens it for one act at a time.

What one leaves behind on closing (the store, what is known of the files) is what the next one goes on from, so the
snapshots of all of them stand in one line, and each says who was at work before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from agentrewind.compose.home import Home
from agentrewind.compose.room import Room
from agentrewind.compose.runs import halves_of, settle
from agentrewind.compose.worlds import Progress, open_world
from agentrewind.core.errors import Busy
from agentrewind.core.world import (
    Capabilities,
    Changes,
    Pending,
    RestoreReport,
    Snapshot,
    SnapshotId,
    Verification,
    worker,
)
from agentrewind.snapshots.attributed import looking
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.workspace import Durability, WorkspaceWorld

PATIENCE_S = 120.0
"""How long an act waits for those of others."""
LOOK_S = 0.02


class SharedWorld:
    """A workspace in the hands of one of several runs; see `TellsApart`. Every snapshot is on the disk when it is made.

    Raises (all acts):
        Busy: others have used it for longer than anybody should.
    """

    shared = True
    capabilities: Capabilities = WorkspaceWorld.capabilities

    def __init__(
        self,
        home: Home,
        workspace: Path,
        run_id: str,
        *,
        durability: Durability = "process",
        progress: Progress | None = None,
        rules: PathRules | None = None,
    ) -> None:
        """Raises: Busy: a run that doesn't share has the workspace. Others: as `open_world`."""
        self._home, self._workspace, self._run_id = home, workspace, run_id
        self._durability: Durability = durability
        self._progress = progress
        self._rules = rules
        self._lock = threading.RLock()
        self._room = Room(home, workspace, worker(run_id))
        try:
            self.snapshot()
        except BaseException:
            self._room.leave()
            raise

    @contextmanager
    def _opened(self) -> Iterator[WorkspaceWorld]:
        with self._lock, closing(self._when_free()) as world:
            yield world

    def _when_free(self) -> WorkspaceWorld:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return open_world(
                    self._home,
                    self._workspace,
                    rules=self._rules,
                    holder=worker(self._run_id),
                    durability=self._durability,
                    progress=self._progress,
                    run_id=self._run_id,
                    shared=True,
                )
            except Busy:
                if time.monotonic() > until or not self._room.others():
                    raise
            time.sleep(LOOK_S)

    def at_work(self, working: bool) -> None:
        self._room.at_work(working)

    def quiet(self) -> bool:
        """Others are at work in between, so only a look can tell."""
        return False

    def snapshot(self, label: str = "") -> Snapshot:
        with self._opened() as world:
            if world.pending is not None or halves_of(
                self._home, world, self._workspace
            ):  # another run was killed while it restored
                settle(self._home, world, self._workspace)
            with looking(world, self._room):
                saved = world.snapshot(label)
                world.sync()
            return saved

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        with self._opened() as world, nullcontext() if dry_run else looking(world, self._room):
            report = world.restore(snapshot, dry_run=dry_run, accept_incomplete=accept_incomplete)
            if not dry_run:
                world.sync()
            return report

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        with self._opened() as world, looking(world, self._room):
            report = world.restore_own(snapshot, mine, people=people, until=until)
            world.sync()
            return report

    def find(self, snapshot: SnapshotId) -> Snapshot:
        with self._opened() as world:
            return world.find(snapshot)

    def snapshots(self) -> tuple[Snapshot, ...]:
        with self._opened() as world:
            return world.snapshots()

    @property
    def pending(self) -> Pending | None:
        with self._opened() as world:
            return world.pending

    def resume(self) -> RestoreReport | None:
        with self._opened() as world:
            report = world.resume()
            world.sync()
            return report

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes:
        with self._opened() as world:
            return world.diff(a, b)

    def verify(self, snapshot: SnapshotId) -> Verification:
        with self._opened() as world:
            return world.verify(snapshot)

    def sync(self) -> None:
        """Each act has done so."""

    def close(self) -> None:
        self._room.leave()


def world_of(
    home: Home,
    workspace: Path,
    run_id: str,
    *,
    share: bool,
    durability: Durability,
    progress: Progress | None = None,
    say: Callable[[str], object] = lambda _: None,
    rules: PathRules | None = None,
) -> WorkspaceWorld | SharedWorld:
    """The workspace of a new run, with whatever a crash had left half-done settled.

    Raises:
        Busy: another run has it; or, with `share`, one that doesn't share it.
    """
    if share:
        return SharedWorld(home, workspace, run_id, durability=durability, progress=progress, rules=rules)
    world = open_world(
        home,
        workspace,
        rules=rules,
        holder=worker(run_id),
        durability=durability,
        progress=progress,
        run_id=run_id,
    )
    try:
        for line in settle(home, world, workspace):
            say(line)
    except BaseException:
        world.close()
        raise
    return world
