"""A workspace in a plain git repository: every snapshot a commit, made with low-level commands and a private index.

The repository lies outside the workspace and is all that git needs: `git --git-dir STORE/repository.git log` shows the
snapshots. What a git tree can't hold is named in the coverage, is never stored and therefore never removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import SnapshotDamaged, StoreError
from agentrewind.core.world import Capabilities, Gap, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.backends import plainness
from agentrewind.snapshots.backends.ledger import Observed
from agentrewind.snapshots.backends.looking import look
from agentrewind.snapshots.backends.passes import Chunks, PassWorld
from agentrewind.snapshots.backends.repository import Item, Repository, item, removal
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.entry import SMALL
from agentrewind.snapshots.manifests import difference
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.plan import Plan
from agentrewind.snapshots.reading import HashingSink
from agentrewind.snapshots.rules import PRIVATE, PathRules
from agentrewind.snapshots.scan import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentrewind.snapshots.entry import Entry
    from agentrewind.snapshots.lease import Lease
    from agentrewind.snapshots.manifests import Delta, Manifest
    from agentrewind.snapshots.private import Keys
    from agentrewind.snapshots.store import Store

RULES = PathRules(private=(), excluded=(".git", *PRIVATE), volatile=())
_BLOBS_STORED = named("backend.git-blobs-stored")
_COMMITTED = named("backend.git-committed")


class GitWorld(PassWorld):
    """See `PassWorld`; for comparison, and for those who want plain git."""

    backend: ClassVar[str] = "git"
    rules: ClassVar[PathRules] = RULES
    rules_digest: ClassVar[str] = RULES.digest
    capabilities = Capabilities(
        modes=False, hard_links=False, xattrs=False, times_ns=False, sparse=False, owners=False,
        empty_directories=False, nested_repositories=False, private_paths=False,
    )  # fmt: skip

    def __init__(self, root: Path, store: Path, lease: Lease) -> None:
        super().__init__(root, store, lease)
        self._repository = Repository(store / "repository.git")
        self._indexed: SnapshotId | None = None
        self._index_is_ours = False

    def close(self) -> None:
        self._repository.close()
        super().close()

    # Saving

    def _observe(self, name: SnapshotId) -> Observed:  # noqa: ARG002
        before: dict[str, str] = {}
        if self._current is not None:
            before = {gap.path: gap.why for gap in self._ledger.snapshot(self._current).coverage.lossy}
        self._known, lossy = self._scanned(before)
        entries = self._known.entries
        gaps = [Gap("", plainness.TIMES), *(Gap(path, lossy[path]) for path in sorted(lossy) if path in entries)]
        return Observed(entries, tuple(self._known.unstable), tuple(gaps))

    def _scanned(self, before: dict[str, str]) -> tuple[Seen, dict[str, str]]:
        """What stands there as git could hold it, and what is lost of which path."""
        seen = self._scan()
        lossy = {}
        known = self._known.entries
        for path, data in seen.entries.items():
            if data is known.get(path):
                if path in before:
                    lossy[path] = before[path]
                continue
            what = plainness.lost(data)
            if what := before.get(path) if what is None else what:
                lossy[path] = what
            seen.entries[path] = _said(path, plainness.plain(data))
        seen.entries = plainness.without_bare_directories(seen.entries)
        return seen, {path: why for path, why in lossy.items() if seen.entries[path][1:2] in e.TRACKED and path}

    def _keep(self, name: SnapshotId, observed: Observed, label: str) -> None:
        text = (label or "snapshot").encode("utf-8", "replace") + b"\n"
        parent, step = self._current, self._step(observed)
        if parent is not None and not self._repository.has(parent):  # lost: what follows doesn't build on it
            parent, step = None, difference({}, observed.entries)
        with self._root() as root:
            items = list(self._items(root, step, observed))
        reach(_BLOBS_STORED)
        if not self._index_is_ours or self._indexed != parent:
            self._repository.read_index(parent)
        self._index_is_ours = False
        self._repository.commit(items, name, parent, text)
        self._indexed, self._index_is_ours = name, True
        reach(_COMMITTED)

    def _items(self, root: int, step: Delta, observed: Observed) -> Iterator[Item]:
        """The step of the index: first what goes, so that a file can become a directory."""
        stored = (e.FILE, e.SYMLINK)
        for path, old, new in step:
            if e.kind_of(old) in stored and e.kind_of(new) not in stored:
                yield removal(path)
        for path, _, new in step:
            if e.kind_of(new) == e.SYMLINK:
                yield item("120000", self._keep_bytes(e.decode(new or b"").target), path)
            elif e.kind_of(new) == e.FILE:
                blob = self._store(root, path, observed, lambda fd, _: self._repository.keep(fd))
                if blob is None:
                    yield removal(path)
                else:
                    yield item(f"100{e.decode(observed.entries[path]).mode:o}", blob, path)

    def _keep_bytes(self, data: bytes) -> str:
        fd = os.memfd_create("agentrewind")
        try:
            os.write(fd, data)
            return self._repository.keep(fd)
        finally:
            os.close(fd)

    # Bringing back

    def _look(self) -> None:
        self._known, _ = self._scanned({})

    def _met(self, live: Manifest, target: Manifest) -> tuple[Manifest, Manifest]:
        return plainness.met(live, target)

    @contextlib.contextmanager
    def _contents(self, name: SnapshotId, state: Manifest) -> Iterator[Contents]:
        """The files of a snapshot. Raises: SnapshotDamaged: its commit or a tree of it can't be read."""
        try:
            blobs = self._repository.files(name)
        except StoreError as error:
            raise SnapshotDamaged(f"Snapshot {name} can't be brought back: {error}. Nothing was touched.") from error
        with contextlib.ExitStack() as spools:
            objects = _Objects(
                self._ledger.keys,
                self._repository,
                state=state,
                blobs=blobs,
                place=self._directory,
                spools=spools,
            )
            yield Contents(cast("Store", objects))  # it asks for no more than `_Objects` has

    def _filled(self, root: int, name: SnapshotId, target: Manifest, todo: Plan) -> Manifest:
        """The target with real attributes for every path that is touched, and for the directories above it."""
        narrow = {gap.path for gap in self._ledger.snapshot(name).coverage.lossy if "mode" in gap.why}
        goal, now = dict(target), time.time_ns()
        sink = HashingSink(self._ledger.keys)
        for path in _touched(todo):
            data = goal.get(path)
            if data is None or data[1:2] not in e.TRACKED:
                continue
            present = look(root, path, sink) if path in self._known.entries else None
            entry = plainness.filled(
                e.decode(data), None if present is None else e.decode(present), narrow=path in narrow, now_ns=now
            )
            goal[path] = e.encode(entry)
        return goal


