"""A workspace directory as it stands now, and what is known of it: looked at, and saved in its store."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentrewind.core.errors import RestoreRefused, SnapshotDamaged, StoreError, UsageError
from agentrewind.core.world import Coverage, Snapshot, SnapshotId
from agentrewind.snapshots import manifests
from agentrewind.snapshots.beneath import DIRECTORY, handle_path
from agentrewind.snapshots.between import between
from agentrewind.snapshots.cache import load_cache, save_cache
from agentrewind.snapshots.catalogue import new_id
from agentrewind.snapshots.clock import Clock, MountTable, StillClock
from agentrewind.snapshots.detector import Everything
from agentrewind.snapshots.finder import Finder, Ground, Manner
from agentrewind.snapshots.origin import is_ours, mark
from agentrewind.snapshots.reading import HashingSink
from agentrewind.snapshots.scan import Pry, Seen
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.vetting import vet
from agentrewind.snapshots.watch import Watch, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentrewind.snapshots.detector import Detector
    from agentrewind.snapshots.rules import PathRules

Durability = Literal["process", "power"]
Detection = Literal["auto", "watch", "scan"]
CHOSEN = "scanning was asked for"
READING = "opened for reading only"


class Site:
    """The directory `root`, open, and its store.

    Attributes:
        known: what the last look saw, changed in place by the next. current: the snapshot that the workspace was last
            equal to, or went on from.
        foreign: the store was made elsewhere, so nothing in it is believed.
    """

    def __init__(
        self,
        root: Path,
        store: Store,
        rules: PathRules,
        *,
        durability: Durability,
        progress: Callable[[int, int | None], None] | None,
        detection: Detection = "auto",
    ) -> None:
        self.root = root
        self.store = store
        self.rules = rules
        self.durability = durability
        self.progress = progress
        self.fd = os.open(root, DIRECTORY)
        self._mount_table = MountTable(root)
        self._mounts = self._mount_table.read()
        self._clock = Clock(local=self._mounts.local) if store.writable else StillClock()
        mark(store)
        self.foreign = not is_ours(store)
        self._vetted: set[SnapshotId] = set()
        self._current, known = self._last_known()
        self._finder = Finder(self._detector(detection), known)
        self._finder.base_is(self._base())
        self._latest: Snapshot | None = None

    def _last_known(self) -> tuple[SnapshotId | None, Seen]:
        """What an earlier opening knew, where it can be believed."""
        current, known = load_cache(self.store, self.root, self.rules)
        try:
            if current is not None:
                self.state(current)
        except SnapshotDamaged:
            return None, Seen()
        return current, known

    def state(self, name: SnapshotId) -> manifests.Manifest:
        """The state of a snapshot, looked through where somebody else may have written it. Raises: SnapshotDamaged."""
        state = self.store.state(name)
        if self.foreign and name not in self._vetted:
            vet(state, state, name)
            self._vetted.add(name)
        return state

    def _detector(self, detection: Detection) -> Detector:
        """Raises: UsageError: watching was asked for, and isn't possible here."""
        if not self.store.writable:
            return Everything(READING)
        if detection == "scan":
            return Everything(CHOSEN)
        if why := refusal(self.fd):
            if detection == "watch":
                raise UsageError(f"{self.root} can't be watched: {why}.")
            return Everything(why)
        return Watch()

    def _base(self) -> manifests.Manifest:
        return {} if self._current is None else self.store.state(self._current)

    @property
    def known(self) -> Seen:
        return self._finder.seen

    @known.setter
    def known(self, seen: Seen) -> None:
        assert seen is self._finder.seen, "looking takes over what it saw by itself"

    @property
    def manner(self) -> Manner:
        """How the last look found what it found."""
        return self._finder.manner

    @property
    def current(self) -> SnapshotId | None:
        return self._current

    @current.setter
    def current(self, name: SnapshotId) -> None:
        """The workspace is equal to `name` by now, but for what `known` says."""
        if self._current is None:
            self._finder.base_is(self.store.state(name))
        else:
            self._finder.base_moved(between(self.store, self._current, name))
        self._current = name

    def close(self) -> None:
        self._finder.detector.close()
        self._mount_table.close()
        os.close(self.fd)
        self.fd = -1

    def save_cache(self) -> None:
        """Keep what was seen for the next opening: without it that takes longer."""
        save_cache(self.store, self.root, self.rules, self.current, self.known)

    def save(
        self,
        label: str,
        pry: Pry | None = None,
        *,
        also: frozenset[str] = frozenset(),
        automatic: bool = False,
        own: bool = False,
    ) -> Snapshot:
        """The present state in the store; nothing is written where it is that of `current`, unless it is to be an entry
        of its `own`, or the store lacks something that it held.

        `also`: volatile paths that are to be saved. `automatic`: nobody asked for it.

        Raises:
            StorageFull, OSError: nothing was added.
        """
        self.store.begin()
        finder = self._finder
        try:
            finder.look(self._ground(also), self.store, keeps=True, pry=pry)
            delta = finder.delta()
            if self._current is not None and not (delta or own or self.store.has_fresh):
                self.store.abort()
                self.store.keep(self._current)
                return self._described(self._current)
            snapshot = self._named(label, delta, automatic=automatic)
            self.store.commit(snapshot, delta, finder.seen.entries, self.rules.digest)
        except BaseException:
            finder.distrust()
            self.store.abort()
            raise
        self.store.let_state_go(snapshot.id)
        finder.apart.clear()
        self._current, self._latest = snapshot.id, snapshot
        return snapshot

    def _described(self, name: SnapshotId) -> Snapshot:
        if self._latest is None or self._latest.id != name:
            self._latest = self.store.snapshot(name)
        return self._latest

    def distrust(self, paths: Iterable[str]) -> None:
        """Read these again at the next look, whatever their times say."""
        self.known.racy.update(path for path in paths if path in self.known.entries)

    def _named(self, label: str, delta: manifests.Delta, *, automatic: bool) -> Snapshot:
        totals, weight = manifests.Totals(), 0
        if (current := self._current) is not None:
            before = self.store.coverage(current)
            totals, weight = manifests.Totals(before.entries, before.bytes), int(self.store.fingerprint(current), 16)
        totals = totals.moved(delta)
        return Snapshot(
            id=new_id(),
            fingerprint=f"{manifests.moved_fingerprint(weight, delta):064x}",
            coverage=self._coverage(totals),
            changes=manifests.changes(delta),
            created_ns=time.time_ns(),
            parent=self._current,
            label=label,
            automatic=automatic,
        )

    def _coverage(self, totals: manifests.Totals) -> Coverage:
        seen, manner = self._finder.seen, self._finder.manner
        gaps = {path: seen.entries[path] for path in seen.gaps}
        found = manifests.coverage(gaps, totals, tuple(seen.unstable))
        return replace(found, volatile=seen.volatile, found_by=manner.found_by, why_scanned=manner.why)

    def _ground(self, also: frozenset[str] = frozenset()) -> Ground:
        mounts = self._mounts
        rules = replace(self.rules, kept=also) if also else self.rules
        self.distrust(also)
        return Ground(self.fd, rules, self._clock, mounts.tick_ns, mounts.inside, mounts.device, progress=self.progress)

    def look(self, pry: Pry | None = None, *, also: frozenset[str] = frozenset()) -> Seen:
        """Bring `known` up to date, and keep nothing but ids."""
        self._finder.look(self._ground(also), HashingSink(self.store.keys), keeps=False, pry=pry)
        return self._finder.seen

    def read_events(self) -> None:
        """Take what the kernel tells out of its queue, so that it has room for more; the next look knows it."""
        self._finder.detector.nominate()

    def quiet(self) -> bool:
        """Whether nothing that a look found has changed since the last save, as far as that is told without a look."""
        return self._current is not None and self._mount_table.read() == self._mounts and self._finder.quiet()

    def moved(self) -> manifests.Delta:
        """The step from `current` to what the last look saw."""
        return self._finder.delta()

    def audit(self) -> int:
        """As `WorkspaceWorld.audit`."""
        return self._finder.audit(self._ground(), HashingSink(self.store.keys))

    def follow_root(self, *, make: bool) -> None:
        """Make sure that the directory at the root's path is the one that was opened; where it was removed, and nothing
        stands there by now, it may be made again.

        Raises:
            RestoreRefused (where it was to be made), StoreError: it is another one, gone or elsewhere; which files are
                meant can't be known. Nothing was touched.
        """
        mine = os.fstat(self.fd)
        try:
            now = os.stat(self.root, follow_symlinks=False)
        except FileNotFoundError:
            if not make or mine.st_nlink:
                raise self._lost("is gone", mine, make=make) from None
            self._make_root()
        except OSError as error:
            raise self._lost(f"can't be reached any more ({error.strerror})", mine, make=make) from None
        else:
            if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino):
                raise self._lost("is another directory, or something else, by now", mine, make=make)
        self._mounts = self._mount_table.read()

    def _make_root(self) -> None:
        self.root.mkdir(mode=0o700)
        fresh = os.open(self.root, DIRECTORY)
        os.close(self.fd)
        self.fd = fresh

    def _lost(self, what: str, mine: os.stat_result, *, make: bool) -> StoreError:
        where = ""
        if mine.st_nlink:
            where = f" What was there is now {os.readlink(handle_path(self.fd))}."
        kind = RestoreRefused if make else StoreError
        return kind(
            f"{self.root} {what} since it was opened: nothing is guessed, and nothing was touched.{where} Its snapshots"
            " are safe: put the directory back, or begin anew with what is there now, and restore one of them."
        )
