"""A workspace together with a directory beside it: saved and brought back as one state.

The side is what commands in a sandbox see as `/tmp` and as their home directory. Every snapshot of the pair is a
snapshot of the workspace, under its id, so that everything that knows snapshots knows these; which state of the side
belongs to it is a line in a file beside the store of the side. Where only the side has changed, the workspace gets an
entry of its own.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import (
    NO_ROOM,
    AgentRewindError,
    RestoreInterrupted,
    SnapshotDamaged,
    SnapshotNotFound,
    StorageFull,
    StoreError,
)
from agentrewind.core.world import (
    CHANGES_KEPT,
    Act,
    Change,
    Changes,
    Coverage,
    Gap,
    Pending,
    RestoreReport,
    Snapshot,
    SnapshotId,
    Verification,
)
from agentrewind.snapshots.attribution import Whose
from agentrewind.snapshots.intent import Kept, clear_intent, read_intent, write_intent
from agentrewind.snapshots.workspace import Absence, WorkspaceWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from agentrewind.snapshots.entry import Entry

    _Restore = Callable[[], RestoreReport]

UNKNOWN = "its state isn't part of this snapshot, so it was left as it is"

_SIDE_DONE = named("snapshot.side restored")
_LINKS = "links"


class SidedWorld(WorkspaceWorld):
    """As `WorkspaceWorld`; paths of the side are shown as `shown` says: by the first name, absolute.

    Takes both worlds over: closing this closes both.
    """

    def __init__(self, main: WorkspaceWorld, side: WorkspaceWorld, directory: Path, shown: Mapping[str, str]) -> None:
        super().__init__(main._site, main._lease)  # noqa: SLF001 (the same object under a wider contract)
        self._side = side
        self.beside = directory
        self._shown = dict(shown)
        self._shown_as = " and ".join(shown.values())
        self._links = _Links(directory / _LINKS, writable=main.writable)

    def close(self) -> None:
        """As `WorkspaceWorld.close`, of both."""
        self.close_side()
        super().close()

    def close_side(self) -> None:
        """Give up the side alone; the world of the workspace stays open."""
        self._links.close()
        self._side.close()

    def sync(self) -> None:
        """As `WorkspaceWorld.sync`, of both."""
        self._side.sync()
        self._links.sync()
        super().sync()

    def side_of(self, snapshot: SnapshotId) -> SnapshotId | None:
        """The state of the side that belongs to a snapshot; None where none does."""
        return self._links.get(self._resolve(snapshot))

    def export_side(self, snapshot: SnapshotId, to: Path) -> None:
        """Write the state of the side that belongs to a snapshot, if one does, into the empty directory `to`.

        Raises:
            SnapshotNotFound, SnapshotDamaged, RestoreRefused: nothing was written.
        """
        side = self.side_of(snapshot)
        if side is not None:
            self._side.export(side, to, include_private=True, share=True)

    # Saving

    def snapshot(self, label: str = "", *, own: bool = False) -> Snapshot:
        """See `World`: the side first, so that the state that is named is never without its other half."""
        side = self._side.snapshot()
        main = super().snapshot(label, own=own)
        known = self._links.get(main.id)
        if known is not None and known != side.id:
            main = super().snapshot(label, own=True)
        if self._links.get(main.id) is None:
            self._links.add(main.id, side.id)
            if self._site.durability == "power":
                self._links.sync()
        return self._paired(main, side)

    def _paired(self, main: Snapshot, side: Snapshot) -> Snapshot:
        both = hashlib.sha256(f"{main.fingerprint} {side.fingerprint}".encode()).hexdigest()
        changes = _together(main.changes, self._named(self._moved(main, side)))
        return replace(main, fingerprint=both, changes=changes, coverage=self._covered(main.coverage, side.coverage))

    def _moved(self, main: Snapshot, side: Snapshot) -> Changes:
        """What changed in the side since the parent of this snapshot."""
        before = None if main.parent is None else self._links.get(main.parent)
        if before is None:
            return Changes()
        return Changes() if before == side.id else self._side.diff(before, side.id)

    def quiet(self) -> bool:
        """As `WorkspaceWorld.quiet`, of both."""
        return super().quiet() and self._side.quiet()

    def audit(self) -> int:
        """As `WorkspaceWorld.audit`, of both."""
        return super().audit() + self._side.audit()

    # Looking

    def find(self, snapshot: SnapshotId) -> Snapshot:
        """See `World`."""
        return self._with_side(super().find(snapshot))

    def snapshots(self) -> tuple[Snapshot, ...]:
        """See `WorkspaceWorld`."""
        return tuple(self._with_side(main) for main in super().snapshots())

    def _with_side(self, main: Snapshot) -> Snapshot:
        side = self._links.get(main.id)
        return main if side is None else self._paired(main, self._side.find(side))

    def diff(self, a: SnapshotId, b: SnapshotId) -> Changes:
        """See `World`."""
        before, after = self.side_of(a), self.side_of(b)
        moved = Changes() if before is None or after is None else self._side.diff(before, after)
        return _together(super().diff(a, b), self._named(moved))

    def diff_live(self, a: SnapshotId) -> Changes:
        """See `WorkspaceWorld`."""
        before = self.side_of(a)
        moved = Changes() if before is None else self._side.diff_live(before)
        return _together(super().diff_live(a), self._named(moved))

    def entry(self, snapshot: SnapshotId, path: str) -> Entry | None:
        """See `WorkspaceWorld`."""
        where = self._below(path)
        if where is None:
            return super().entry(snapshot, path)
        side = self.side_of(snapshot)
        return None if side is None else self._side.entry(side, where)

    def read(self, snapshot: SnapshotId, path: str) -> bytes | Absence:
        """See `WorkspaceWorld`."""
        where = self._below(path)
        if where is None:
            return super().read(snapshot, path)
        side = self.side_of(snapshot)
        return Absence.NOT_THERE if side is None else self._side.read(side, where)

    def verify(self, snapshot: SnapshotId) -> Verification:
        """See `World`."""
        main, side = super().verify(snapshot), self.side_of(snapshot)
        if side is None:
            return main
        try:
            found = self._side.verify(side)
        except SnapshotNotFound as error:
            found = Verification(ok=False, checked=0, problems=(Gap("", str(error)),))
        problems = (*main.problems, *self._gaps(found.problems))
        return Verification(main.ok and found.ok, main.checked + found.checked, problems)

    # Bringing back

    def restore(
        self,
        snapshot: SnapshotId,
        *,
        dry_run: bool = False,
        accept_incomplete: bool = False,
        keep_drift: bool = False,
        since: SnapshotId | None = None,
        whose: Whose | None = None,
    ) -> RestoreReport:
        """See `WorkspaceWorld`: both, or neither."""
        name = self._resolve(snapshot)
        side = self._links.get(name)
        since = self._site.current if since is None else self._resolve(since)  # the present is saved before the rest

        def main(*, dry_run: bool = False) -> RestoreReport:
            return super(SidedWorld, self).restore(
                name,
                dry_run=dry_run,
                accept_incomplete=accept_incomplete,
                keep_drift=keep_drift,
                since=since,
                whose=whose,
            )

        if side is None:
            report = main(dry_run=dry_run)
            gaps = tuple(Gap(path, UNKNOWN) for path in self._shown.values())
            return replace(report, kept=(*report.kept, *gaps))
        if dry_run:
            return self._both(main(dry_run=True), self._side.restore(side, dry_run=True, accept_incomplete=True))
        self._vetted(name, side)
        present = self.snapshot()
        self._links.sync()  # the way back must outlast a power loss before anything is touched
        kept = _kept(name, present.id, since if keep_drift else None, whose)
        write_intent(self.beside, Pending(name, present.id), accept_incomplete=accept_incomplete, kept=kept)
        return self._carry_out(main, side, present.id)

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        """See `WorkspaceWorld`."""
        report = super().restore_own(snapshot, mine, people=people, until=until)
        if report.live is not None:
            self.snapshot()  # what others changed was saved of the workspace alone
        return report

    def _vetted(self, name: SnapshotId, side: SnapshotId) -> None:
        """Raises: SnapshotDamaged: there is no such state of the side any more; nothing was touched."""
        try:
            self._side.find(side)
        except SnapshotNotFound as error:
            raise SnapshotDamaged(
                f"Snapshot {name}: what {self._shown_as} held is gone ({error}). Nothing was touched."
            ) from error

    def _carry_out(self, main: _Restore, side: SnapshotId, present: SnapshotId) -> RestoreReport:
        before = self._links.get(present)
        try:
            moved = self._side.restore(side, accept_incomplete=True)
            reach(_SIDE_DONE)
            before = self._saved_with(present, moved.live or before)
        except RestoreInterrupted:
            raise
        except AgentRewindError:
            clear_intent(self.beside)
            raise
        try:
            report = main()
        except RestoreInterrupted:
            raise
        except AgentRewindError as error:
            self._back(before, error)
            raise
        clear_intent(self.beside)
        return self._finished(self._both(report, moved), present, before)

    def _saved_with(self, present: SnapshotId, before: SnapshotId | None) -> SnapshotId | None:
        """The side as its restore saved it first: later than we did, and also what only a restore makes readable."""
        if before is not None and before != self._links.get(present):
            self._links.add(present, before)
        return before

    def _back(self, before: SnapshotId | None, error: AgentRewindError) -> None:
        """The workspace was not touched, so the side must be what it was."""
        assert before is not None
        try:
            self._side.restore(before, accept_incomplete=True)
        except AgentRewindError as second:
            raise RestoreInterrupted(
                f"A restore failed half-way ({error}), and {self._shown_as} of the sandbox could not be brought back to"
                f" what they held ({second}). Everything is saved; `agentrewind resume` tries again."
            ) from error
        clear_intent(self.beside)

    def _finished(self, report: RestoreReport, present: SnapshotId, before: SnapshotId | None) -> RestoreReport:
        """What was saved meanwhile of the workspace belongs to the side as it was before."""
        live = report.live or present
        if before is not None and self._links.get(live) is None:
            self._links.add(live, before)
        return replace(report, live=live if self._links.get(live) == before else present)

    def _both(self, main: RestoreReport, side: RestoreReport) -> RestoreReport:
        acts = tuple(Act(act.what, self._name(act.path)) for act in side.acts)
        return replace(
            main,
            acts=(*main.acts, *acts),
            kept=(*main.kept, *self._gaps(side.kept)),
            lossy=(*main.lossy, *self._gaps(side.lossy)),
            verified=main.verified and side.verified,
        )

    @property
    def pending(self) -> Pending | None:
        """See `World`."""
        found = read_intent(self.beside)
        return super().pending if found is None else found.pending

    def resume(self) -> RestoreReport | None:
        """See `World`."""
        found = read_intent(self.beside)
        if found is None:
            self._side.resume()
            return super().resume()
        present = self.snapshot()
        self._side.resume()
        half = super().resume()
        side = self._links.get(found.pending.target)
        moved = None if side is None else self._side.restore(side, accept_incomplete=True)
        report = self._resumed(found)
        clear_intent(self.beside)
        if half is not None:
            report = replace(report, acts=(*half.acts, *report.acts))
        report = replace(report, live=present.id)
        return report if moved is None else self._both(report, moved)

    # Names

    def _name(self, path: str) -> str:
        """How a path of the side is shown."""
        first, slash, rest = path.partition("/")
        return f"{self._shown.get(first, f'/{first}')}{slash}{rest}"

    def _below(self, path: str) -> str | None:
        """The path in the side that is shown so; None where it isn't one of the side."""
        for name, at in self._shown.items():
            if path == at or path.startswith(f"{at}/"):
                return name + path[len(at) :]
        return None

    def _named(self, changes: Changes) -> Changes:
        return replace(changes, items=tuple(Change(item.status, self._name(item.path)) for item in changes.items))

    def _gaps(self, gaps: tuple[Gap, ...]) -> tuple[Gap, ...]:
        return tuple(Gap(self._name(gap.path), gap.why) for gap in gaps)

    def _covered(self, main: Coverage, side: Coverage) -> Coverage:
        named = self._gaps
        return replace(
            main,
            entries=main.entries + side.entries,
            bytes=main.bytes + side.bytes,
            excluded=(*main.excluded, *named(side.excluded)),
            unstable=(*main.unstable, *named(side.unstable)),
            lossy=(*main.lossy, *named(side.lossy), *named(side.unreadable), *named(side.too_large)),
            volatile=main.volatile + side.volatile,
        )


