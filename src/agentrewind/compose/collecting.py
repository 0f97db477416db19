"""What of a store may go: runs by their number, age and size, and the snapshots that nobody needs any more."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentrewind.compose import own_keys
from agentrewind.compose.confining import forget
from agentrewind.compose.home import Home
from agentrewind.compose.importing import remove_old
from agentrewind.compose.stores import Place, Progress, opened, stored, workspaces
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import AgentRewindError, StoreError
from agentrewind.core.world import RUN, SnapshotId
from agentrewind.journal.format import JOURNAL
from agentrewind.journal.lease import Lease
from agentrewind.journal.reader import read_run
from agentrewind.snapshots import gc
from agentrewind.snapshots.gc import Collected, Survey
from agentrewind.snapshots.intent import read_intent
from agentrewind.snapshots.store import Store, of_run

_HIDDEN = ".removing-"
_DAY_NS = 86_400 * 10**9

_RUN_HIDDEN = named("store.gc-run-hidden")
_RUN_REMOVED = named("store.gc-run-removed")


@dataclass(frozen=True, slots=True)
class Retention:
    """What is to stay. Of the runs: the newest `keep_runs`, those of the last `keep_days`; all, where neither is given.
    Then the oldest go until `max_size` is kept. Snapshots made by hand stay, unless `by_hand`.
    """

    keep_runs: int | None = None
    keep_days: float | None = None
    max_size: int | None = None
    by_hand: bool = False
    forget_damaged: bool = False


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run of a workspace: when something was last written in it, whether it goes on, which snapshots it names, and
    how many bytes the snapshots of its sandbox take, which go with it.
    """

    id: str
    last_ns: int
    alive: bool
    names: frozenset[SnapshotId]
    side: int


@dataclass(frozen=True, slots=True)
class Owners:
    """Who needs the snapshots of a store."""

    runs: dict[str, RunFacts]
    by_hand: dict[SnapshotId, int]
    """With the time when each was made."""
    made_by: dict[SnapshotId, str]
    pending: frozenset[SnapshotId]

    def stays(self, name: SnapshotId, runs: set[str], hand_since_ns: int) -> bool:
        """Whether a snapshot stays where those runs stay, and those made by hand since then."""
        if name in self.pending or self.by_hand.get(name, -1) >= hand_since_ns:
            return True
        return self.made_by[name] in runs or any(name in self.runs[run].names for run in runs)


def _owners(home: Home, place: Place, store: Store) -> Owners:
    """Raises: StoreError: a run or a pending restore can't be read, so nobody knows what they need."""
    runs = {facts.id: facts for facts in _runs_of(home, place)}
    pending = frozenset().union(*(_needed(path) for path in (store.directory, *map(home.sandbox_of, runs))))
    kept, made_by, by_hand = store.kept(), {}, {}
    for name in store.names():
        by = store.made_by(name)
        made_by[name] = by.removeprefix(RUN) if of_run(by) else ""
        if not of_run(by) or name in kept:
            by_hand[name] = _made_ns(store, name)
    return Owners(runs, by_hand, made_by, pending)


def _needed(directory: Path) -> frozenset[SnapshotId]:
    """What it takes to finish the restore that was cut off there."""
    intent = read_intent(directory)
    return frozenset() if intent is None else intent.needs


def _made_ns(store: Store, name: SnapshotId) -> int:
    try:
        return store.snapshot(name).created_ns
    except StoreError:
        return time.time_ns()


def _runs_of(home: Home, place: Place) -> Iterator[RunFacts]:
    for run_id, workspace in workspaces(home).items():
        if workspace is None:
            raise _unreadable(home, run_id)
        if workspace and home.store_of(Path(workspace)) == place.directory:
            yield _facts(home, run_id)


def _facts(home: Home, run_id: str) -> RunFacts:
    run_dir = home.run_dir(run_id)
    try:
        log = read_run(run_dir)
    except AgentRewindError as error:
        raise _unreadable(home, run_id) from error
    names = {
        SnapshotId(name)
        for event in log.events
        for name in (getattr(event, "snapshot", None), getattr(event, "live", None))
        if isinstance(name, str)
    }
    side = stored(home.sandbox_of(run_id) / "stores" / run_id)
    return RunFacts(run_id, os.stat(run_dir / JOURNAL).st_mtime_ns, log.alive, frozenset(names), side)


def _unreadable(home: Home, run_id: str) -> StoreError:
    return StoreError(
        f"The journal of the run {run_id} can't be read, so nobody knows which snapshots it needs. Nothing was removed."
        f" `agentrewind check {run_id}` says what is wrong with it; to give it up, remove {home.run_dir(run_id)}."
    )


@dataclass(frozen=True, slots=True)
class Removal:
    """What a collection of one store removes: whole runs, snapshots by hand, and whatever nobody needs any more."""

    runs: tuple[str, ...]
    by_hand: tuple[SnapshotId, ...]
    found: Survey
    sides: int = 0
    """Bytes of the sandboxes of these runs."""
    over: int = 0
    """Bytes by which the store, with the sandboxes of its runs, would still be above `max_size`."""


def preview(home: Home, place: Place, retention: Retention) -> Removal:
    """What would be removed now. Nothing is touched.

    Raises:
        StoreError: something can't be read that would have to be, to know what is needed. As `opened`.
    """
    with opened(place) as store:
        return _removal(home, place, store, retention)


