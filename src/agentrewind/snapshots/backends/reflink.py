"""The main store's form, but large files are clones: they share their blocks with the workspace until one is written.

For file systems with `FICLONE` (btrfs, XFS, bcachefs); elsewhere refused. Small files, secrets and everything but bytes
lie in packs, as in the main store. What is brought back is copied, compared by the kernel and shared again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import struct
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import WorkspaceRefused
from agentrewind.core.world import Capabilities, Gap, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.backends.ledger import Observed
from agentrewind.snapshots.backends.passes import Chunks, PassWorld
from agentrewind.snapshots.beneath import opened
from agentrewind.snapshots.cloning import clone
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.entry import SMALL, Entry
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.reading import take_file
from agentrewind.snapshots.rules import PathRules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrewind.snapshots.lease import Lease
    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.plan import Plan
    from agentrewind.snapshots.store import Store

LARGE = 1 << 20
RULES = PathRules()
_FIDEDUPERANGE = 0xC0189436
_DEDUPE = struct.Struct("=QQHHIqQQiI")
_AT_ONCE = 16 << 20
_NOT_SHARED = frozenset((errno.EOPNOTSUPP, errno.EINVAL, errno.EXDEV, errno.EPERM, errno.EACCES, errno.ETXTBSY))
_CLONED = named("backend.reflink-cloned")


def why_not(root: Path, store: Path) -> str:
    """Why large files can't be cloned from `root` into `store`; empty where they can. Tried, not guessed."""
    above = next(path for path in (store, *store.parents) if path.exists())
    if os.stat(root).st_dev != os.stat(above).st_dev:
        return f"its store {store} lies on another file system"
    trial = above / f".agentrewind-{secrets.token_hex(8)}.tmp"
    clone = trial.with_suffix(".clone")
    try:
        trial.write_bytes(bytes(range(256)) * 16)
        with trial.open("rb") as file:
            _clone(file.fileno(), clone)
    except OSError as error:
        return f"its file system doesn't clone files ({error.strerror})"
    finally:
        trial.unlink(missing_ok=True)
        clone.unlink(missing_ok=True)
    return ""


def _clone(source: int, to: Path) -> None:
    fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        clone(source, fd)
    finally:
        os.close(fd)


def _share(source: int, to: int, size: int) -> None:
    """Let `to` have the blocks of `source` where their bytes are equal: neither bytes nor times of it change."""
    for at in range(0, size, _AT_ONCE):
        request = bytearray(_DEDUPE.pack(at, min(_AT_ONCE, size - at), 1, 0, 0, to, at, 0, 0, 0))
        fcntl.ioctl(source, _FIDEDUPERANGE, request)


class ReflinkWorld(PassWorld):
    """See `PassWorld`: all that the main store keeps, and large files for the price of their changes."""

    backend: ClassVar[str] = "reflink"
    rules: ClassVar[PathRules] = RULES
    rules_digest: ClassVar[str] = RULES.digest
    capabilities = Capabilities()

    def __init__(self, root: Path, store: Path, lease: Lease) -> None:
        if why := why_not(root, store):
            raise WorkspaceRefused(f"{root} can't be kept with clones: {why}.")
        super().__init__(root, store, lease)
        self._clones = store / "clones"
        self._clones.mkdir(mode=0o700, exist_ok=True)
        for left in self._clones.glob("*.new"):
            left.unlink()

    # Saving

    def _observe(self, name: SnapshotId) -> Observed:  # noqa: ARG002
        self._look()
        lossy = (Gap(path, e.lost(data)) for path, data in self._known.entries.items() if data[0] & e.LOSSY)
        gaps = sorted(lossy, key=lambda gap: gap.path)
        return Observed(self._known.entries, tuple(self._known.unstable), tuple(gaps))

    def _look(self) -> None:
        self._known = self._scan()

    def _keep(self, name: SnapshotId, observed: Observed, label: str) -> None:  # noqa: ARG002
        with self._root() as root:
            for path, old, new in self._step(observed):
                if e.kind_of(new) == e.FILE and (old is None or e.kind_of(old) != e.FILE or _moved(old, new)):
                    self._store(root, path, observed, self._store_file)

    def _store_file(self, fd: int, entry: Entry) -> None:
        if not _is_cloned(entry):
            take_file(fd, self._ledger, private=entry.private)
            return
        clone = self._clones / entry.content.hex()
        if not clone.exists():
            fresh = clone.with_suffix(".new")
            fresh.unlink(missing_ok=True)
            _clone(fd, fresh)
            fresh.rename(clone)
            reach(_CLONED)

    # Bringing back

    @contextlib.contextmanager
    def _contents(self, name: SnapshotId, state: Manifest) -> Iterator[Contents]:  # noqa: ARG002
        sizes = {entry.content: entry.size for entry in map(e.decode, state.values()) if _is_cloned(entry)}
        with contextlib.ExitStack() as files:
            objects = _Objects(self._ledger, self._clones, sizes, files)
            yield Contents(cast("Store", objects))  # it asks for no more than `_Objects` has

    def _brought_back(self, root: int, todo: Plan, contents: Contents) -> None:  # noqa: ARG002
        """Share the blocks again; where that isn't possible they are a copy."""
        for step in todo.files:
            entry = e.decode(step.data)
            if step.rewrite and _is_cloned(entry):
                with contextlib.suppress(FileNotFoundError), (self._clones / entry.content.hex()).open("rb") as clone:
                    self._share_with(clone.fileno(), root, step.paths[0], entry.size)

    @staticmethod
    def _share_with(clone: int, root: int, path: str, size: int) -> None:
        try:
            with opened(root, path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC) as fd:
                _share(clone, fd, size)
        except OSError as error:
            if error.errno not in _NOT_SHARED:
                raise


def _moved(old: bytes | None, new: bytes | None) -> bool:
    return old is None or new is None or e.content_of(old) != e.content_of(new)


def _is_cloned(entry: Entry) -> bool:
    return entry.kind == e.FILE and entry.size > LARGE and not entry.private


class _Objects:
    """The ledger's objects and the clones: what `Contents` asks a store for."""

    def __init__(self, ledger: Store, clones: Path, sizes: dict[bytes, int], files: contextlib.ExitStack) -> None:
        self.keys = ledger.keys
        self.place = ledger.place
        self._ledger = ledger
        self._clones = clones
        self._sizes = sizes
        self._files = files
        self._chunks: list[Chunks] = []

    def get(self, name: bytes) -> bytes:
        """Raises: ObjectMissing, ObjectDamaged."""
        for chunks in self._chunks:
            if name in chunks:
                return chunks.get(name)
        if name not in self._sizes:
            return self._ledger.get(name)
        try:
            data = self._read(self._files.enter_context((self._clones / name.hex()).open("rb")).fileno(), name)
        except FileNotFoundError as error:
            raise ObjectMissing(f"clone {name.hex()[:16]} is not in the store") from error
        if hashlib.sha256(data).digest() != name:
            raise ObjectDamaged(f"clone {name.hex()[:16]} has other bytes than its name says")
        return data

    def _read(self, clone: int, name: bytes) -> bytes:
        size = self._sizes[name]
        if size <= SMALL:
            return os.pread(clone, size, 0)
        self._chunks.append(Chunks(clone, size))
        return self._chunks[-1].list
