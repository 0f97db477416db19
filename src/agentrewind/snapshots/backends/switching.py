"""Worlds that bring a state back by putting another tree in the place of the present one, in one step.

The target is prepared where nobody sees it, what differs is read and compared there, then the trees are switched. So a
crash leaves either the old state or the new one, never a mixture.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import RestoreRefused, SnapshotDamaged
from agentrewind.core.world import Gap, Pending, RestoreReport, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.backends.ledger import LedgerWorld, Observed
from agentrewind.snapshots.backends.looking import acts_between, not_as_recorded
from agentrewind.snapshots.intent import clear_intent, write_intent
from agentrewind.snapshots.reading import HashingSink
from agentrewind.snapshots.rules import PathRules

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from agentrewind.core.world import Act
    from agentrewind.snapshots.manifests import Manifest

RULES = PathRules(excluded=(), volatile=())
"""Everything is in the tree that is switched; the private class is only there to be named."""
ANOTHER_SYSTEM = "another file system is mounted here"
_SECRET = "a secret: kept, but readable in the store"  # noqa: S105
_SWITCHED = named("backend.tree-switched")
_LIVE_SAVED = named("backend.live-saved")


def secrets_in(state: Manifest) -> list[Gap]:
    """Private paths, which these backends can't seal."""
    return [Gap(path, _SECRET) for path, data in sorted(state.items()) if data[0] & e.PRIVATE]


class SwitchedWorld(LedgerWorld):
    """See `LedgerWorld`. A restore switches the whole tree, so it refuses while a process stands inside, or something
    is mounted there.
    """

    rules_digest: ClassVar[str] = RULES.digest

    @abstractmethod
    def _prepared(self, name: SnapshotId) -> AbstractContextManager[int]:
        """The tree of a snapshot, ready to be switched in, as a directory descriptor."""

    @abstractmethod
    def _switch(self, name: SnapshotId) -> tuple[Gap, ...]:
        """Put what was prepared in the place of the workspace; what was written meanwhile and is saved now.

        Raises:
            RestoreRefused: nothing was touched.
        """

    @abstractmethod
    def _stored(self, name: SnapshotId) -> AbstractContextManager[int]:
        """The tree of a snapshot to be read, as a directory descriptor."""

    @abstractmethod
    def _now(self) -> Manifest:
        """The present state; nothing is kept."""

    def _rehearse(self, name: SnapshotId) -> RestoreReport:
        live, target = self._now(), self._ledger.state(name)
        acts = acts_between(live, target)
        self._refuse_mounts(live, target)
        with self._stored(name) as tree:
            self._refuse_damaged(tree, name, acts)
        return RestoreReport(name, None, acts, dry_run=True)

    def _bring_back(self, name: SnapshotId, *, accept_incomplete: bool) -> RestoreReport:
        saved = self._save(f"before restoring {name[:12]}").id
        reach(_LIVE_SAVED)
        live, target = self._ledger.state(saved), self._ledger.state(name)
        acts = acts_between(live, target)
        if not acts:
            clear_intent(self._directory)
            return RestoreReport(name, saved, verified=True)
        self._refuse_mounts(live, target)
        with self._prepared(name) as tree:
            self._refuse_damaged(tree, name, acts)
            self._refuse_unreadable(saved, acts)
            self.sync()
            write_intent(self._directory, Pending(name, saved), accept_incomplete=accept_incomplete)
            try:
                drift = self._switch(name)
            except RestoreRefused:
                clear_intent(self._directory)
                raise
        self._current = name
        reach(_SWITCHED)
        clear_intent(self._directory)
        return RestoreReport(name, saved, acts, verified=True, drift=drift)

    def _refuse_damaged(self, tree: int, name: SnapshotId, acts: tuple[Act, ...]) -> None:
        paths = [act.path for act in acts]
        wrong = not_as_recorded(tree, self._ledger.state(name), paths, HashingSink(self._ledger.keys))
        if wrong:
            raise SnapshotDamaged(
                f"Snapshot {name} can't be brought back: {'; '.join(f'{gap.path!r} {gap.why}' for gap in wrong[:10])}."
                " Nothing was touched."
            )

    def _refuse_unreadable(self, saved: SnapshotId, acts: tuple[Act, ...]) -> None:
        """Raises: RestoreRefused: what is to go can't be read back as it is; nothing was touched."""
        live = self._ledger.state(saved)
        paths = [act.path for act in acts if e.kind_of(live.get(act.path)) == e.FILE]
        with self._stored(saved) as tree:
            wrong = not_as_recorded(tree, live, paths, HashingSink(self._ledger.keys))
        if wrong:
            raise RestoreRefused(
                f"What is there now is saved, but can't be read back: {wrong[0].path!r} {wrong[0].why}. Nothing was"
                " touched."
            )

    @staticmethod
    def _refuse_mounts(live: Manifest, target: Manifest) -> None:
        """What isn't stored would go with the tree that is switched away."""
        for path, data in live.items():
            if data[1:2] == e.UNREADABLE or (data[1:2] == e.EXCLUDED and e.decode(data).why == ANOTHER_SYSTEM):
                why = e.decode(data).why
                raise RestoreRefused(f"{path!r}: {why}, so this tree can't be switched. Nothing was touched.")
        for path, data in target.items():
            if data[1:2] == e.EXCLUDED and e.decode(data).why == ANOTHER_SYSTEM and live.get(path) != data:
                raise RestoreRefused(
                    f"{path!r} was another file system, which the snapshot doesn't hold. Nothing was touched."
                )

    def _problems(self, name: SnapshotId, state: Manifest) -> list[Gap]:
        with self._stored(name) as tree:
            return not_as_recorded(tree, state, sorted(state), HashingSink(self._ledger.keys))

    def _observed(self, entries: Manifest, unstable: list[Gap], lossy: list[Gap]) -> Observed:
        gaps = sorted([*lossy, *secrets_in(entries)], key=lambda gap: gap.path)
        return Observed(entries, tuple(unstable), tuple(gaps))
