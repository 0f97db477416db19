"""A world in memory and a journal in memory: small, real, and fast enough for thousands of random runs."""

from __future__ import annotations

import itertools

from agentrewind.core.codec import canonical, digest
from agentrewind.core.errors import RestoreInterrupted, SnapshotNotFound, StorageFull
from agentrewind.core.tree import RunTree
from agentrewind.core.world import (
    Act,
    Capabilities,
    Change,
    Changes,
    Coverage,
    Pending,
    RestoreReport,
    Snapshot,
    SnapshotId,
    Verification,
)


class MemoryWorld:
    """Files are a dictionary of names to texts."""

    capabilities = Capabilities()

    def __init__(self, files: dict[str, str] | None = None) -> None:
        self.files = dict(files or {})
        self.saved: dict[SnapshotId, dict[str, str]] = {}
        self.described: dict[SnapshotId, Snapshot] = {}
        self.at: SnapshotId | None = None
        self.pending: Pending | None = None
        self.fails_to_restore: set[SnapshotId] = set()
        self.breaks_restoring: set[SnapshotId] = set()
        self.full = False
        self.incomplete = False
        self._numbers = itertools.count(1)

    def snapshot(self, label: str = "") -> Snapshot:
        if self.full:
            raise StorageFull("No room left for snapshots; the earlier ones are as they were.")
        if self.at is not None and self.saved[self.at] == self.files:
            return self.described[self.at]
        identity = SnapshotId(f"s{next(self._numbers)}")
        before = self.saved[self.at] if self.at else {}
        gaps = () if not self.incomplete else (_gap(),)
        snapshot = Snapshot(
            identity,
            digest(self.files),
            Coverage(entries=len(self.files), unreadable=gaps),
            _changes(before, self.files),
            0,
            self.at,
            label,
        )
        self.saved[identity] = dict(self.files)
        self.described[identity] = snapshot
        self.at = identity
        return snapshot

    def find(self, snapshot: SnapshotId) -> Snapshot:
        try:
            return self.described[snapshot]
        except KeyError:
            raise SnapshotNotFound(f"no snapshot {snapshot}") from None

    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(self.described.values())

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        target = self.saved[self.find(snapshot).id]
        changes = _changes(self.files, target)
        acts = tuple(Act("write", change.path) for change in changes.items)
        if dry_run:
            return RestoreReport(snapshot, None, acts, dry_run=True)
        live = self.snapshot("before a restore").id
        if snapshot in self.fails_to_restore:
            raise SnapshotNotFound(f"{snapshot} is damaged")
        if snapshot in self.breaks_restoring:
            self.files["half"] = "done"
            self.pending = Pending(snapshot, live)
            raise RestoreInterrupted("stopped half-way")
        self.files = dict(target)
        self.at = snapshot
        self.pending = None
        return RestoreReport(snapshot, live, acts, verified=True)

    def resume(self) -> RestoreReport | None:
        return None if self.pending is None else self.restore(self.pending.target)

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes:
        return _changes(self.saved[a], self.saved[b])

    def verify(self, snapshot: SnapshotId) -> Verification:
        return Verification(ok=snapshot in self.saved, checked=1)

    def sync(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing is held."""


def _gap():
    from agentrewind.core.world import Gap

    return Gap("secret", "permission denied")


def _changes(before: dict[str, str], after: dict[str, str]) -> Changes:
    names = sorted(before.keys() | after.keys())
    items = tuple(
        Change("A" if name not in before else "D" if name not in after else "M", name)
        for name in names
        if before.get(name) != after.get(name)
    )
    return Changes(items, len(items))


class MemoryLog:
    """The journal of a run, kept in memory."""

    def __init__(self) -> None:
        self.events = []
        self.contents = {}
        self.tree = RunTree()
        self.full = False

    def append(self, event) -> None:
        if self.full:
            raise StorageFull("No room left for the journal; what it holds is sound.")
        self.tree.apply(event)
        self.events.append(event)

    def put(self, content):
        identity = digest(content)
        self.contents[identity] = canonical(content)
        return identity

    def get(self, content):
        import json

        return json.loads(self.contents[content])

    def sync(self) -> None:
        """Nothing to wait for."""
