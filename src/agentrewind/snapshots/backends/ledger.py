"""What the backends share: a ledger that says what each snapshot is; the bytes lie in a form of the backend's own.

The ledger is a snapshot store without contents: states, labels, coverage and parents in append-only packs. A snapshot
is there once its ledger record is; what a backend left behind before that is swept away or ignored.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import NO_ROOM, SnapshotDamaged, SnapshotIncomplete, StorageFull, StoreError, UsageError
from agentrewind.core.world import (
    Capabilities,
    Changes,
    Gap,
    Pending,
    RestoreReport,
    Snapshot,
    SnapshotId,
    Verification,
)
from agentrewind.snapshots import manifests
from agentrewind.snapshots.accepting import accepted
from agentrewind.snapshots.catalogue import new_id
from agentrewind.snapshots.intent import clear_intent, read_intent
from agentrewind.snapshots.lease import Lease
from agentrewind.snapshots.plain import write_whole
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.vetting import vet

if TYPE_CHECKING:
    from agentrewind.snapshots.manifests import Delta, Manifest

_BYTES_KEPT = named("backend.bytes-kept")


@dataclass(slots=True)
class Observed:
    """What stands in a workspace, in the form in which this backend can bring it back."""

    entries: Manifest
    unstable: tuple[Gap, ...] = ()
    lossy: tuple[Gap, ...] = ()


class LedgerWorld(ABC):
    """A directory and its snapshots. See `World` for the promises; one thread at a time."""

    backend: ClassVar[str]
    rules_digest: ClassVar[str]
    capabilities: Capabilities

    def __init__(self, root: Path, store: Path, lease: Lease) -> None:
        self.root = root
        self._directory = store
        self._lease = lease
        _claim(store, self.backend)
        self._ledger = Store.open(store / "ledger", writable=True, root=root)
        self._current: SnapshotId | None = None
        self._closed = False

    @classmethod
    def open(cls, root: Path, store: Path, *, holder: str = "") -> Self:
        """Open the workspace `root` with its snapshots in `store`, which is made if it isn't there.

        Raises:
            WorkspaceRefused: not a directory that can be a workspace, or this backend isn't available there; the text
                says why. Nothing was touched.
            Busy: another process has this workspace, one above or one below it.
            UsageError: the store is another backend's.
            StorageFull: no room to make the store.
        """
        root = accepted(root, store, ())
        store = store.resolve()
        lease = Lease.take(store.parent / "leases", root, holder)
        try:
            return cls(root, store, lease)
        except BaseException:
            lease.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lease back; what was saved stays. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(OSError, StoreError):  # caches: without them the next opening takes longer
                self._ledger.save_index()
                self._save_caches()
        finally:
            self._ledger.close()
            self._lease.release()

    def _save_caches(self) -> None:  # noqa: B027 (a backend may have none)
        """Keep what makes the next opening faster."""

    # Saving

    def snapshot(self, label: str = "") -> Snapshot:
        """Save the present state; the same snapshot as before, and nothing written, where nothing has changed.

        Raises:
            StorageFull: nothing was added; earlier snapshots are as they were.
            StoreError: the workspace is gone, or busy in a way that this backend can't bear.
        """
        return self._save(label)

    def _save(self, label: str) -> Snapshot:
        try:
            return self._save_as(new_id(), label)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise StorageFull(
                    f"{self._directory}: no room for another snapshot. Earlier ones are as they were."
                ) from error
            raise StoreError(f"{self.root} could not be saved: {error}. Earlier snapshots are as they were.") from error

    def _save_as(self, name: SnapshotId, label: str) -> Snapshot:
        self._ledger.begin()
        try:
            observed = self._observe(name)
            if (same := self._unchanged(observed)) is not None:
                self._ledger.abort()
                self._forget(name)
                return same
            self._keep(name, observed, label)
            reach(_BYTES_KEPT)
            snapshot = self._record(name, label, observed)
        except BaseException:
            self._ledger.abort()
            self._forget(name)
            raise
        self._committed(name)
        return snapshot

    def _unchanged(self, observed: Observed) -> Snapshot | None:
        """The snapshot that the workspace went on from, if it still is that."""
        if self._current is None or self._ledger.state(self._current) != observed.entries:
            return None
        before = self._ledger.snapshot(self._current)
        return before if before.coverage.lossy == observed.lossy else None

    def _record(self, name: SnapshotId, label: str, observed: Observed) -> Snapshot:
        """End the append that was begun: from here on the snapshot is there, and what the workspace goes on from."""
        before = None if self._current is None else self._ledger.snapshot(self._current)
        delta = self._step(observed)
        snapshot = _described(name, label, observed, delta, before)
        self._ledger.commit(snapshot, delta, observed.entries, self.rules_digest)
        self._current = name
        return snapshot

    def _step(self, observed: Observed) -> Delta:
        """From the snapshot that the workspace went on from to what is observed."""
        base = {} if self._current is None else self._ledger.state(self._current)
        return manifests.difference(base, observed.entries)

    @abstractmethod
    def _observe(self, name: SnapshotId) -> Observed:
        """The present state; whatever must be made to see it safely is made under `name`."""

    @abstractmethod
    def _keep(self, name: SnapshotId, observed: Observed, label: str) -> None:
        """Make the bytes of `observed` survive the death of any process. May set right what was seen too early."""

    def _forget(self, name: SnapshotId) -> None:  # noqa: B027 (it may have made nothing)
        """There will be no snapshot `name`: take away what was made for it."""

    def _committed(self, name: SnapshotId) -> None:  # noqa: B027 (it may not matter)
        """The snapshot `name` is there, and is what the workspace goes on from."""

    def sync(self) -> None:
        """Return once everything saved so far would survive a power loss."""
        self._ledger.sync()

    # Looking

    def find(self, snapshot: SnapshotId) -> Snapshot:
        """The snapshot of that id, or of the only id that begins so.

        Raises:
            SnapshotNotFound: none, or several.
            SnapshotDamaged: its description can't be read.
        """
        return self._ledger.snapshot(self._ledger.resolve(snapshot))

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All whose description can be read, oldest first."""
        found = []
        for name in self._ledger.names():
            with contextlib.suppress(SnapshotDamaged):
                found.append(self._ledger.snapshot(name))
        return tuple(found)

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes:
        """What changed from `a` to `b`. Raises: SnapshotNotFound, SnapshotDamaged."""
        return manifests.changes(manifests.difference(self._state(a), self._state(b)))

    def _state(self, snapshot: SnapshotId) -> Manifest:
        return self._ledger.state(self._ledger.resolve(snapshot))

    def verify(self, snapshot: SnapshotId) -> Verification:
        """Read everything that a snapshot holds and compare it with what was recorded of it."""
        name = self._ledger.resolve(snapshot)
        try:
            state, description = self._ledger.state(name), self._ledger.snapshot(name)
        except SnapshotDamaged as error:
            return Verification(ok=False, checked=0, problems=(Gap("", str(error)),))
        problems = self._problems(name, state)
        if f"{manifests.fingerprint(state):064x}" != description.fingerprint:
            problems.append(Gap("", "the state doesn't have the fingerprint it should have"))
        return Verification(not problems, len(state), tuple(problems))

    @abstractmethod
    def _problems(self, name: SnapshotId, state: Manifest) -> list[Gap]:
        """What of a snapshot isn't as recorded."""

    # Bringing back

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        """Save the present state, then make the workspace equal to `snapshot`; verify it.

        Raises:
            SnapshotNotFound, SnapshotDamaged, SnapshotIncomplete, RestoreRefused, StorageFull: nothing was touched.
            RestoreInterrupted: stopped half-way; `pending` says so and `resume()` finishes it.
        """
        name = self._ledger.resolve(snapshot)
        found = self._ledger.snapshot(name)
        if not found.coverage.complete and not accept_incomplete:
            gap = (*found.coverage.unreadable, *found.coverage.too_large)[0]
            raise SnapshotIncomplete(
                f"Snapshot {name} is incomplete: {gap.path!r} {gap.why}. Nothing was touched. Accept an incomplete"
                " restore to leave such paths as they are."
            )
        self._refuse_hostile(name)
        if dry_run:
            return self._rehearse(name)
        return self._bring_back(name, accept_incomplete=accept_incomplete)

    def _refuse_hostile(self, name: SnapshotId) -> None:
        """Raises: SnapshotDamaged: no scan of ours can have seen such a state; nothing was touched."""
        state = self._ledger.state(name)
        vet(state, state, name)

    @abstractmethod
    def _rehearse(self, name: SnapshotId) -> RestoreReport: ...

    @abstractmethod
    def _bring_back(self, name: SnapshotId, *, accept_incomplete: bool) -> RestoreReport: ...

    @property
    def pending(self) -> Pending | None:
        """A restore that a crash cut off, if there is one. Raises: StoreError: its record is damaged."""
        found = read_intent(self._directory)
        return None if found is None else found.pending

    def resume(self) -> RestoreReport | None:
        """Finish a restore that was cut off; what changed since is saved first, as `report.live`. None if there was
        none.

        Raises:
            As `restore`; the restore stays pending.
        """
        found = read_intent(self._directory)
        if found is None:
            return None
        self._refuse_hostile(found.pending.target)
        report = self._bring_back(found.pending.target, accept_incomplete=found.accept_incomplete)
        clear_intent(self._directory)
        return report


