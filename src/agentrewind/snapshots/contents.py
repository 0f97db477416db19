"""The objects of a plan: read and compared before the first act, in the order in which they lie in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrewind.core.errors import SnapshotDamaged
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.entry import CHUNK, SMALL, ZERO_ID, Entry
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.sealing import Unsealable
from agentrewind.snapshots.vetting import vetted

if TYPE_CHECKING:
    from agentrewind.snapshots.plan import FileStep
    from agentrewind.snapshots.store import Store

_PREFETCHED_BYTES = 32 << 20


class Contents:
    """The objects of a plan: all read and compared before the first act, the small ones kept for it."""

    def __init__(self, store: Store, *, keep: bool = True) -> None:
        """`keep`: have the small ones at hand from then on."""
        self._store = store
        self._kept: dict[bytes, bytes] = {}
        self._aliases: dict[bytes, bytes] = {}
        self._room = _PREFETCHED_BYTES if keep else 0
        self.keys = store.keys
        self.place = store.place

    def alias(self, name: bytes, stored: bytes) -> None:
        """Read `stored` where `name` is asked for."""
        self._aliases[name] = stored

    def hold(self, name: bytes, data: bytes) -> None:
        """Have `data` at hand under `name`."""
        self._kept[name] = data

    def get(self, name: bytes) -> bytes:
        """Raises: ObjectMissing, ObjectDamaged."""
        data = self._kept.get(name)
        return self._store.get(self._aliases.get(name, name)) if data is None else data

    def chunks(self, entry: Entry) -> list[bytes]:
        """The ids of a large file's chunks."""
        ids = self.get(entry.content)
        if len(ids) != -(-entry.size // CHUNK) * 32:
            raise ObjectDamaged("a list of chunks doesn't fit the size of its file")
        return [ids[at : at + 32] for at in range(0, len(ids), 32)]

    def check(self, steps: list[FileStep], target: str) -> None:
        """Read and compare every object that the plan needs.

        Raises:
            SnapshotDamaged: with the paths whose objects are missing or wrong.
        """
        bad: list[str] = []
        for step in sorted(steps, key=lambda step: self._store.place(e.content_of(step.data))):
            if step.rewrite:
                try:
                    self.check_file(e.decode(step.data))
                except (ObjectMissing, ObjectDamaged) as error:
                    bad.append(f"{step.paths[0]!r} ({error})")
        if bad:
            raise SnapshotDamaged(
                f"Snapshot {target} can't be brought back: {'; '.join(bad[:10])}"
                f"{f' and {len(bad) - 10} more' if len(bad) > 10 else ''}. Nothing was touched."  # noqa: PLR2004
            )

    def check_file(self, entry: Entry) -> int:
        """Read all objects of a file; how many. Raises: ObjectMissing, ObjectDamaged."""
        self.xattrs(entry)
        data = self._keep(entry.content)
        if entry.size <= SMALL:
            if len(data) != entry.size:
                raise ObjectDamaged("an object doesn't have the size of its file")
            return 1
        sizes: dict[bytes, int] = {}
        for number, name in enumerate(self.chunks(entry)):
            size = min(CHUNK, entry.size - number * CHUNK)
            if name != ZERO_ID and sizes.setdefault(name, size) != size:
                raise ObjectDamaged("a chunk has two sizes")
        for name, size in sizes.items():
            if len(self._keep(name)) != size:
                raise ObjectDamaged("a chunk doesn't have the size of its place in the file")
        return 1 + len(sizes)

    def _keep(self, name: bytes) -> bytes:
        data = self.get(name)
        if name not in self._kept and len(data) <= self._room:
            self._kept[name] = data
            self._room -= len(data)
        return data

    def xattrs(self, entry: Entry) -> list[tuple[bytes, bytes]]:
        """Raises: ObjectDamaged."""
        if not entry.xattrs:
            return []
        try:
            return vetted(self._store.keys.unseal(entry.xattrs) if entry.private else entry.xattrs)
        except (Unsealable, e.Malformed) as error:
            raise ObjectDamaged(str(error)) from error
