"""Who changed what, as far as looks at a workspace can tell.

Between two snapshots lies an interval. Each snapshot says which runs had something at work in the interval before it;
what changed in one where nobody was at work is a person's, what changed while one run was is that run's, and while
several were it can't be told. The last change of a path decides whose it is. A restore that leaves things of others as
they are is followed by a snapshot that says so: whose they are is then asked of what was before the restore.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentrewind.core.errors import RestoreRefused
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.drift import Drift, found
from agentrewind.snapshots.packs import ObjectDamaged
from agentrewind.snapshots.store import CARRIED, WORKERS, Store, of_run

A_PERSON = "somebody else than a run"
GONE = "another run, of which the snapshots are gone"
BACK = "taken back meanwhile by whoever had changed it"

Workers = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Whose:
    """What `mine` did since the target is taken back; what others did last stays: that of other runs, and with `people`
    that of everybody. `until` is the newest state that counts, by default the present.
    """

    mine: str
    people: bool = True
    until: SnapshotId | None = None
    lately: bool = False
    """In a rehearsal: what changed after the last look is somebody else's."""

    def stays(self, workers: Workers) -> bool:
        if not workers:
            return self.people
        return workers != (self.mine,)


def of_others(store: Store, target: SnapshotId, present: SnapshotId, whose: Whose) -> Drift:
    """What somebody else than `whose.mine` changed last on the way from `target` to `present`, and stays.

    Raises:
        RestoreRefused: that can't be told.
    """
    try:
        last, undone = last_changes(store, target, present), last_changes(store, present, target)
    except (ObjectDamaged, ValueError, KeyError) as error:
        raise RestoreRefused(
            f"Who changed what since snapshot {target[:12]} can't be told any more: the snapshots between it and the"
            " present are damaged or gone. Nothing was touched. To have everything as it was then, say --discard-drift."
        ) from error
    paths = {path: _said(how, workers, whose) for path, (how, workers) in last.items() if whose.stays(workers)}
    back = {path: BACK for path, (_, workers) in undone.items() if path not in last and whose.stays(workers)}
    return Drift(target, {**back, **paths}, told=True)


def _said(how: str, workers: Workers, whose: Whose) -> str:
    if not workers:
        return f"{how} by {A_PERSON}"
    if len(workers) == 1:
        return f"{how} by {workers[0]}"
    others = " or ".join(worker for worker in workers if worker != whose.mine)
    doubt = f"{others} or {whose.mine}" if whose.mine in workers else others
    return f"{how} by {doubt}, which can't be told apart"


def last_changes(store: Store, target: SnapshotId, present: SnapshotId) -> dict[str, tuple[str, Workers]]:
    """How each path that changed on the line of `present` since it left that of `target` changed last, and who was at
    work then. Raises: ObjectDamaged, ValueError, KeyError.
    """
    return _collected(store, present, set(_line(store, target)), None)


def _line(store: Store, name: SnapshotId | None) -> Iterable[SnapshotId]:
    """A snapshot and those that it grew from, newest first. Raises: KeyError: one of them is gone."""
    while name is not None:
        yield name
        name = store.parent(name)


def _collected(
    store: Store, newest: SnapshotId, older: Collection[SnapshotId], only: frozenset[str] | None
) -> dict[str, tuple[str, Workers]]:
    """The last changes on the line of `newest`, down to where it meets `older`, or where all of `only` are found."""
    last: dict[str, tuple[str, Workers]] = {}
    for name in _line(store, newest):
        if name in older or (only is not None and only <= last.keys()):
            break
        changed = {path: how for path, how in found(store.step(name), None).paths.items() if path not in last}
        if only is not None:
            changed = {path: how for path, how in changed.items() if path in only}
        last.update(_attributed(store, name, changed))
    return last


def _attributed(store: Store, name: SnapshotId, changed: dict[str, str]) -> dict[str, tuple[str, Workers]]:
    details = store.details(name)
    workers = _workers(details)
    found_here = {path: (how, workers) for path, how in changed.items()}
    if CARRIED in details and changed:
        found_here |= {path: (how, (GONE,)) for path, how in changed.items()}
        with suppress(ObjectDamaged, ValueError, KeyError):  # a collection may have taken it; they stay all the same
            found_here |= _collected(store, SnapshotId(details[CARRIED]), (), frozenset(changed))
    return found_here


def joined(details: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is said of several intervals that become one, newest first, because the snapshots between them go."""
    if len(details) == 1:
        return details[0]
    everybody = {worker for item in details for worker in _workers(item) or (A_PERSON,)}
    return {**details[0], WORKERS: [] if everybody == {A_PERSON} else sorted(everybody)}


def _workers(details: dict[str, Any]) -> Workers:
    """Of a snapshot that says nothing of who was at work: it was taken by a run that was alone, or by hand."""
    if WORKERS in details:
        return tuple(map(str, details[WORKERS]))
    by = str(details.get("by", ""))
    return (by,) if of_run(by) else ()
