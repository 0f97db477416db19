"""A workspace directory as a `World`: scanned, saved in a store beside it, and brought back."""

from __future__ import annotations

import contextlib
import enum
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentrewind.core.errors import (
    SnapshotDamaged,
    SnapshotIncomplete,
    StoreError,
    UsageError,
)
from agentrewind.core.world import (
    Capabilities,
    Changes,
    Coverage,
    Gap,
    Pending,
    RestoreReport,
    Snapshot,
    SnapshotId,
    Verification,
)
from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests
from agentrewind.snapshots.accepting import accepted
from agentrewind.snapshots.attribution import Whose
from agentrewind.snapshots.beneath import opened, split
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.drift import Policy
from agentrewind.snapshots.entry import SMALL, ZERO_ID, Entry
from agentrewind.snapshots.exporting import export
from agentrewind.snapshots.intent import Intent, clear_intent, read_intent
from agentrewind.snapshots.lease import Lease
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.restoring import Restoring, rehearse
from agentrewind.snapshots.rules import PathClass, PathRules
from agentrewind.snapshots.site import Detection, Site
from agentrewind.snapshots.site import Durability as Durability  # noqa: PLC0414 (for those who open a world)
from agentrewind.snapshots.store import CARRIED, WORKERS, Store, of_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentrewind.snapshots.budget import Limits
    from agentrewind.snapshots.encryption import Encryption
    from agentrewind.snapshots.manifests import Manifest


class Absence(enum.Enum):
    """Why a path of a snapshot has no bytes to read. Five different things."""

    NOT_THERE = "not in the snapshot"
    NOT_A_FILE = "not a regular file"
    EXCLUDED = "excluded"
    UNREADABLE = "unreadable when the snapshot was taken"
    PRIVATE = "private"