def _claim(store: Path, backend: str) -> None:
    """Say whose store this is.

    Raises:
        UsageError: another backend's.
        StorageFull: no room to make it.
    """
    mark = store / "backend"
    text = f"agentrewind {backend} 1\n".encode()
    try:
        if not mark.exists():
            if (store / "format").exists():
                raise UsageError(f"{store} is the main snapshot store; choose another directory for {backend}.")
            store.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(mark, text, durable=True)
        if (found := mark.read_bytes()) != text:
            raise UsageError(f"{store} is not a store of {backend}: it says {found[:60]!r}.")
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(f"{store}: no room to make a store. Nothing was touched.") from error
        raise StoreError(f"{store}: can't make a store there: {error.strerror}") from error


def _described(name: SnapshotId, label: str, observed: Observed, delta: Delta, before: Snapshot | None) -> Snapshot:
    totals, weight = manifests.Totals(), 0
    if before is not None:
        totals = manifests.Totals(before.coverage.entries, before.coverage.bytes)
        weight = int(before.fingerprint, 16)
    coverage = manifests.coverage(observed.entries, totals.moved(delta), observed.unstable)
    return Snapshot(
        id=name,
        fingerprint=f"{manifests.moved_fingerprint(weight, delta):064x}",
        coverage=replace(coverage, lossy=observed.lossy, found_by="scan", why_scanned="this backend doesn't watch"),
        changes=manifests.changes(delta),
        created_ns=time.time_ns(),
        parent=None if before is None else before.id,
        label=label,
    )
