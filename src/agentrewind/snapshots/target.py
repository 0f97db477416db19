"""The state that a restore is to reach: as the store has it, as the present rules name it, looked through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrewind.core.world import Gap, SnapshotId
from agentrewind.snapshots import plan as planning
from agentrewind.snapshots.between import Overlaid, between
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.foresight import refuse_foreseeable
from agentrewind.snapshots.manifests import joined
from agentrewind.snapshots.rekeying import rekeyed
from agentrewind.snapshots.vetting import harmless, vet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrewind.snapshots.manifests import Delta
    from agentrewind.snapshots.plan import Difference, Plan
    from agentrewind.snapshots.scan import Seen
    from agentrewind.snapshots.site import Site


class Target:
    """The snapshot `name` as a goal.

    Attributes:
        contents: its objects. lost: what is never brought back from a store that was made elsewhere.
    """

    def __init__(self, site: Site, name: SnapshotId) -> None:
        self.contents = Contents(site.store)
        self.lost: tuple[Gap, ...] = ()
        self._store = site.store
        self._rules = site.rules
        self._name = name
        self._foreign = site.foreign
        self._as_stored = not site.foreign and site.store.rules(name) == site.rules.digest
        self._whole: Mapping[str, bytes] | None = None
        self._step: Delta = []

    @property
    def same_rules(self) -> bool:
        """Whether the path rules of today are those of then."""
        return self._store.rules(self._name) == self._rules.digest

    def whole(self) -> Mapping[str, bytes]:
        """All of it.

        Raises:
            SnapshotDamaged: it can't be read, or nothing that we saved looks like that.
        """
        if self._whole is None:
            state: Mapping[str, bytes] = self._store.state(self._name)
            if self._foreign:
                vet(state, state, self._name)  # before the rules look at it
                state, lost = harmless(state)
                self.lost = tuple(lost)
            self._whole = state if self._as_stored else rekeyed(dict(state), self._rules, self.contents)
        return self._whole

    def difference(self, live: SnapshotId, seen: Seen) -> Difference:
        """From the snapshot `live`, which is what `seen` saw, to this. Raises: SnapshotDamaged."""
        if not self._as_stored:
            return self.compared(seen)
        self._step = between(self._store, live, self._name)
        return self._overlaid(self._step, seen)

    def difference_since(self, moved: Delta, seen: Seen) -> Difference:
        """As `difference`, where `seen` has by now taken in the step `moved` from that snapshot."""
        if not self._as_stored:
            return self.compared(seen)
        back = [(path, new, old) for path, old, new in moved]
        return self._overlaid(joined((back, self._step)), seen)

    def _overlaid(self, step: Delta, seen: Seen) -> Difference:
        coverage = self._store.coverage(self._name)
        gaps = {gap.path for gap in (*coverage.excluded, *coverage.unreadable, *coverage.too_large)} | seen.gaps
        target = Overlaid(seen.entries, step)
        paths = [path for path, _, _ in step]
        vet(target, paths, self._name)
        return planning.Difference(seen.entries, target, paths, gaps)

    def compared(self, seen: Seen) -> Difference:
        """From what `seen` saw to this, every path looked at. Raises: SnapshotDamaged."""
        found = planning.compared(seen.entries, self.whole())
        vet(found.target, found.paths, self._name)
        return found

    def check(self, root: int, todo: Plan, seen: Seen) -> None:
        """Return if nothing speaks against carrying out the plan below the directory `root`.

        Raises:
            SnapshotDamaged, RestoreRefused: nothing was touched.
        """
        refuse_foreseeable(root, todo, seen, self.contents)
        self.contents.check(todo.files, self._name)