def _kept(name: SnapshotId, present: SnapshotId, since: SnapshotId | None, whose: Whose | None) -> Kept | None:
    """What a restore of the workspace is to leave as it is, also where it is begun once more after a crash."""
    if whose is not None:
        return Kept(name, whose.until or present, whose.mine, whose.people)
    return None if since is None else Kept(since, present)


def _together(main: Changes, side: Changes) -> Changes:
    if not side:
        return main
    room = max(CHANGES_KEPT - len(main.items), 0)
    return Changes((*main.items, *side.items[:room]), main.total + side.total, main.deleted + side.deleted)


class _Links:
    """Which state of the side belongs to a snapshot: a line each, the last one holds; a torn line is no line."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self._known: dict[SnapshotId, SnapshotId] = {}
        with suppress(FileNotFoundError), open(path, encoding="ascii", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if line.endswith("\n") and len(words) == 2:  # noqa: PLR2004
                    self._known[SnapshotId(words[0])] = SnapshotId(words[1])
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600) if writable else -1
        if self._fd >= 0 and _torn(self._fd):
            os.write(self._fd, b"\n")

    def get(self, snapshot: SnapshotId) -> SnapshotId | None:
        return self._known.get(snapshot)

    def add(self, snapshot: SnapshotId, side: SnapshotId) -> None:
        """Raises: StorageFull, StoreError: it isn't known, and nothing of it stays in the file."""
        before = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            line = memoryview(f"{snapshot} {side}\n".encode())
            while line:
                line = line[os.write(self._fd, line) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, before)
            raise _unwritten(error) from error
        self._known[snapshot] = side

    def sync(self) -> None:
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _unwritten(error: OSError) -> StoreError | StorageFull:
    what = f"a sandbox holds can't be noted for a snapshot: {error.strerror}. Earlier snapshots are as they were."
    return StorageFull(f"No room: what {what}") if error.errno in NO_ROOM else StoreError(f"What {what}")


def _torn(fd: int) -> bool:
    size = os.lseek(fd, 0, os.SEEK_END)
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"
