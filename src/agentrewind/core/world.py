"""What an agent changes, as a contract: save it, bring it back, compare it, check it.

Paths are relative to the root of the world, `/`-separated `str` with undecodable bytes as surrogate escapes
(`os.fsencode` gives the bytes back).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, Protocol, runtime_checkable

SnapshotId = NewType("SnapshotId", str)

CHANGES_KEPT = 200
"""How many changed paths a summary names; the rest is a count."""


@dataclass(frozen=True, slots=True)
class Change:
    """`status` is `A` added, `M` content, `D` deleted, `T` type changed, `P` only mode, owner, times or attributes."""

    status: str
    path: str


@dataclass(frozen=True, slots=True)
class Changes:
    """Which paths differ: the first `CHANGES_KEPT` by name, and how many there are in all."""

    items: tuple[Change, ...] = ()
    total: int = 0
    deleted: int = 0
    """How many of all are gone; 0 also where nobody counted, and `items` has to say."""

    def __bool__(self) -> bool:
        return self.total > 0


@dataclass(frozen=True, slots=True)
class Gap:
    """A path that a snapshot doesn't hold as it was, and why, in words for a person."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a snapshot holds and what it doesn't. Four kinds of absence that never share a representation."""

    entries: int = 0
    bytes: int = 0
    excluded: tuple[Gap, ...] = ()
    """Left out on purpose: by rule, sockets, devices, other file systems mounted inside."""
    unreadable: tuple[Gap, ...] = ()
    """Could not be read: the snapshot is incomplete."""
    too_large: tuple[Gap, ...] = ()
    """Over the size limit that the user set: the snapshot is incomplete."""
    unstable: tuple[Gap, ...] = ()
    """Changed while being read, three times; stored as last read."""
    lossy: tuple[Gap, ...] = ()
    """Kept, but for an attribute or a flag that a snapshot doesn't hold."""
    volatile: int = 0
    """How many cache files were left out that every tool rebuilds: a count, never a list."""
    found_by: str = ""
    """`watch`: the changes are those that the kernel told of; `scan`: everything was looked at. Empty: not recorded."""
    why_scanned: str = ""
    """Why everything was looked at, in words for a person."""

    @property
    def complete(self) -> bool:
        return not self.unreadable and not self.too_large


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete, immutable state of a world, named by `id`. Equal states have equal fingerprints."""

    id: SnapshotId
    fingerprint: str
    coverage: Coverage
    changes: Changes
    """Against `parent`, the state that the world last was equal to (all of it for the first)."""
    created_ns: int
    parent: SnapshotId | None = None
    label: str = ""
    automatic: bool = False
    """Saved by a restore, of what it was about to change, and not because somebody asked for it."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a restore did (or, in a dry run, would do) to one path.

    `what` is one of `create`, `write`, `replace` (type changed or outside links), `remove`, `attributes`.
    """

    what: str
    path: str


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did. `live` is the snapshot of the state just before, so that it can be taken back."""

    target: SnapshotId
    live: SnapshotId | None
    acts: tuple[Act, ...] = ()
    kept: tuple[Gap, ...] = ()
    """Left as they are although they differ from the target: excluded paths that have changed since, and so on."""
    lossy: tuple[Gap, ...] = ()
    verified: bool = False
    dry_run: bool = False
    drift: tuple[Gap, ...] = ()
    """What somebody else wrote after the last look that this restore counts from, of the paths where it matters; `why`
    says what became of it. Either it was left as it is (it stands in `kept` too), or it is saved and was made equal.
    What changed during the restore is here as well: it was not overwritten until that was saved too.
    """
    shared: int = 0
    """Of files written out elsewhere: how many bytes share their blocks with files of the world."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A restore that was cut off: the tree may be a mixture of `live` and `target`; both are saved."""

    target: SnapshotId
    live: SnapshotId


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a snapshot can be brought back: every object read and its hash compared."""

    ok: bool
    checked: int
    problems: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Declared by a backend; the conformance kit tests both answers."""

    modes: bool = True
    """All permission bits of files and directories; where absent, each path that loses some is named, and what is made
    anew is open to nobody else.
    """
    hard_links: bool = True
    xattrs: bool = True
    times_ns: bool = True
    sparse: bool = True
    owners: bool = True
    empty_directories: bool = True
    nested_repositories: bool = True
    any_byte_names: bool = True
    private_paths: bool = True
    drift: bool = False
    """`restore(…, keep_drift=True, since=ID)` leaves what changed after that snapshot as it is; reports name it."""


class World(Protocol):
    """One world and its store. One process writes at a time (a lease); not for use by several threads at once."""

    capabilities: Capabilities

    def snapshot(self, label: str = "") -> Snapshot:
        """Save the present state; durable against the death of any process when it returns.

        Raises:
            StorageFull: nothing was added; earlier snapshots are as they were.
        """

    def find(self, snapshot: SnapshotId) -> Snapshot:
        """Raises: SnapshotNotFound."""

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All of them, oldest first."""

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        """Save the present state, then make the world equal to `snapshot`, touching only what differs; verify it.

        Nothing is overwritten or removed unless its present content is saved in `report.live`.

        Raises:
            SnapshotNotFound, SnapshotDamaged, SnapshotIncomplete, RestoreRefused, StorageFull: nothing was touched.
            RestoreInterrupted: stopped half-way; `pending` says so and `resume()` finishes it.
        """

    @property
    def pending(self) -> Pending | None:
        """A restore that a crash cut off, if there is one."""

    def resume(self) -> RestoreReport | None:
        """Finish a restore that was cut off; what changed since is saved first. None if there was none."""

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes: ...

    def verify(self, snapshot: SnapshotId) -> Verification: ...

    def sync(self) -> None:
        """Return once everything saved so far would survive a power loss."""

    def close(self) -> None:
        """Give the lease back."""


RUN = "run "
"""How a worker's name begins where it is a run."""


def worker(run_id: str) -> str:
    """What a run is called where it matters who was at work: as the holder of a workspace, as the maker of a snapshot,
    as `mine` of `restore_own`.
    """
    return RUN + run_id


@runtime_checkable
class KeepsOthers(Protocol):
    """A world whose snapshots say who was at work when something changed."""

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        """Take back what `mine` did since `snapshot`, and leave what others did last: other runs, or with `people`
        everybody. `until` is the newest state that counts, by default the present. Raises: as `World.restore`.
        """


@runtime_checkable
class TellsApart(KeepsOthers, Protocol):
    """Such a world in the hands of a run, which has to say when it has something at work."""

    @property
    def shared(self) -> bool:
        """Whether other runs may be at work in it at the same time."""

    def at_work(self, working: bool) -> None:
        """From here on the run has something at work; or it has nothing since the snapshot that it took last."""

    def quiet(self) -> bool:
        """Whether nothing has changed since the last snapshot, as far as that is told without a look. False: who wants
        to know must look.
        """


class RunWorld(World, TellsApart, Protocol):
    """The world of a run, in its hands."""
