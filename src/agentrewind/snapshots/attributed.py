"""A workspace in the hands of one run: each of its snapshots says who was at work before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agentrewind.core.world import RestoreReport, Snapshot, SnapshotId
from agentrewind.core.wrapping import Wrapping

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def snapshot(self, label: str = "") -> Snapshot:
        self._world.mark(self._crew.since_last_look())
        saved = self._world.snapshot(label)
        self._crew.looked()
        return saved

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        self._world.mark(self._crew.since_last_look())
        report = self._world.restore(snapshot, dry_run=dry_run, accept_incomplete=accept_incomplete)
        self._crew.looked()
        return report

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        self._world.mark(self._crew.since_last_look())
        report = self._world.restore_own(snapshot, mine, people=people, until=until)
        self._crew.looked()
        return report

    def audit(self) -> int:
        """As `WorkspaceWorld.audit`."""
        return self._world.audit()
