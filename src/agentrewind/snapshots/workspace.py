"""A workspace directory as a `World`: scanned, saved in a store beside it, and brought back."""

from __future__ import annotations

import contextlib
import enum
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import (
    RestoreInterrupted,
    RestoreRefused,
    SnapshotDamaged,
    SnapshotIncomplete,
    StorageFull,
    StoreError,
    UsageError,
    WorkspaceRefused,
)
from agentrewind.core.world import (
    Act,
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
from agentrewind.snapshots.beneath import DIRECTORY, opened, split, sync_file_system
from agentrewind.snapshots.cache import load_cache, save_cache
from agentrewind.snapshots.clock import Clock, StillClock, mounts_of
from agentrewind.snapshots.entry import SMALL, ZERO_ID, Entry
from agentrewind.snapshots.intent import clear_intent, read_intent, write_intent
from agentrewind.snapshots.lease import Lease
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.plan import Plan, plan
from agentrewind.snapshots.reading import HashingSink
from agentrewind.snapshots.rekeying import rekeyed
from agentrewind.snapshots.restore import Contents, Outcome, Pass, loosen, set_mode
from agentrewind.snapshots.rules import PathClass, PathRules
from agentrewind.snapshots.scan import Pry, Scan, Seen
from agentrewind.snapshots.store import Store, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentrewind.snapshots.manifests import Manifest

PASSES = 3
_LIVE_SAVED = named("snapshot.restore-live-saved")
_APPLIED = named("snapshot.restore-applied")
_VERIFIED = named("snapshot.restore-verified")

Durability = Literal["process", "power"]


class Absence(enum.Enum):
    """Why a path of a snapshot has no bytes to read. Five different things."""

    NOT_THERE = "not in the snapshot"
    NOT_A_FILE = "not a regular file"
    EXCLUDED = "excluded"
    UNREADABLE = "unreadable when the snapshot was taken"
    PRIVATE = "private"


class WorkspaceWorld:
    """A directory and its snapshots. See `World` for the promises; one thread at a time."""

    capabilities = Capabilities()

    def __init__(
        self,
        root: Path,
        store: Store,
        *,
        rules: PathRules,
        durability: Durability,
        progress: Callable[[int, int | None], None] | None,
        lease: Lease | None,
    ) -> None:
        self.root = root
        self.rules = rules
        self._store = store
        self._durability = durability
        self._progress = progress
        self._lease = lease
        self._root_fd = os.open(root, DIRECTORY)
        self._mounts = mounts_of(root)
        probe = store.directory / "clock"
        self._clock = Clock(probe, local=self._mounts.local) if store.writable else StillClock()
        self._current, self._known = load_cache(store, root, rules)

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
    ) -> WorkspaceWorld:
        """Open the workspace `root` with its snapshots in `store`, which is made if it isn't there.

        `forbidden` names directories that are never a workspace (a home directory). `lease=False` opens for reading
        only: nothing is written, neither in the workspace nor in the store. Leases lie in `lease_dir`, by default
        `leases` beside the store; processes that share workspaces must share it. `write` appends to the packs.

        Raises:
            WorkspaceRefused: not a directory that can be a workspace; nothing was touched.
            Busy: another process has this workspace, one above or one below it.
            UsageError: read-only and there is no store.
            StorageFull: no room to make the store.
        """
        root = _accepted(root, store, forbidden)
        store = store.resolve()
        held = Lease.take(lease_dir or store.parent / "leases", root, holder) if lease else None
        try:
            opened_store = Store.open(store, writable=lease, write=write)
            return cls(
                root,
                opened_store,
                rules=rules or PathRules(),
                durability=durability,
                progress=progress,
                lease=held,
            )
        except BaseException:
            if held is not None:
                held.release()
            raise

    def close(self) -> None:
        """Give the lease back; what was saved stays. Closing twice is fine."""
        if self._root_fd < 0:
            return
        try:
            if self._store.writable:
                with contextlib.suppress(
                    OSError, StoreError
                ):  # both are caches: without them the next opening takes longer
                    self._store.save_index()
                    save_cache(self._store, self.root, self.rules, self._current, self._known)
        finally:
            os.close(self._root_fd)
            self._root_fd = -1
            self._store.close()
            if self._lease is not None:
                self._lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Saving

    def snapshot(self, label: str = "") -> Snapshot:
        """Save the present state; the same snapshot as before, and nothing written, where nothing has changed.

        Raises:
            StorageFull: nothing was added; earlier snapshots are as they were.
            UsageError: opened for reading only.
            StoreError: the workspace is gone.
        """
        self._must_write()
        self._follow_root(make=False)
        snapshot = self._save(label, None)
        if self._durability == "power":
            self.sync()
        return snapshot

    def _save(self, label: str, pry: Pry | None) -> Snapshot:
        self._store.begin()
        try:
            seen = self._scan(self._store, pry)
            base = {} if self._current is None else self._store.state(self._current)
            delta = manifests.difference(base, seen.entries)
            if self._current is not None and not delta:
                self._store.abort()
                seen.entries = base
                self._known = seen
                return self._store.snapshot(self._current)
            snapshot = self._named(label, seen, delta)
            self._store.commit(snapshot, delta, seen.entries, self.rules.digest)
        except BaseException:
            self._store.abort()
            raise
        self._known = seen
        self._current = snapshot.id
        return snapshot

    def _named(self, label: str, seen: Seen, delta: manifests.Delta) -> Snapshot:
        before = None if self._current is None else self._store.snapshot(self._current)
        totals, weight = manifests.Totals(), 0
        if before is not None:
            totals = manifests.Totals(before.coverage.entries, before.coverage.bytes)
            weight = int(before.fingerprint, 16)
        totals = totals.moved(delta)
        return Snapshot(
            id=new_id(),
            fingerprint=f"{manifests.moved_fingerprint(weight, delta):064x}",
            coverage=manifests.coverage(seen.entries, totals, tuple(seen.unstable)),
            changes=manifests.changes(delta),
            created_ns=time.time_ns(),
            parent=self._current,
            label=label,
        )

    def _scan(self, sink: Store | HashingSink, pry: Pry | None = None) -> Seen:
        return Scan(
            self._root_fd,
            self.rules,
            sink,
            self._known,
            self._clock,
            tick_ns=self._mounts.tick_ns,
            mounts=self._mounts.inside,
            pry=pry,
            progress=self._progress,
        ).run()

    def _follow_root(self, *, make: bool) -> None:
        """Use the directory that stands at the root's path now, not one that was removed or moved away."""
        try:
            now = os.stat(self.root, follow_symlinks=False)
        except FileNotFoundError as error:
            if not make:
                raise StoreError(
                    f"{self.root} is gone. Its snapshots are safe; restoring one brings the directory back."
                ) from error
            self.root.mkdir(mode=0o700)
            now = os.stat(self.root, follow_symlinks=False)
        mine = os.fstat(self._root_fd)
        if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino):
            try:
                fresh = os.open(self.root, DIRECTORY)
            except OSError as error:
                raise StoreError(
                    f"{self.root} can't be opened as a directory any more ({error.strerror}). Its snapshots are safe."
                ) from error
            os.close(self._root_fd)
            self._root_fd = fresh
        self._mounts = mounts_of(self.root)

    def _must_write(self) -> None:
        if not self._store.writable:
            raise UsageError(f"{self.root} was opened for reading only; open it with its lease to save or restore.")

    def sync(self) -> None:
        """Return once everything saved so far would survive a power loss."""
        self._store.sync()

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
        self._follow_root(make=False)
        return manifests.changes(manifests.difference(before, self._scan(HashingSink(self._store.keys)).entries))

    def _state(self, snapshot: SnapshotId) -> Manifest:
        return self._store.state(self._resolve(snapshot))

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
            with contextlib.suppress(OSError), opened(self._root_fd, parent) as fd, os.scandir(fd) as found:
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
            state, description = self._store.state(name), self._store.snapshot(name)
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

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        """Save the present state, then make the workspace equal to `snapshot`, touching only what differs; verify it.

        What somebody else writes meanwhile isn't overwritten: the present is saved again and the rest repeated. A
        restore to the present state touches nothing.

        Raises:
            SnapshotNotFound, SnapshotDamaged, SnapshotIncomplete, RestoreRefused, StorageFull: nothing was touched.
            RestoreInterrupted: stopped half-way; `pending` says so and `resume()` finishes it.
        """
        name = self._resolve(snapshot)
        found = self._store.snapshot(name)
        if not found.coverage.complete and not accept_incomplete:
            gaps = [*found.coverage.unreadable, *found.coverage.too_large]
            raise SnapshotIncomplete(
                f"Snapshot {name} is incomplete: {gaps[0].path!r} {gaps[0].why}"
                f"{f', and {len(gaps) - 1} more' if len(gaps) > 1 else ''}. Nothing was touched. Accept an incomplete"
                " restore to leave such paths as they are."
            )
        if dry_run:
            return self._rehearse(name, accept_incomplete=accept_incomplete)
        self._must_write()
        return _Restoring(self, name, accept_incomplete=accept_incomplete).run()

    def _rehearse(self, name: SnapshotId, *, accept_incomplete: bool) -> RestoreReport:
        self._follow_root(make=False)
        contents = Contents(self._store)
        target = _target(self, name, contents)
        seen = self._scan(HashingSink(self._store.keys))
        todo = plan(seen.entries, target, seen)
        if not accept_incomplete:
            _refuse_unsaved(todo)
        contents.check(todo.files, name)
        Pass(self._root_fd, contents, seen=seen, target=target, plan=todo).check()
        return RestoreReport(name, None, tuple(todo.acts), tuple(todo.kept), dry_run=True)

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
        report = _Restoring(self, found.pending.target, accept_incomplete=found.accept_incomplete).run()
        clear_intent(self._store.directory)
        return report

    def export(self, snapshot: SnapshotId, to: Path, *, include_private: bool = False) -> RestoreReport:
        """Write a snapshot out into the empty directory `to` (made if it isn't there), as files of our own user and
        without set-uid bits. Private files are left out and named in `kept`, unless `include_private`.

        Raises:
            UsageError: `to` isn't empty, or not a directory.
            SnapshotNotFound, SnapshotDamaged, RestoreRefused: nothing was written.
        """
        name = self._resolve(snapshot)
        state = self._store.state(name)
        target, left_out = _for_export(state, include_private=include_private)
        _make_empty(to)
        fd = os.open(to, DIRECTORY)
        try:
            sink = HashingSink(self._store.keys)
            seen = Scan(fd, PathRules.everything_tracked(), sink, Seen(), StillClock(), tick_ns=0).run()
            todo = plan(seen.entries, target, seen)
            contents = Contents(self._store)
            contents.check(todo.files, name)
            work = Pass(fd, contents, seen=seen, target=target, plan=todo)
            work.check()
            outcome = work.run()
        finally:
            os.close(fd)
        if outcome.conflicts:
            raise StoreError(f"{to}: somebody else writes there; {outcome.conflicts[0].path!r} could not be exported.")
        return RestoreReport(name, None, tuple(todo.acts), tuple(left_out), _lossy(outcome.lossy), verified=False)


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


