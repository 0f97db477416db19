"""Worlds that bring a state back path by path, as the main store does, but keep the bytes in a form of their own."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import NO_ROOM, RestoreInterrupted, RestoreRefused, SnapshotDamaged, StoreError
from agentrewind.core.world import Act, Gap, Pending, RestoreReport, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.backends.ledger import LedgerWorld, Observed
from agentrewind.snapshots.beneath import DIRECTORY, READ, opened, sync_file_system
from agentrewind.snapshots.cache import load_cache, save_cache
from agentrewind.snapshots.clock import Clock, mounts_of
from agentrewind.snapshots.entry import CHUNK, ZERO_ID, Entry
from agentrewind.snapshots.foresight import refuse_foreseeable
from agentrewind.snapshots.intent import clear_intent, write_intent
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.plan import Plan, compared, plan
from agentrewind.snapshots.reading import HashingSink, is_zero, signature, take_file
from agentrewind.snapshots.restore import Outcome, Pass
from agentrewind.snapshots.saved import at_stake
from agentrewind.snapshots.scan import Scan, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from agentrewind.snapshots.contents import Contents
    from agentrewind.snapshots.lease import Lease
    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.rules import PathRules

PASSES = 3
_GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE))
_LIVE_SAVED = named("backend.passes-live-saved")
_APPLIED = named("backend.passes-applied")

Kept = TypeVar("Kept")


class PassWorld(LedgerWorld):
    """See `LedgerWorld`. Untouched files keep inode and times; what somebody writes meanwhile isn't overwritten before
    it is saved.
    """

    rules: ClassVar[PathRules]

    def __init__(self, root: Path, store: Path, lease: Lease) -> None:
        super().__init__(root, store, lease)
        self._clock = Clock(local=mounts_of(root).local)
        self._current, self._known = load_cache(self._ledger, root, self.rules)

    def _save_caches(self) -> None:
        save_cache(self._ledger, self.root, self.rules, self._current, self._known)

    def sync(self) -> None:
        """Return once everything saved so far would survive a power loss."""
        fd = os.open(self._directory, DIRECTORY)
        try:
            sync_file_system(fd)
        finally:
            os.close(fd)
        super().sync()

    @contextlib.contextmanager
    def _root(self) -> Iterator[int]:
        try:
            fd = os.open(self.root, DIRECTORY)
        except OSError as error:
            raise StoreError(f"{self.root} can't be opened ({error.strerror}). Its snapshots are safe.") from error
        try:
            yield fd
        finally:
            os.close(fd)

    # Saving

    def _scan(self) -> Seen:
        mounts = mounts_of(self.root)
        sink = HashingSink(self._ledger.keys)
        with self._root() as fd:
            return Scan(
                fd, self.rules, sink, self._known, self._clock, tick_ns=mounts.tick_ns, mounts=mounts.inside
            ).run()

    def _store(self, root: int, path: str, observed: Observed, keep: Callable[[int, Entry], Kept]) -> Kept | None:
        """Give `keep` the file at `path` as it was seen. One that has changed since is copied, and what `keep` gets and
        `observed` says is the copy; None for one that is gone or can't be read any more, which `observed` then says.
        """
        try:
            return self._stored(root, path, observed, keep)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            if error.errno in _GONE:
                del observed.entries[path]
            else:
                why = f"can't be read: {error.strerror}"
                observed.entries[path] = e.encode(Entry(e.UNREADABLE, why=why))
            self._known.signatures.pop(path, None)
            return None

    def _stored(self, root: int, path: str, observed: Observed, keep: Callable[[int, Entry], Kept]) -> Kept:
        entry = e.decode(observed.entries[path])
        with contextlib.suppress(OSError), opened(root, path, READ) as fd:
            if self._is_as_seen(fd, path):
                kept = keep(fd, entry)
                if self._is_as_seen(fd, path) and (path not in self._known.racy or self._has(fd, entry)):
                    return kept
        with tempfile.TemporaryFile(dir=self._directory) as copy:
            with opened(root, path, READ) as fd:
                for block in blocks(fd):
                    copy.write(block)
            copy.flush()
            return keep(copy.fileno(), self._as_copied(copy.fileno(), path, observed))

    def _is_as_seen(self, fd: int, path: str) -> bool:
        return signature(os.fstat(fd)) == self._known.signatures.get(path)

    def _has(self, fd: int, entry: Entry) -> bool:
        """Whether a file whose signature proves nothing has the bytes that were seen."""
        taken = take_file(fd, HashingSink(self._ledger.keys), private=entry.private)
        return e.content_of(taken.entry) == entry.content

    def _as_copied(self, copy: int, path: str, observed: Observed) -> Entry:
        entry = e.decode(observed.entries[path])
        taken = e.decode(take_file(copy, HashingSink(self._ledger.keys), private=entry.private).entry)
        if (entry.size, entry.content) != (taken.size, taken.content):
            entry = replace(entry, size=taken.size, content=taken.content)
            observed.entries[path] = e.encode(entry)
            observed.unstable += (Gap(path, "changed while it was stored; kept as last read"),)
            self._known.racy.add(path)
        return entry

    # Bringing back

    @abstractmethod
    def _look(self) -> None:
        """Bring what is known of the workspace up to date; nothing is kept."""

    @abstractmethod
    def _contents(self, name: SnapshotId, state: Manifest) -> AbstractContextManager[Contents]:
        """The files of a snapshot. Raises: SnapshotDamaged: it can't be told which they are."""

    def _met(self, live: Manifest, target: Manifest) -> tuple[Manifest, Manifest]:
        """The two states in the form in which they are to be compared."""
        return live, target

    def _filled(self, root: int, name: SnapshotId, target: Manifest, todo: Plan) -> Mapping[str, bytes]:  # noqa: ARG002
        """The target with all that is to be set on what is touched."""
        return target

    def _brought_back(self, root: int, todo: Plan, contents: Contents) -> None:
        """Everything that was planned has been done; nothing that shows may be changed any more."""

    def _planned(self, name: SnapshotId) -> tuple[Plan, Manifest]:
        live, target = self._met(self._known.entries, self._ledger.state(name))
        self._known.entries = live
        return plan(compared(live, target), self._known), target

    def _rehearse(self, name: SnapshotId) -> RestoreReport:
        before = self._known
        self._look()
        try:
            todo, target = self._planned(name)
            with self._contents(name, target) as contents, self._root() as root:
                contents.check(todo.files, name)
                refuse_foreseeable(root, todo, self._known, contents)
        finally:
            self._known = before
        return RestoreReport(name, None, tuple(todo.acts), tuple(todo.kept), dry_run=True)

    def _bring_back(self, name: SnapshotId, *, accept_incomplete: bool) -> RestoreReport:
        self.root.mkdir(mode=0o700, exist_ok=True)
        done = _Done(name, accept_incomplete=accept_incomplete)
        for _ in range(PASSES):
            saved = self._save(f"before restoring {name[:12]}").id
            done.live, done.saved = done.live or saved, saved
            reach(_LIVE_SAVED)
            todo, target = self._planned(name)
            if todo.unsaved and not accept_incomplete:
                raise self._stopped(done, f"{todo.unsaved[0].path!r} {todo.unsaved[0].why}")
            conflicts = self._carry_out(done, todo, target) if todo.acts else []
            if not conflicts:
                return self._ended(done, todo)
            done.drift += conflicts
        raise self._stopped(done, "something else was there three times than was saved a moment before")

    def _carry_out(self, done: _Done, todo: Plan, target: Manifest) -> list[Gap]:
        """One pass; what stood in the way."""
        name = done.name
        assert done.live is not None
        with self._contents(name, target) as contents, self._root() as root:
            contents.check(todo.files, name)
            refuse_foreseeable(root, todo, self._known, contents)
            self._refuse_unreadable(done, todo)
            goal = self._filled(root, name, target, todo)
            todo.files[:] = [replace(step, data=goal[step.paths[0]]) for step in todo.files]
            self.sync()
            write_intent(self._directory, Pending(name, done.live), accept_incomplete=done.accept_incomplete)
            done.begun = True
            try:
                outcome = Pass(root, contents, seen=self._known, target=goal, plan=todo).run()
            except (OSError, ObjectDamaged, ObjectMissing) as error:
                raise self._stopped(done, str(error)) from error
            done.note(todo, outcome)
            self._brought_back(root, todo, contents)
        reach(_APPLIED)
        return outcome.conflicts or self._verify(done)

    def _refuse_unreadable(self, done: _Done, todo: Plan) -> None:
        """Raises: RestoreRefused, RestoreInterrupted: what is to be overwritten or removed can't be read back."""
        live = self._ledger.state(done.saved)
        with self._contents(done.saved, live) as kept:
            for path in at_stake(todo, live):
                if e.kind_of(live.get(path)) == e.FILE and (why := _why_not_whole(kept, live[path])):
                    raise self._stopped(done, f"what stands at {path!r} is saved, but can't be read back ({why})")

    def _verify(self, done: _Done) -> list[Gap]:
        """Look at everything again: what still differs, but for what is reported as lossy."""
        self._look()
        seen = self._known.entries
        left, target = self._planned(done.name)
        self._known.entries = seen
        wrong = [act for act in left.acts if not done.explains(act.path, seen.get(act.path), target.get(act.path))]
        return [Gap(act.path, f"needs to be brought back once more ({act.what})") for act in wrong]

    def _ended(self, done: _Done, todo: Plan) -> RestoreReport:
        self._current = done.name
        clear_intent(self._directory)
        said = {gap.path: gap for gap in self._ledger.snapshot(done.name).coverage.lossy if gap.path in done.acts}
        said |= {path: Gap(path, f"not brought back: {', '.join(sorted(what))}") for path, what in done.lost.items()}
        return RestoreReport(
            done.name,
            done.live,
            tuple(done.acts[path] for path in sorted(done.acts)),
            tuple(todo.kept),
            tuple(said[path] for path in sorted(said)),
            verified=True,
            drift=tuple(done.drift),
        )

    def _stopped(self, done: _Done, why: str) -> RestoreRefused | RestoreInterrupted:
        if not done.begun and self.pending is None:
            return RestoreRefused(f"The restore was not made: {why}. Nothing was touched.")
        return RestoreInterrupted(
            f"The restore stopped half-way: {why}. The state before it is saved as {done.live}; `resume()` finishes it."
        )

    def _problems(self, name: SnapshotId, state: Manifest) -> list[Gap]:
        problems = []
        try:
            with self._contents(name, state) as contents:
                for path, data in state.items():
                    if data[1:2] == e.FILE and (why := _why_not_whole(contents, data)):
                        problems.append(Gap(path, why))
        except SnapshotDamaged as error:
            problems.append(Gap("", str(error)))
        return problems


