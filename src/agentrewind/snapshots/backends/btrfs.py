"""A workspace that is a btrfs subvolume: a snapshot is a read-only subvolume, a restore an exchange of two.

Nothing is copied, so many rollouts can be forked from one snapshot. All that btrfs keeps comes back; what doesn't lie
in the subvolume itself (mounts, subvolumes inside) stops a restore.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, ClassVar

from agentrewind.core.errors import RestoreInterrupted, RestoreRefused, SnapshotDamaged, UsageError, WorkspaceRefused
from agentrewind.core.world import Capabilities, Gap, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.backends import inside, subvolumes
from agentrewind.snapshots.backends.looking import differing, on_device
from agentrewind.snapshots.backends.mounts import mounted_at
from agentrewind.snapshots.backends.switching import ANOTHER_SYSTEM, RULES, SwitchedWorld
from agentrewind.snapshots.beneath import sync_file_system
from agentrewind.snapshots.cache import load_cache, save_cache
from agentrewind.snapshots.catalogue import new_id
from agentrewind.snapshots.clock import TICK_NS, Clock, mounts_of
from agentrewind.snapshots.intent import read_intent
from agentrewind.snapshots.reading import HashingSink, inode_of
from agentrewind.snapshots.scan import Scan, Seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentrewind.snapshots.backends.ledger import Observed
    from agentrewind.snapshots.lease import Lease
    from agentrewind.snapshots.manifests import Manifest

_INSIDE = "a subvolume of its own"


class _Moment:
    """A clock that was read before the tree was frozen: what changed later was recent by then."""

    def __init__(self, now_ns: int) -> None:
        self._now_ns = now_ns

    def now_ns(self, _latest_seen_ns: int) -> int:
        return self._now_ns


def why_not(root: Path, store: Path) -> str:
    """Why the workspace `root` can't be kept as a btrfs subvolume; empty where it can."""
    if mounts_of(root).fstype != "btrfs":
        return "it isn't on a btrfs file system"
    if os.stat(root).st_ino != subvolumes.ROOT_INODE:
        return f"it isn't a subvolume; make it one with `btrfs subvolume create {root}` before there is work in it"
    if mounted_at(root):
        return "it is a mount point, which can't be exchanged; mount the subvolume above it"
    above = next(path for path in (store, *store.parents) if path.exists())
    if subvolumes.mount_of(above) != subvolumes.mount_of(root.parent):
        return f"its store {store} isn't reached through the same mount"
    return ""