def _removal(home: Home, place: Place, store: Store, retention: Retention, only: Removal | None = None) -> Removal:
    """`only` bounds what may go besides what nobody needs: what somebody has agreed to."""
    owners = _owners(home, place, store)
    order = sorted(owners.runs.values(), key=lambda run: (run.last_ns, run.id))
    stay, since = _kept_by_age(order, retention)
    candidates = _oldest_first(order, owners, stay, since, retention)
    if only is not None:
        stay |= {run.id for run in order} - set(only.runs)
        candidates = [key for key in candidates if key in only.runs or key in only.by_hand]
        agreed = set(only.by_hand)
    else:
        agreed = set(owners.by_hand)

    def without(gone: Sequence[str]) -> Survey:
        left = stay - set(gone)
        names = {
            name
            for name in store.names()
            if (name not in gone and owners.stays(name, left, since)) or (name in owners.by_hand and name not in agreed)
        }
        return gc.survey(store, names, forget_damaged=retention.forget_damaged)

    def left(gone: Sequence[str]) -> int:
        found = without(gone)
        return found.before - found.frees + sum(run.side for run in order if run.id in stay and run.id not in gone)

    count = _fewest(candidates, left, retention.max_size)
    gone, found = candidates[:count], without(candidates[:count])
    runs = tuple(run.id for run in order if run.id not in stay or run.id in gone)
    by_hand = tuple(name for name in found.drop if name in owners.by_hand)
    sides = sum(run.side for run in order if run.id in runs)
    over = 0 if retention.max_size is None else max(left(gone) - retention.max_size, 0)
    return Removal(runs, by_hand, found, sides, over)


def _kept_by_age(order: list[RunFacts], retention: Retention) -> tuple[set[str], int]:
    """The runs that stay for their age, and since when snapshots by hand do."""
    since = 0 if retention.keep_days is None else time.time_ns() - int(retention.keep_days * _DAY_NS)
    if retention.keep_runs is None and retention.keep_days is None:
        stay = {run.id for run in order}
    else:
        newest = order[len(order) - retention.keep_runs :] if retention.keep_runs else []
        recent = [run for run in order if retention.keep_days is not None and run.last_ns >= since]
        stay = {run.id for run in (*newest, *recent)}
    return stay | {run.id for run in order if run.alive}, since if retention.by_hand else 0


def _oldest_first(order: list[RunFacts], owners: Owners, stay: set[str], since: int, retention: Retention) -> list[str]:
    """What may go for the size, the oldest first."""
    if retention.max_size is None:
        return []
    found = [(run.last_ns, run.id) for run in order if run.id in stay and not run.alive]
    if retention.by_hand:
        found += [(made, str(name)) for name, made in owners.by_hand.items() if made >= since]
    return [key for _, key in sorted(found)]


def _fewest(candidates: list[str], left: Callable[[Sequence[str]], int], limit: int | None) -> int:
    """How many of the candidates must go, for so many bytes to be left."""
    if limit is None:
        return 0
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        if left(candidates[:middle]) <= limit:
            high = middle
        else:
            low = middle + 1
    return low


def collected(
    home: Home, place: Place, retention: Retention, agreed: Removal, progress: Progress = lambda *_: None
) -> tuple[Removal, Collected]:
    """Remove what `agreed` shows, as far as it still may go. Runs go first: killed in between, the next collection
    finds their snapshots without an owner.

    Raises:
        Busy: somebody saves there now. As `preview`. StorageFull: there isn't even room to begin.
    """
    with opened(place, writing=True) as store:
        remove_leftovers(home)
        wanted = _removal(home, place, store, retention, agreed)
        for run_id in wanted.runs:
            remove_run(home, run_id)
        return wanted, gc.collect(store, wanted.found, progress=progress)


def remove_run(home: Home, run_id: str) -> None:
    """Remove the directory of a run that nobody writes; from the first moment on it isn't listed any more.

    Raises:
        Busy: it is running.
    """
    run_dir = home.run_dir(run_id)
    lease = Lease.take(run_dir)
    try:
        hidden = run_dir.with_name(_HIDDEN + run_id)
        os.rename(run_dir, hidden)
        reach(_RUN_HIDDEN)
        forget(home, run_id)
        shutil.rmtree(hidden)
        reach(_RUN_REMOVED)
    finally:
        lease.release()


def remove_leftovers(home: Home) -> None:
    """Runs whose removal was cut off, and those whose import was, a day ago or earlier."""
    for path in home.runs.glob(f"{_HIDDEN}*"):
        forget(home, path.name.removeprefix(_HIDDEN))  # first: the name of the run is all that tells of its sandbox
        shutil.rmtree(path, ignore_errors=True)
    remove_old(home)


@dataclass(frozen=True, slots=True)
class Stats:
    """What is in a store. `saved` is what its snapshots would take one by one, `unneeded` what a collection frees,
    `sides` what the sandboxes of its runs take besides.
    """

    snapshots: int
    by_hand: int
    runs: int
    packs: int
    bytes: int
    saved: int
    unneeded: int
    sides: int
    encrypted: bool
    """With a key of its owner, and not one that lies beside it."""


def stats(home: Home, place: Place) -> Stats:
    """Raises: as `opened`; StoreError: a snapshot can't be read."""
    with opened(place) as store:
        owners = _owners(home, place, store)
        alive = {name for name in store.names() if owners.stays(name, set(owners.runs), 0)}
        found = gc.survey(store, alive, forget_damaged=True)
        saved = sum(store.snapshot(name).coverage.bytes for name in found.keep)
        return Stats(
            len(store.names()),
            len(owners.by_hand),
            len(owners.runs),
            len(store.pack_files.numbers()),
            found.before,
            saved,
            found.frees,
            sum(run.side for run in owners.runs.values()),
            store.vault is not None and own_keys.of(place.directory) is None,
        )