def _accepted(root: Path, store: Path, forbidden: Sequence[Path]) -> Path:
    """The real path of a directory that may be a workspace.

    Raises:
        WorkspaceRefused: with one sentence why not.
    """
    try:
        real = root.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise WorkspaceRefused(f"{root} does not exist, so it can't be a workspace.") from error
    if not real.is_dir():
        raise WorkspaceRefused(f"{root} is not a directory, so it can't be a workspace.")
    if real == Path(real.anchor):
        raise WorkspaceRefused("/ is the whole machine, so it is refused as a workspace.")
    for other in forbidden:
        if real == other.resolve() or real in other.resolve().parents:
            raise WorkspaceRefused(f"{real} is, or holds, a home directory or another that may not be a workspace.")
    place = store.resolve()
    if place == real or place in real.parents:
        raise WorkspaceRefused(f"{real} lies in the snapshot store {place}, so it can't be a workspace.")
    if real in place.parents:
        raise WorkspaceRefused(f"The snapshot store {place} lies inside the workspace {real}; it must lie outside.")
    if not os.access(real, os.R_OK | os.X_OK):
        raise WorkspaceRefused(f"{real} can't be read, so it can't be a workspace.")
    return real


def _target(world: WorkspaceWorld, name: SnapshotId, contents: Contents) -> Manifest:
    """The state to reach, its contents named as a scan under the present rules names them."""
    state = world._store.state(name)  # noqa: SLF001
    same_rules = world._store.rules(name) == world.rules.digest  # noqa: SLF001
    return state if same_rules else rekeyed(state, world.rules, contents)


