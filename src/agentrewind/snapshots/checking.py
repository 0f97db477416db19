"""Whether a store can be trusted: every snapshot's state and, if asked, every byte that is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrewind.core.errors import SnapshotDamaged, SnapshotNotFound
from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests
from agentrewind.snapshots.entry import SMALL, ZERO_ID
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.private import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentrewind.core.world import SnapshotId
    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.store import Store

PATHS_NAMED = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """A snapshot that can't be brought back whole, and why, in words."""

    snapshot: SnapshotId
    why: str


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What was looked at, and which snapshots aren't whole; the others can be brought back."""

    snapshots: int
    objects: int
    read: bool
    problems: tuple[Problem, ...]


def check_store(
    store: Store, *, read_data: bool, progress: Callable[[int, int | None], None] = lambda *_: None
) -> StoreCheck:
    """Look at every state, at its fingerprint, and whether the contents that it needs are there; with `read_data` read
    all of these and compare them with their ids. Changes nothing.
    """
    store.forget_descriptions()
    states = _States(store)
    for number, name in enumerate(store.names(), 1):
        states.look(name)
        if not read_data:
            progress(number, len(store.names()))
    bad = _bad(store, states.needed, progress) if read_data else states.needed - store.catalogue.objects.keys()
    problems = [
        *states.problems,
        *_users(store, bad | states.unlisted, skip={item.snapshot for item in states.problems}),
    ]
    return StoreCheck(len(store.names()), len(states.needed), read_data, tuple(problems))


class _States:
    """States and fingerprints, each along its step where that is possible."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._weights: dict[SnapshotId, int] = {}
        self._lists: set[bytes] = set()
        self.needed: set[bytes] = set()
        self.unlisted: set[bytes] = set()
        """Lists of the parts of large files that can't be read."""
        self.problems: list[Problem] = []

    def look(self, name: SnapshotId) -> None:
        try:
            weight, entries = self._weighed(name)
            expected = self._store.snapshot(name).fingerprint
        except (SnapshotDamaged, SnapshotNotFound) as error:
            self.problems.append(Problem(name, str(error)))
            return
        self._weights[name] = weight
        for data in entries:
            if data[1:2] == e.FILE:
                self._need(data)
        if f"{weight:064x}" != expected:
            self.problems.append(Problem(name, "its state doesn't have the fingerprint it should have"))

    def _weighed(self, name: SnapshotId) -> tuple[int, Iterable[bytes]]:
        """The weight of a state, and the entries that it has and the one before hasn't."""
        parent = self._store.parent(name)
        if parent in self._weights and parent is not None:
            try:
                step = self._store.step(name)
            except (ObjectDamaged, ValueError, KeyError):
                pass
            else:
                moved = manifests.moved_fingerprint(self._weights[parent], step)
                return moved, [new for _, _, new in step if new is not None]
        state = self._store.state(name)
        return manifests.fingerprint(state), state.values()

    def _need(self, data: bytes) -> None:
        content = e.content_of(data)
        if content == EMPTY:
            return
        self.needed.add(content)
        if e.size_of(data) <= SMALL or content in self._lists:
            return
        self._lists.add(content)
        try:
            self.needed.update(_parts(self._store, content))
        except (ObjectMissing, ObjectDamaged):
            self.unlisted.add(content)


def _parts(store: Store, content: bytes) -> set[bytes]:
    """Ids of the chunks of a large file. Raises: ObjectMissing, ObjectDamaged."""
    ids = store.get(content)
    return {ids[at : at + 32] for at in range(0, len(ids), 32)} - {ZERO_ID}


def _bad(store: Store, needed: set[bytes], progress: Callable[[int, int | None], None]) -> set[bytes]:
    """Those that are missing or have other bytes than they should."""
    bad = set()
    for number, name in enumerate(sorted(needed, key=store.place), 1):
        try:
            store.get(name)
        except (ObjectMissing, ObjectDamaged):
            bad.add(name)
        progress(number, len(needed))
    return bad


def _users(store: Store, bad: set[bytes], skip: set[SnapshotId]) -> list[Problem]:
    """The snapshots that use one of these contents, with the paths."""
    if not bad:
        return []
    problems = []
    for name in store.names():
        if name in skip:
            continue
        paths = _hit(store, store.state(name), bad)
        if paths:
            more = f" and {len(paths) - PATHS_NAMED:,} more" if len(paths) > PATHS_NAMED else ""
            shown = ", ".join(repr(path) for path in paths[:PATHS_NAMED])
            problems.append(Problem(name, f"contents are missing or damaged: {shown}{more}"))
    return problems


def _hit(store: Store, state: Manifest, bad: set[bytes]) -> list[str]:
    paths = []
    for path, data in state.items():
        if data[1:2] != e.FILE:
            continue
        content = e.content_of(data)
        if content in bad or (e.size_of(data) > SMALL and not bad.isdisjoint(_parts(store, content))):
            paths.append(path)
    return sorted(paths)