class WorkspaceWorld:
    """A directory and its snapshots. See `World` for the promises; one thread at a time."""

    capabilities = Capabilities(drift=True)

    def __init__(self, site: Site, lease: Lease | None) -> None:
        self.root = site.root
        self.rules = site.rules
        self._site = site
        self._store = site.store
        self._lease = lease
        self._closed = False

    @classmethod
    def open(
        cls,
        root: Path,
        store: Path,
        *,
        rules: PathRules | None = None,
        durability: Durability = "process",
        progress: Callable[[int, int | None], None] | None = None,
        forbidden: Sequence[Path] = (),
        lease: bool = True,
        lease_dir: Path | None = None,
        holder: str = "",
        write: Callable[[int, bytes], int] = os.write,
        encryption: Encryption | None = None,
        limits: Limits | None = None,
        warn: Callable[[str], None] | None = None,
        background: bool = False,
        detector: Detection = "auto",
    ) -> WorkspaceWorld:
        """Open the workspace `root` with its snapshots in `store`, which is made if it isn't there.

        `forbidden` names directories that are never a workspace (a home directory). `lease=False` opens for reading
        only: nothing is written, neither in the workspace nor in the store. Leases lie in `lease_dir`, by default
        `leases` beside the store; processes that share workspaces must share it. `write` appends to the packs.
        A new store is encrypted if there is `encryption`; one that is needs its key. `limits` bound what the store may
        take, and `warn` is told once when that comes near. `background` brings snapshots to the disk while the program
        goes on, so that `sync` has little left to do.
        `detector`: how changes are found. `auto` watches where that can be relied on and scans elsewhere; the coverage
        of each snapshot says which, and why. `watch` refuses to open where watching isn't possible.

        Raises:
            WorkspaceRefused: not a directory that can be a workspace; nothing was touched.
            Busy: another process has this workspace, one above or one below it.
            UsageError: read-only and there is no store; or the key is missing or wrong; or watching was asked for
                where that isn't possible.
            StorageFull: no room to make the store.
        """
        root = accepted(root, store, forbidden)
        store = store.resolve()
        with contextlib.ExitStack() as undone:
            held = Lease.take(lease_dir or store.parent / "leases", root, holder) if lease else None
            if held is not None:
                undone.callback(held.release)
            opened = Store.open(
                store, writable=lease, write=write, root=root, holder=holder, limits=limits, warn=warn,
                encryption=encryption, background=background,
            )  # fmt: skip
            undone.callback(opened.close)
            rules = rules or PathRules()
            site = Site(root, opened, rules, durability=durability, progress=progress, detection=detector)
            undone.pop_all()
        return cls(site, held)

    def close(self) -> None:
        """Give the lease back; what was saved stays. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._store.writable:
                with contextlib.suppress(
                    OSError, StoreError
                ):  # both are caches: without them the next opening takes longer
                    self._store.save_index()
                    self._site.save_cache()
        finally:
            self._site.close()
            self._store.close()
            if self._lease is not None:
                self._lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Saving

    def snapshot(self, label: str = "", *, own: bool = False) -> Snapshot:
        """Save the present state; the same snapshot as before, and nothing written, where nothing has changed, unless
        it is to be an entry of its `own`.

        Raises:
            StorageFull: nothing was added; earlier snapshots are as they were.
            UsageError: opened for reading only.
            StoreError: the workspace is gone.
        """
        self._must_write()
        self._site.follow_root(make=False)
        snapshot = self._site.save(label, own=own)
        if self._site.durability == "power":
            self.sync()
        return snapshot

    def quiet(self) -> bool:
        """See `TellsApart`."""
        return self._site.quiet()

    @property
    def writable(self) -> bool:
        """Whether it was opened for more than reading."""
        return self._store.writable

    def _must_write(self) -> None:
        if not self._store.writable:
            raise UsageError(f"{self.root} was opened for reading only; open it with its lease to save or restore.")

    def sync(self) -> None:
        """Return once everything saved so far would survive a power loss."""
        self._store.sync()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know about the room that the store takes; each thing once."""
        return self._store.warnings

    def audit(self) -> int:
        """Compare everything that is known of the workspace with the disk, in idle time; how many paths had changed
        although nothing told of it. The next snapshot has them. Nothing is written.

        Raises:
            UsageError: opened for reading only.
            StoreError: the workspace is gone.
        """
        self._must_write()
        self._site.follow_root(make=False)
        return self._site.audit()

    # Looking

    def find(self, snapshot: SnapshotId) -> Snapshot:
        """The snapshot of that id, or of the only id that begins so.

        Raises:
            SnapshotNotFound: none, or several.
            SnapshotDamaged: its description can't be read.
        """
        return self._store.snapshot(self._resolve(snapshot))

    def _resolve(self, snapshot: str) -> SnapshotId:
        if SnapshotId(snapshot) not in self._store.names():
            self._store.refresh()
        return self._store.resolve(snapshot)

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All whose description can be read, oldest first."""
        self._store.refresh()
        found = []
        for name in self._store.names():
            with contextlib.suppress(SnapshotDamaged):
                found.append(self._store.snapshot(name))
        return tuple(found)

    def by_hand(self, snapshot: SnapshotId) -> bool:
        """Whether somebody asked for it, and neither a run nor a restore saved it by itself."""
        found = self.find(snapshot)
        of_a_run = of_run(self._store.made_by(found.id)) and found.id not in self._store.kept()
        return not (of_a_run or found.automatic)

    def fingerprint(self, snapshot: SnapshotId) -> str:
        return self.find(snapshot).fingerprint

    def coverage(self, snapshot: SnapshotId) -> Coverage:
        return self.find(snapshot).coverage

    def identical(self, a: SnapshotId, b: SnapshotId) -> bool:
        """Whether a restore from one to the other would change nothing."""
        return self.fingerprint(a) == self.fingerprint(b)

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes:
        """What changed from `a` to `b`. Raises: SnapshotNotFound, SnapshotDamaged."""
        return manifests.changes(manifests.difference(self._state(a), self._state(b)))

    def diff_live(self, a: SnapshotId) -> Changes:
        """What changed from `a` to the present, which isn't saved by this."""
        before = self._state(a)
        self._site.follow_root(make=False)
        return manifests.changes(manifests.difference(before, self._site.look().entries))

    def _state(self, snapshot: SnapshotId) -> Manifest:
        return self._site.state(self._resolve(snapshot))

    def entry(self, snapshot: SnapshotId, path: str) -> Entry | None:
        """What a snapshot says of one path; None where it has nothing there."""
        data = self._state(snapshot).get(path)
        return None if data is None else e.decode(data)

    def read(self, snapshot: SnapshotId, path: str) -> bytes | Absence:
        """A file's bytes, or why there are none to show. Private files are never shown.

        Raises:
            SnapshotDamaged: the bytes are missing or wrong.
        """
        entry = self.entry(snapshot, path)
        if entry is None or entry.kind != e.FILE:
            return _absence(self._state(snapshot), path, entry)
        if entry.private:
            return Absence.PRIVATE
        contents = Contents(self._store)
        try:
            if entry.size <= SMALL:
                return contents.get(entry.content)
            chunks = contents.chunks(entry)
            data = [bytes(e.CHUNK) if name == ZERO_ID else contents.get(name) for name in chunks]
            return b"".join(data)[: entry.size]
        except (ObjectMissing, ObjectDamaged) as error:
            raise SnapshotDamaged(f"Snapshot {snapshot}: {path!r} can't be read: {error}.") from error

    def paths(self) -> Iterator[tuple[str, PathClass, int]]:
        """What is in the workspace now: path, class and size, without reading any content."""
        todo = [("", PathClass.TRACKED)]
        while todo:
            parent, cls = todo.pop()
            with contextlib.suppress(OSError), opened(self._site.fd, parent) as fd, os.scandir(fd) as found:
                for item in found:
                    path = f"{parent}/{item.name}" if parent else item.name
                    is_directory = item.is_dir(follow_symlinks=False)
                    own = self.rules.of(path, item.name, cls, is_directory=is_directory)
                    if is_directory and own is not PathClass.EXCLUDED:
                        todo.append((path, own))
                    with contextlib.suppress(FileNotFoundError):
                        yield path, own, 0 if is_directory else item.stat(follow_symlinks=False).st_size

    def verify(self, snapshot: SnapshotId) -> Verification:
        """Read every object of a snapshot and compare it with its id; the state as a whole with its fingerprint."""
        name = self._resolve(snapshot)
        try:
            state, description = self._site.state(name), self._store.snapshot(name)
        except SnapshotDamaged as error:
            return Verification(ok=False, checked=0, problems=(Gap("", str(error)),))
        problems = [Gap("", "the state doesn't have the fingerprint it should have")]
        if f"{manifests.fingerprint(state):064x}" == description.fingerprint:
            problems.clear()
        contents, checked = Contents(self._store), 0
        files = [(path, e.decode(data)) for path, data in state.items() if data[1:2] == e.FILE]
        for path, entry in sorted(files, key=lambda item: self._store.place(item[1].content)):
            try:
                checked += contents.check_file(entry)
            except (ObjectMissing, ObjectDamaged) as error:
                problems.append(Gap(path, str(error)))
        return Verification(not problems, checked, tuple(problems))

    # Bringing back

    def restore(
        self,
        snapshot: SnapshotId,
        *,
        dry_run: bool = False,
        accept_incomplete: bool = False,
        keep_drift: bool = False,
        since: SnapshotId | None = None,
        whose: Whose | None = None,
    ) -> RestoreReport:
        """Save the present state, then make the workspace equal to `snapshot`, touching only what differs; verify it.

        What somebody else writes meanwhile isn't overwritten: the present is saved again and the rest repeated. A
        restore to the present state touches nothing.

        Drift is what changed after the snapshot `since`, by default the state that the workspace was last equal to or
        went on from. With `keep_drift` it stays as it is; else it is saved in `report.live` and made equal like the
        rest. Either way `report.drift` names each such path that the restore came across.

        With `whose`, what others changed last since the target stays as it is, and nothing else does; `report.kept`
        says of each such path whose it is.

        Raises:
            SnapshotNotFound, SnapshotDamaged, SnapshotIncomplete, RestoreRefused, StorageFull: nothing was touched.
            RestoreInterrupted: stopped half-way; `pending` says so and `resume()` finishes it.
        """
        name = self._resolve(snapshot)
        coverage = self._store.coverage(name)
        if not coverage.complete and not accept_incomplete:
            gaps = [*coverage.unreadable, *coverage.too_large]
            raise SnapshotIncomplete(
                f"Snapshot {name} is incomplete: {gaps[0].path!r} {gaps[0].why}"
                f"{f', and {len(gaps) - 1} more' if len(gaps) > 1 else ''}. Nothing was touched. Accept an incomplete"
                " restore to leave such paths as they are."
            )
        keep = keep_drift or whose is not None
        policy = Policy(keep, None if since is None else self._resolve(since), whose)
        if dry_run:
            return rehearse(self._site, name, policy, accept_incomplete=accept_incomplete)
        self._must_write()
        return Restoring(self._site, name, accept_incomplete=accept_incomplete, policy=policy).run()

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        """Take back what `mine` did since `snapshot` (see `KeepsOthers`); what others did last stays, also for every
        restore after this one.
        """
        report = self.restore(snapshot, whose=Whose(mine, people, until))
        if report.live is not None:
            before = dict(self._store.marks)
            self._store.marks = {WORKERS: [], CARRIED: report.live if until is None else until}
            try:
                self._site.save("what others changed, after a rewind", automatic=True)
            finally:
                self._store.marks = before
        return report

    def mark(self, workers: Sequence[str]) -> None:
        """Say in the next snapshots who was at work before them."""
        self._store.marks = {WORKERS: list(workers)}

    @property
    def pending(self) -> Pending | None:
        """A restore that a crash cut off, if there is one. Raises: StoreError: its record is damaged."""
        found = read_intent(self._store.directory)
        return None if found is None else found.pending

    def resume(self) -> RestoreReport | None:
        """Finish a restore that was cut off; what changed since is saved first, as `report.live`. None if there was
        none.

        Raises:
            As `restore`; the restore stays pending.
        """
        self._must_write()
        found = read_intent(self._store.directory)
        if found is None:
            return None
        return self._resumed(found)

    def _resumed(self, found: Intent) -> RestoreReport:
        """Carry out what was begun, with what was then to be kept."""
        report = Restoring(
            self._site,
            found.pending.target,
            accept_incomplete=found.accept_incomplete,
            policy=Policy(keep=found.kept is not None),
            kept=found.kept,
        ).run()
        clear_intent(self._store.directory)
        return report

    def export(
        self, snapshot: SnapshotId, to: Path, *, include_private: bool = False, share: bool = False
    ) -> RestoreReport:
        """Write a snapshot out into the empty directory `to` (made if it isn't there), as files of our own user and
        without set-uid bits. Private files are left out and named in `kept`, unless `include_private`.

        With `share`, files that are in the workspace as they were at the snapshot share their blocks with those there,
        where the file system can do that. Each is compared by its bytes: who writes in the workspace meanwhile changes
        nothing in what is written out.

        Raises:
            UsageError: `to` isn't empty, or not a directory.
            SnapshotNotFound, SnapshotDamaged, RestoreRefused: nothing was written.
        """
        near = self.root if share else None
        return export(self._store, self._resolve(snapshot), to, include_private=include_private, near=near)


def _absence(state: Manifest, path: str, entry: Entry | None) -> Absence:
    if entry is not None:
        return {e.EXCLUDED: Absence.EXCLUDED, e.VOLATILE: Absence.EXCLUDED, e.UNREADABLE: Absence.UNREADABLE}.get(
            entry.kind, Absence.NOT_A_FILE
        )
    at = path
    while at:
        at = split(at)[0]
        kind = e.kind_of(state.get(at))
        if kind in (e.EXCLUDED, e.UNREADABLE):
            return Absence.EXCLUDED if kind == e.EXCLUDED else Absence.UNREADABLE
    return Absence.NOT_THERE