def _refuse_unsaved(todo: Plan) -> None:
    if todo.unsaved:
        named_paths = "; ".join(f"{gap.path!r} {gap.why}" for gap in todo.unsaved[:10])
        raise RestoreRefused(
            f"What is there now can't be saved first: {named_paths}. Nothing was touched. Make it readable, or accept"
            " an incomplete restore to leave it as it is."
        )


def _lossy(lost: dict[str, set[str]]) -> tuple[Gap, ...]:
    return tuple(Gap(path, f"not brought back: {', '.join(sorted(what))}") for path, what in sorted(lost.items()))


def _for_export(state: Manifest, *, include_private: bool) -> tuple[Manifest, list[Gap]]:
    target: Manifest = {}
    left_out: list[Gap] = []
    for path, data in state.items():
        entry = e.decode(data)
        if entry.private and not include_private:
            left_out.append(Gap(path, "private: left out"))
        elif entry.kind in e.TRACKED:
            target[path] = e.as_foreign(data, os.geteuid(), os.getegid())
        elif entry.why:
            left_out.append(Gap(path, entry.why))
    return target, left_out


def _make_empty(to: Path) -> None:
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(to.iterdir()):
            raise UsageError(f"{to} is not empty; an export needs a new or empty directory.")
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{to} is not a directory; an export needs a new or empty one.") from error