class BtrfsWorld(SwitchedWorld):
    """See `SwitchedWorld`."""

    backend: ClassVar[str] = "btrfs"
    capabilities = Capabilities(private_paths=False)

    def __init__(self, root: Path, store: Path, lease: Lease) -> None:
        if why := why_not(root, store):
            raise WorkspaceRefused(f"{root} can't be kept as btrfs subvolumes: {why}.")
        super().__init__(root, store, lease)
        self._states = store / "states"
        self._aside = store / "aside"
        self._states.mkdir(mode=0o700, exist_ok=True)
        self._clock = Clock(local=True)
        self._current, self._known = load_cache(self._ledger, root, RULES)
        self._sweep()

    def _sweep(self) -> None:
        """Take away what a killed process left: it isn't in the ledger."""
        names = set(self._ledger.names())
        for left in self._states.iterdir():
            if left.name not in names:
                subvolumes.destroy(left)
        self._settle_aside()

    def _save_caches(self) -> None:
        save_cache(self._ledger, self.root, RULES, self._current, self._known)

    def sync(self) -> None:
        """Return once everything saved so far would survive a power loss."""
        with subvolumes.directory(self._states) as fd:
            sync_file_system(fd)
        super().sync()

    # Saving

    def _observe(self, name: SnapshotId) -> Observed:
        moment = self._clock.now_ns(self._known.latest_ns)
        subvolumes.snapshot(self.root, self._states / name, read_only=True)
        seen = self._scanned(self._states / name, self._known, moment)
        self._known = seen
        return self._observed(seen.entries, seen.unstable, [])

    def _scanned(self, tree: Path, known: Seen, moment: int) -> Seen:
        with subvolumes.directory(tree) as fd:
            seen = Scan(
                fd,
                RULES,
                HashingSink(self._ledger.keys),
                on_device(known, os.fstat(fd).st_dev),
                _Moment(moment),
                tick_ns=TICK_NS,
                mounts=mounts_of(self.root).inside,
            ).run()
        _name_subvolumes(seen)
        return seen

    def _keep(self, name: SnapshotId, observed: Observed, label: str) -> None:
        """The subvolume is there since it was observed."""

    def _forget(self, name: SnapshotId) -> None:
        if (self._states / name).exists():
            subvolumes.destroy(self._states / name)

    # Bringing back

    def _now(self) -> Manifest:
        return self._scanned(self.root, self._known, self._clock.now_ns(self._known.latest_ns)).entries

    @contextlib.contextmanager
    def _stored(self, name: SnapshotId) -> Iterator[int]:
        with subvolumes.directory(self._subvolume(name)) as fd:
            yield fd

    def _subvolume(self, name: SnapshotId) -> Path:
        """Raises: SnapshotDamaged: it is gone."""
        path = self._states / name
        if not path.is_dir():
            raise SnapshotDamaged(f"Snapshot {name} has no subvolume any more ({path}). Nothing was touched.")
        return path

    @contextlib.contextmanager
    def _prepared(self, name: SnapshotId) -> Iterator[int]:
        subvolumes.snapshot(self._subvolume(name), self._aside, read_only=False)
        try:
            with subvolumes.directory(self._aside) as fd:
                yield fd
        except BaseException:
            if self.pending is None:
                subvolumes.destroy(self._aside)
            raise

    def _switch(self, name: SnapshotId) -> tuple[Gap, ...]:
        if found := inside.standing_inside(self.root):
            raise RestoreRefused(
                f"{self.root} is in use by {inside.named(found)}; these would work on in the old tree. Nothing was"
                " touched. End them and try again."
            )
        try:
            subvolumes.exchange(self.root, self._aside)
        except OSError as error:
            raise RestoreRefused(f"{self.root} can't be exchanged: {error.strerror}. Nothing was touched.") from error
        live, target = self._known, self._ledger.state(name)
        drift = self._settle_aside()
        still = {path: sig for path, sig in live.signatures.items() if live.entries.get(path) == target.get(path)}
        self._known = Seen(
            target, still, live.racy & still.keys(), live.links, clock_ns=live.clock_ns, latest_ns=live.latest_ns
        )
        return drift

    def _settle_aside(self) -> tuple[Gap, ...]:
        """Take away the tree that was switched out, once all of it is saved; what isn't becomes a snapshot first."""
        if not self._aside.exists():
            return ()
        intent = read_intent(self._directory)
        seen = self._scanned(self._aside, self._known, self._clock.now_ns(self._known.latest_ns))
        saved = () if intent is None else (intent.pending.live, intent.pending.target)
        if not saved or any(not differing(self._ledger.state(name), seen.entries) for name in saved):
            subvolumes.destroy(self._aside)
            return ()
        return (self._kept_as_drift(seen),)

    def _kept_as_drift(self, seen: Seen) -> Gap:
        name, current = new_id(), self._current
        subvolumes.snapshot(self._aside, self._states / name, read_only=True)
        self._ledger.begin()
        try:
            self._record(name, "written during a restore", self._observed(seen.entries, seen.unstable, []))
        except BaseException as error:
            self._ledger.abort()
            raise RestoreInterrupted(
                f"What was written during the restore lies in {self._aside} and could not be saved: {error}. `resume()`"
                " tries again."
            ) from error
        self._current = current
        subvolumes.destroy(self._aside)  # only now: whatever happens before, it is settled at the next opening
        return Gap("", f"written while the tree was switched: saved as snapshot {name}")

    # Forking

    def fork(self, snapshot: SnapshotId, to: Path) -> None:
        """Make the new subvolume `to` with the state of a snapshot; nothing is copied, and it is a workspace.

        Raises:
            SnapshotNotFound. UsageError: something is there, or it is another file system.
        """
        name = self._ledger.resolve(snapshot)
        try:
            subvolumes.snapshot(self._states / name, to, read_only=False)
        except OSError as error:
            raise UsageError(f"{to} can't be made from snapshot {name}: {error.strerror}") from error


def _name_subvolumes(seen: Seen) -> None:
    """A subvolume inside isn't in a snapshot: an empty directory stands for it there."""
    for path, data in seen.entries.items():
        if data[1:2] != e.DIRECTORY or not path:
            continue
        if inode_of(seen.signatures[path])[1] == subvolumes.EMPTY_INODE:
            seen.entries[path] = e.encode(e.Entry(e.EXCLUDED, why=ANOTHER_SYSTEM))
