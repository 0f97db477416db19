"""A workspace in the hands of one run: each of its snapshots says who was at work before it."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from agentrewind.core.world import RestoreReport, Snapshot, SnapshotId
from agentrewind.core.wrapping import Wrapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrewind.snapshots.workspace import WorkspaceWorld


class Crew(Protocol):
    """Who has something at work in a workspace."""

    shared: bool

    def at_work(self, working: bool) -> None:
        """From here on this run has something at work; or it has nothing since the look that it took last."""

    def since_last_look(self) -> Sequence[str]:
        """Everybody who had something at work at any time since `looked` was called last, by anybody."""

    def looked(self) -> None: ...


class Alone:
    """The crew of a workspace that one run has to itself. It is at work until it says that it isn't."""

    shared = False

    def __init__(self, me: str) -> None:
        self._me = me
        self._now = self._since = True

    def at_work(self, working: bool) -> None:
        self._now = self._since = working

    def since_last_look(self) -> Sequence[str]:
        return [self._me] if self._since else []

    def looked(self) -> None:
        self._since = self._now


@contextmanager
def looking(world: WorkspaceWorld, crew: Crew) -> Iterator[None]:
    """What is saved here says who was at work before it; left without an error, it was a look at all of that."""
    world.mark(crew.since_last_look())
    yield
    crew.looked()


class Attributed(Wrapping["WorkspaceWorld"]):
    """`world` as a run uses it; see `TellsApart`."""

    def __init__(self, world: WorkspaceWorld, crew: Crew) -> None:
        super().__init__(world)
        self._crew = crew

    @property
    def shared(self) -> bool:
        return self._crew.shared

    def at_work(self, working: bool) -> None:
        self._crew.at_work(working)

    def quiet(self) -> bool:
        return not self.shared and self._world.quiet()

    def snapshot(self, label: str = "") -> Snapshot:
        with looking(self._world, self._crew):
            return self._world.snapshot(label)

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        with nullcontext() if dry_run else looking(self._world, self._crew):
            return self._world.restore(snapshot, dry_run=dry_run, accept_incomplete=accept_incomplete)

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        with looking(self._world, self._crew):
            return self._world.restore_own(snapshot, mine, people=people, until=until)

    def audit(self) -> int:
        """As `WorkspaceWorld.audit`."""
        return self._world.audit()
