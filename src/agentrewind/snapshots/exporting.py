"""A snapshot written out into an empty directory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from agentrewind.core.errors import StoreError, UsageError
from agentrewind.core.world import Gap, RestoreReport, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import DIRECTORY
from agentrewind.snapshots.clock import StillClock
from agentrewind.snapshots.cloning import Donor
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.foresight import refuse_foreseeable
from agentrewind.snapshots.plan import compared, plan
from agentrewind.snapshots.reading import HashingSink
from agentrewind.snapshots.restore import Pass
from agentrewind.snapshots.restoring import lossy_gaps
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.scan import Scan, Seen
from agentrewind.snapshots.vetting import vet

if TYPE_CHECKING:
    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.store import Store


def export(
    store: Store, name: SnapshotId, to: Path, *, include_private: bool, near: Path | None = None
) -> RestoreReport:
    """See `WorkspaceWorld.export`. `near` is a directory whose files may give their blocks to those written out."""
    state = store.state(name)
    vet(state, state, name)
    target, left_out = _for_export(state, include_private=include_private)
    _make_empty(to)
    with contextlib.ExitStack() as closed:
        fd = os.open(to, DIRECTORY)
        closed.callback(os.close, fd)
        donor = _donor(near, store, closed)
        sink = HashingSink(store.keys)
        seen = Scan(fd, PathRules.everything_tracked(), sink, Seen(), StillClock(), tick_ns=0).run()
        todo = plan(compared(seen.entries, target), seen)
        contents = Contents(store)
        refuse_foreseeable(fd, todo, seen, contents)
        contents.check(todo.files, name)
        outcome = Pass(fd, contents, seen=seen, target=target, plan=todo, donor=donor).run()
    if outcome.conflicts:
        raise StoreError(f"{to}: somebody else writes there; {outcome.conflicts[0].path!r} could not be exported.")
    return RestoreReport(
        name,
        None,
        tuple(todo.acts),
        tuple(left_out),
        lossy_gaps(outcome.lossy),
        shared=0 if donor is None else donor.shared,
    )


def _donor(near: Path | None, store: Store, closed: contextlib.ExitStack) -> Donor | None:
    if near is None:
        return None
    try:
        root = os.open(near, DIRECTORY)
    except OSError:
        return None
    closed.callback(os.close, root)
    return Donor(root, store.keys)


def _for_export(state: Manifest, *, include_private: bool) -> tuple[Manifest, list[Gap]]:
    target: Manifest = {}
    left_out: list[Gap] = []
    for path, data in state.items():
        entry = e.decode(data)
        if entry.private and not include_private:
            left_out.append(Gap(path, "private: left out"))
        elif entry.kind in e.TRACKED:
            target[path] = e.as_foreign(data, os.geteuid(), os.getegid())
        elif entry.why:
            left_out.append(Gap(path, entry.why))
    return target, left_out


def _make_empty(to: Path) -> None:
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(to.iterdir()):
            raise UsageError(f"{to} is not empty; an export needs a new or empty directory.")
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{to} is not a directory; an export needs a new or empty one.") from error