class _Restoring:
    """One restore: passes over the workspace until it is equal to the target or something stands in the way."""

    def __init__(self, world: WorkspaceWorld, name: SnapshotId, *, accept_incomplete: bool) -> None:
        self._world = world
        self._store = world._store  # noqa: SLF001
        self._name = name
        self._accept = accept_incomplete
        self._contents = Contents(self._store)
        self._target = _target(world, name, self._contents)
        self._opened: dict[str, int] = {}
        self._live: SnapshotId | None = None
        self._acts: dict[str, Act] = {}
        self._drift: list[Gap] = []
        self._lost: dict[str, set[str]] = {}
        self._touched = False
        self._was_pending = read_intent(self._store.directory) is not None

    def run(self) -> RestoreReport:
        self._world._follow_root(make=True)  # noqa: SLF001
        try:
            return self._passes()
        finally:
            self._close_again(self._opened)

    def _close_again(self, modes: dict[str, int]) -> None:
        """Give back the modes of what was opened to be read, unless the restore has set them."""
        for path in sorted(modes, key=lambda path: -path.count("/")):
            mode = modes.pop(path)
            if path not in self._acts:
                set_mode(self._world._root_fd, path, mode)  # noqa: SLF001

    def _make_readable(self, path: str) -> int | None:
        try:
            return loosen(self._world._root_fd, path, write=False)  # noqa: SLF001
        except OSError:
            return None

    def _passes(self) -> RestoreReport:
        conflicts: list[Gap] = []
        for _ in range(PASSES):
            try:
                todo = self._save_and_plan()
                conflicts = self._carry_out(todo) if todo.acts else []
            except (RestoreRefused, SnapshotDamaged, StorageFull) as error:
                if not self._touched:
                    raise
                raise self._interrupted(str(error), []) from error
            if not conflicts:
                return self._done(todo)
            self._drift += conflicts
        why = f"{PASSES} times something else was there than was saved a moment before"
        if self._touched or self._was_pending:
            raise self._interrupted(why, conflicts)
        clear_intent(self._store.directory)
        raise RestoreRefused(f"The restore was not made: {why}{_names(conflicts)}. Nothing was touched.")

    def _save_and_plan(self) -> Plan:
        label = f"before restoring {self._name[:12]}"
        pry = Pry(self._make_readable, self._opened)
        live = self._world._save(label, pry).id  # noqa: SLF001
        self._live = self._live or live
        reach(_LIVE_SAVED)
        todo = plan(self._world._known.entries, self._target, self._world._known)  # noqa: SLF001
        if not self._accept:
            _refuse_unsaved(todo)
        else:
            todo.kept += todo.unsaved
        return todo

    def _carry_out(self, todo: Plan) -> list[Gap]:
        """One pass; what stood in the way."""
        world = self._world
        contents = self._contents
        seen = world._known  # noqa: SLF001
        work = Pass(world._root_fd, contents, seen=seen, target=self._target, plan=todo)  # noqa: SLF001
        contents.check(todo.files, self._name)
        work.check()
        assert self._live is not None
        self._store.sync()
        write_intent(self._store.directory, Pending(self._name, self._live), accept_incomplete=self._accept)
        try:
            outcome = work.run()
        except (OSError, ObjectDamaged, ObjectMissing) as error:
            raise self._interrupted(str(error), []) from error
        finally:
            for path, mode in work.loosened.items():
                set_mode(world._root_fd, path, mode)  # noqa: SLF001
        self._note(todo, outcome)
        self._close_again(self._opened)
        reach(_APPLIED)
        return outcome.conflicts or self._verify()

    def _note(self, todo: Plan, outcome: Outcome) -> None:
        self._touched |= outcome.touched
        left = {gap.path for gap in outcome.conflicts}
        self._acts.update((act.path, act) for act in todo.acts if act.path not in left)
        for path, what in outcome.lossy.items():
            self._lost.setdefault(path, set()).update(what)

    def _verify(self) -> list[Gap]:
        """Look at everything again: what still differs, but for what is declared lossy."""
        world = self._world
        pry = Pry(self._make_readable)
        seen = world._scan(HashingSink(self._store.keys), pry)  # noqa: SLF001
        for path in sorted(pry.modes, key=lambda path: -path.count("/")):
            set_mode(world._root_fd, path, pry.modes[path])  # noqa: SLF001
        world._known = seen  # noqa: SLF001
        if world._durability == "power":  # noqa: SLF001
            sync_file_system(world._root_fd)  # noqa: SLF001
        left = plan(seen.entries, self._target, seen)
        wrong = [act for act in left.acts if not self._is_declared(act.path, seen.entries.get(act.path))]
        if not wrong:
            world._current = self._name  # noqa: SLF001
        reach(_VERIFIED)
        return [Gap(act.path, f"needs to be brought back once more ({act.what})") for act in wrong]

    def _is_declared(self, path: str, now: bytes | None) -> bool:
        """Whether the difference is one that was reported as lossy, or a cache file that a process makes anew."""
        target = self._target.get(path)
        if e.kind_of(now) == e.VOLATILE:
            return True
        lost = self._lost.get(path, set())
        if now is None or target is None or not lost:
            return False
        return e.masked(now, lost) == e.masked(target, lost)

    def _done(self, todo: Plan) -> RestoreReport:
        clear_intent(self._store.directory)
        return RestoreReport(
            self._name,
            self._live,
            tuple(self._acts[path] for path in sorted(self._acts)),
            tuple(todo.kept),
            _lossy(self._lost),
            verified=True,
            drift=tuple(self._drift),
        )

    def _interrupted(self, why: str, conflicts: list[Gap]) -> RestoreInterrupted:
        return RestoreInterrupted(
            f"The restore of {self._name} stopped half-way: {why}{_names(conflicts)}. The state before it is saved as"
            f" {self._live}; `resume()` finishes the restore, and saves what is there by then first."
        )


def _names(gaps: list[Gap]) -> str:
    paths = ", ".join(repr(gap.path) for gap in gaps[:10])
    return f" ({paths})" if paths else ""