def _said(path: str, data: bytes) -> bytes:
    """An excluded entry with the reason that is git's."""
    if data[1:2] != e.EXCLUDED:
        return data
    entry = e.decode(data)
    if entry.why != "excluded by a rule":
        return data
    return e.encode(replace(entry, why=plainness.REPOSITORY if split(path)[1] == ".git" else plainness.SECRET))


def _touched(todo: Plan) -> set[str]:
    found: set[str] = set()
    for act in todo.acts:
        at = act.path
        found.add(at)
        while at:
            at = split(at)[0]
            found.add(at)
    return found


class _Objects:
    """A git snapshot's files under the ids that a scan gives them: what `Contents` asks a store for."""

    def __init__(
        self,
        keys: Keys,
        repository: Repository,
        *,
        state: Manifest,
        blobs: dict[str, str],
        place: Path,
        spools: contextlib.ExitStack,
    ) -> None:
        """Large files are spooled in the directory `place`, until `spools` is closed."""
        self.keys = keys
        self._repository = repository
        self._place = place
        self._spools = spools
        self._files: dict[bytes, tuple[str, Entry]] = {}
        self._chunks: list[Chunks] = []
        for path, data in state.items():
            if data[1:2] == e.FILE and path in blobs:
                self._files.setdefault(e.content_of(data), (blobs[path], e.decode(data)))

    def place(self, _name: bytes) -> int:
        """All are equally far."""
        return 0

    def get(self, name: bytes) -> bytes:
        """Raises: ObjectMissing, ObjectDamaged."""
        for chunks in self._chunks:
            if name in chunks:
                return chunks.get(name)
        if name not in self._files:
            raise ObjectMissing(f"object {name.hex()[:16]} is not in the repository")
        blob, entry = self._files[name]
        try:
            data = self._small(blob) if entry.size <= SMALL else self._large(blob, entry)
        except StoreError as error:
            raise ObjectDamaged(str(error)) from error
        if hashlib.sha256(data).digest() != name:
            raise ObjectDamaged(f"git object {blob[:12]} has other bytes than were saved")
        return data

    def _small(self, blob: str) -> bytes:
        return b"".join(self._repository.read(blob))

    def _large(self, blob: str, entry: Entry) -> bytes:
        """The list of a large file's chunks; the file itself goes to disk, to be read from there."""
        spool = self._spools.enter_context(tempfile.TemporaryFile(dir=self._place))  # noqa: SIM115 (the stack closes it)
        for block in self._repository.read(blob):
            spool.write(block)
        spool.flush()
        self._chunks.append(Chunks(spool.fileno(), entry.size))
        return self._chunks[-1].list