def _why_not_whole(contents: Contents, data: bytes) -> str:
    try:
        contents.check_file(e.decode(data))
    except (ObjectMissing, ObjectDamaged) as error:
        return str(error)
    return ""


class _Done:
    """What a restore has done so far."""

    def __init__(self, name: SnapshotId, *, accept_incomplete: bool) -> None:
        self.name = name
        self.accept_incomplete = accept_incomplete
        self.live: SnapshotId | None = None
        self.saved = name
        """The present as the last pass found it; the target before any has."""
        self.begun = False
        self.acts: dict[str, Act] = {}
        self.drift: list[Gap] = []
        self.lost: dict[str, set[str]] = {}

    def note(self, todo: Plan, outcome: Outcome) -> None:
        left = {gap.path for gap in outcome.conflicts}
        self.acts.update((act.path, act) for act in todo.acts if act.path not in left)
        for path, what in outcome.lossy.items():
            self.lost.setdefault(path, set()).update(what)

    def explains(self, path: str, now: bytes | None, target: bytes | None) -> bool:
        """Whether a difference is one that was reported, or a cache file that a process has made anew."""
        if e.kind_of(now) == e.VOLATILE:
            return True
        lost = self.lost.get(path, set())
        return bool(lost and now and target) and e.masked(now or b"", lost) == e.masked(target or b"", lost)


def blocks(fd: int) -> Iterator[bytes]:
    """What is left to be read, piece by piece."""
    while block := os.read(fd, CHUNK):
        yield block


class Chunks:
    """A large file that lies whole in another one, under the ids that a scan gives its parts."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._places: dict[bytes, int] = {}
        names = []
        for at in range(0, size, CHUNK):
            data = os.pread(fd, min(CHUNK, size - at), at)
            name = ZERO_ID if is_zero(data) else hashlib.sha256(data).digest()
            names.append(name)
            self._places[name] = at
        self.list = b"".join(names)
        """The object that stands for the file."""

    def __contains__(self, name: bytes) -> bool:
        return name in self._places

    def get(self, name: bytes, size: int = CHUNK) -> bytes:
        return os.pread(self._fd, size, self._places[name])
