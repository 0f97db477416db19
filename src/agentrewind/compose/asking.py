"""What a person asks of a run whose agent is alive: what it would mean, the request itself, and what became of it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from agentrewind.compose.drifted import of_run
from agentrewind.compose.runs import Run
from agentrewind.compose.secret import redactor
from agentrewind.core.errors import UsageError
from agentrewind.core.records import RecordUid, RewindGivenUp, RewindIntended, RewindRejected, Rewound
from agentrewind.core.standing import surviving, undoing
from agentrewind.core.world import RestoreReport, worker
from agentrewind.engine.compensation import due
from agentrewind.engine.people import People
from agentrewind.engine.processes import marked, ticks_at
from agentrewind.engine.rewinder import Wish, obstacle
from agentrewind.journal.format import JOURNAL
from agentrewind.journal.lease import is_held
from agentrewind.journal.reader import read_run
from agentrewind.journal.requests import Requests, RewindRequest, new_id
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots.attribution import Whose
from agentrewind.snapshots.workspace import WorkspaceWorld


@dataclass(frozen=True, slots=True)
class Unheard:
    """The run ended before its agent made another call; the request was taken back and will never be carried out."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """The run was killed while it was at it; `agentrewind resume` finishes it or gives it up."""


Outcome = Rewound | RewindRejected | RewindGivenUp | Unheard | CutOff


def wish_of(run: Run, to: str, note: str) -> Wish:
    """What a person asks for. Raises: UnknownRecord; UsageError: it can't be, with what to do instead."""
    node = run.node(to)
    wish = Wish(node.uid, note, node.began.thread, by="person")
    found = obstacle(run.tree, wish)
    if found is not None:
        raise UsageError(found)
    return wish


def in_the_way(run: Run, target: RecordUid) -> list[str]:
    """The processes of the run that were started since `target`: a rewind ends those that its tools left behind."""
    since = ticks_at(run.node(target).began.started_ns)
    return [str(process) for process in marked(run.id) if process.started >= since]


@dataclass(frozen=True, slots=True)
class Outside:
    """What a rewind means outside of the workspace: what stays done, and what would be taken back and by what."""

    survives: tuple[str, ...]
    undone: tuple[str, ...]


def outside(run: Run, target: RecordUid) -> Outside:
    """Nothing is touched. What takes something back may fail: the rewind says so then."""
    found = [item for item in due(run.tree, target) if run.alive or not item.effect.by_program]
    return Outside(
        tuple(surviving(run.tree, target, {undoing(item.node, item.effect) for item in found})),
        tuple(f"{item.effect.what}, by `{item.effect.undo}`" for item in found),
    )


def why_not(outcome: RewindRejected | RewindGivenUp | Unheard | CutOff) -> str:
    """Why nothing came of a request, in words; of the last two without the full stop, for how to go on to follow."""
    match outcome:
        case RewindRejected(told=text):
            return text
        case RewindGivenUp(why=why):
            return f"The rewind was not made: {why}. The files are as they were before it."
        case Unheard():
            return "The run ended before its agent made another model call. Nothing was touched"
        case CutOff():
            return "The run was killed while it was at it. Nothing is lost"


def rehearsed(world: WorkspaceWorld, run: Run, target: RecordUid, *, keep_drift: bool = True) -> RestoreReport:
    """What a rewind to `target` would do to the files. Nothing is touched.

    With `keep_drift` it leaves what others changed as it is. Of what changed after the last look at them, nobody can
    tell yet whose it is; it is shown as the run's while its agent is alive, and as somebody else's once it has ended.
    """
    snapshot, last = run.node(target).began.snapshot, run.tree.live
    assert snapshot is not None  # `obstacle` has looked
    if not keep_drift:
        return of_run(world, run.tree, keep=False).restore(snapshot, dry_run=True)
    since = None if last is None else last.snapshot
    whose = Whose(worker(run.id), lately=run.tree.ended is not None and not run.alive)
    return world.restore(snapshot, dry_run=True, since=since, whose=whose)


class Asked:
    """A request to a run which is alive."""

    def __init__(self, run: Run, wish: Wish, *, keep_drift: bool) -> None:
        self._run = run
        self._requests = Requests(run.path)
        note = redactor(os.environ, run.workspace).text(wish.note)
        self.request = RewindRequest(new_id(), wish.target, note, time.time_ns(), keep_drift)
        self._seen = -1

    def put(self) -> None:
        """Raises: StorageFull, JournalError: it could not be put; the run goes on as it was."""
        self._requests.ask(self.request)

    def withdraw(self) -> bool:
        """Take it back, also where it was never put. False where the run had taken it already: then it is carried out
        or refused.
        """
        request = self.request.id
        if self._requests.withdraw(request):
            return True
        return not self._requests.taken(request) and request not in read_run(self._run.path).tree.requests

    def outcome(self) -> Outcome | None:
        """What has become of it; None where it still waits. Costs next to nothing where the journal hasn't grown."""
        size = os.stat(self._run.path / JOURNAL).st_size
        log = read_run(self._run.path) if size != self._seen or not self._alive() else None
        if log is None:
            return None
        self._seen = size
        event = log.tree.requests.get(self.request.id)
        if event is not None and not isinstance(event, RewindIntended):
            return event
        if log.alive:
            return None
        return Unheard() if event is None and self._requests.withdraw(self.request.id) else CutOff()

    def _alive(self) -> bool:
        return is_held(self._run.path)


def pause(run: Run) -> bool:
    """Let a run that is alive wait at its next model call; False where it was told so already.

    Raises:
        UsageError: it isn't alive. StorageFull, JournalError: the run goes on as it was.
    """
    if not run.alive:
        raise UsageError(f"The run {run.id} isn't running ({run.state}), so there is nothing to pause.")
    return Requests(run.path).pause()


def unpause(run: Run) -> None:
    """Let it go on. Raises: UsageError: it isn't paused."""
    if not Requests(run.path).unpause():
        raise UsageError(f"The run {run.id} isn't paused ({run.state}).")


def drop_requests(run: Run, log: JournalWriter) -> None:
    """Refuse what was asked of the run before it was cut off: whoever works on it now has seen how it stands."""
    People(log, Requests(run.path)).close()
