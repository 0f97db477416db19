"""What lies between two snapshots, found along their common history: it costs their difference, not their size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agentrewind.snapshots import manifests
from agentrewind.snapshots.packs import ObjectDamaged

if TYPE_CHECKING:
    from agentrewind.core.world import SnapshotId
    from agentrewind.snapshots.manifests import Delta
    from agentrewind.snapshots.store import Store


def between(store: Store, a: SnapshotId, b: SnapshotId) -> Delta:
    """The step from `a` to `b`; where the history is damaged or was thinned out, from the two states.

    Raises:
        SnapshotDamaged: no undamaged way leads to one of them.
    """
    try:
        return manifests.joined(_steps(store, a, b))
    except (ObjectDamaged, ValueError, KeyError):
        return manifests.difference(store.state(a), store.state(b))


def _steps(store: Store, a: SnapshotId, b: SnapshotId) -> Iterator[Delta]:
    """Up from `a` to what both grew from, and down to `b`. Raises: ObjectDamaged, ValueError, KeyError."""
    ups, downs = _way(store, a, b)
    for name in ups:
        yield [(path, new, old) for path, old, new in store.step(name)]
    for name in reversed(downs):
        yield store.step(name)


def _way(store: Store, a: SnapshotId, b: SnapshotId) -> tuple[list[SnapshotId], list[SnapshotId]]:
    """The snapshots from each of the two up to their common ancestor, without it. Raises: as `_steps`."""
    age = {name: number for number, name in enumerate(store.names())} if a != b else {}
    ups: list[SnapshotId] = []
    downs: list[SnapshotId] = []
    while a != b:
        up = age[a] > age[b]  # the younger of the two goes one up
        younger = a if up else b
        parent = store.parent(younger)
        if parent is None:
            raise KeyError(younger)  # they have no common history
        (ups if up else downs).append(younger)
        a, b = (parent, b) if up else (a, parent)
    return ups, downs


class Overlaid(Mapping[str, bytes]):
    """A state as another one and the step that leads from that to it."""

    def __init__(self, base: Mapping[str, bytes], step: Delta) -> None:
        self._base = base
        self._over: dict[object, bytes | None] = {path: new for path, _, new in step}

    def __getitem__(self, path: str) -> bytes:
        found = self._over[path] if path in self._over else self._base[path]
        if found is None:
            raise KeyError(path)
        return found

    def __contains__(self, path: object) -> bool:
        return self._over[path] is not None if path in self._over else path in self._base

    def __iter__(self) -> Iterator[str]:
        yield from (path for path in self._base if path not in self._over)
        yield from (str(path) for path, data in self._over.items() if data is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
