"""Runs that exist: finding, reading, settling and changing them while their agent is not running."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from agentrewind.compose.home import LAST, Home
from agentrewind.compose.places import workspace_path
from agentrewind.compose.secret import redactor
from agentrewind.compose.worlds import Progress, cut_off_with_side, open_world, together
from agentrewind.core.codec import Json
from agentrewind.core.cost import RunCost, costs
from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentRewindError, Busy, JournalError, StoreError, UnknownRecord, UsageError
from agentrewind.core.records import FilesRestored, MessageId, RecordUid, Rewound, RunEnded, RunStarted
from agentrewind.core.redact import Redactor
from agentrewind.core.tree import Node, RunTree
from agentrewind.core.world import Pending, RestoreReport, SnapshotId, worker
from agentrewind.engine import offline
from agentrewind.journal.reader import RunLog, read_run
from agentrewind.journal.requests import Requests
from agentrewind.journal.writer import Durability, JournalWriter
from agentrewind.snapshots.workspace import WorkspaceWorld

State = Literal["running", "paused", "done", "failed", "interrupted", "rewound"]
"""`paused`: it is alive, and waits at its next model call.

`rewound`: it had ended, and was rewound (or that was undone) since; a resume goes on from there."""

PROGRAM = "program"
"""What the header names as the agent of a run of `agentrewind exec` or `agentrewind proxy`: only its user can start
it again.
"""

INTERRUPTED = "interrupted"
"""The reason of the end where somebody ended a run before its agent had."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A run and its workspace, open for writing; `settled` says what an earlier crash had left to do."""

    log: JournalWriter
    world: WorkspaceWorld
    settled: tuple[str, ...]


class Run:
    """A run as its journal tells it. Reading never disturbs a running agent; what changes something is refused then.

    Attributes:
        id: its id. path: the directory of its journal.
    """

    def __init__(self, home: Home, run_id: str) -> None:
        self._home = home
        self.id = run_id
        self.path: Path = home.run_dir(run_id)
        self._log: RunLog = read_run(self.path)

    def redacted(self, hide: Redactor) -> Run:
        """The same as this redactor would have recorded it."""
        found = copy(self)
        found._log = self._log.redacted(hide)  # noqa: SLF001 (our own)
        return found

    @property
    def home(self) -> Home:
        """Where it is kept."""
        return self._home

    @property
    def tree(self) -> RunTree:
        """All of it: nodes, branches, verdicts, moves. Don't change it."""
        return self._log.tree

    @property
    def started(self) -> RunStarted:
        """Its header. Raises: JournalError: it has none."""
        if self.tree.started is None:
            raise JournalError(f"The run {self.id} has no header: it was cut off before it began. Nothing was lost.")
        return self.tree.started

    @property
    def in_workspace(self) -> bool:
        """Whether its world is a directory; a trial's is an environment, of which nothing is on disk."""
        return bool(self.started.workspace)

    @property
    def workspace(self) -> Path:
        """Its directory. Raises: UsageError: it has none."""
        if not self.in_workspace:
            raise UsageError(
                f"{self.id} played in an environment, which has no files: it can be read, and nothing of it"
                " can be brought back. Nothing was touched."
            )
        return Path(self.started.workspace)

    @property
    def state(self) -> State:
        if self._log.alive:
            return "paused" if Requests(self.path).paused else "running"
        if self.tree.ended is None or self.tree.intent is not None:
            return "interrupted"
        last = next((event for event in reversed(self._log.events) if isinstance(event, RunEnded | Rewound)), None)
        if isinstance(last, Rewound):
            return "rewound"
        if self.tree.ended.ok:
            return "done"
        return "interrupted" if self.tree.ended.reason == INTERRUPTED else "failed"

    def cost(self) -> RunCost:
        """What it has taken so far."""
        return costs(self._log.events)

    @property
    def alive(self) -> bool:
        """Whether its agent was running when this was read."""
        return self._log.alive

    @property
    def of_program(self) -> bool:
        """Whether its agent is a program that its user starts."""
        return self.started.agent == PROGRAM

    @property
    def resumable(self) -> bool:
        """Whether `agentrewind resume` can start its agent again: the header says how, and lacks no secret."""
        settings = self.started.settings
        if not settings or not self.in_workspace or self.of_program:
            return False
        return not any("[redacted " in str(item) for item in settings.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader of the journal noticed, such as a last line that a crash tore."""
        return tuple(self._log.warnings)

    def checkpoints(self) -> list[Node]:
        """The points of the current path that one can go back to, oldest first."""
        return self.tree.checkpoints()

    def records(self) -> list[Node]:
        """Every LLM call and tool call of all branches, oldest first."""
        return list(self.tree.nodes.values())

    def node(self, uid: str) -> Node:
        """Raises: UnknownRecord."""
        try:
            return self.tree.nodes[RecordUid(uid)]
        except KeyError:
            raise UnknownRecord(
                f"There is no record {uid!r} in the run {self.id}. `agentrewind log {self.id}` shows what there is."
            ) from None

    def messages(self, uid: str) -> list[Message]:
        """What the LLM call `uid` sent to its provider, rewinds applied. Raises: UnknownRecord."""
        node = self.node(uid)
        if not node.is_llm:
            raise UnknownRecord(f"{uid} is a tool call; only LLM calls have messages.")
        return [self.content(content) for content in self.tree.messages(node.uid)]

    def output(self, uid: str) -> Json:
        """What the provider answered or the tool returned; None where it came to no end. Raises: UnknownRecord."""
        ended = self.node(uid).ended
        return None if ended is None or ended.output is None else self.content(ended.output)

    def content(self, content: MessageId) -> Json:
        """A content that a record of the run names."""
        return self._log.get(content)

    def rewind(self, to: str, note: str) -> Rewound:
        """Go back to a checkpoint of a run whose agent is not running: files and conversation.

        `agentrewind resume` then goes on from there, and the note is what the agent is told. A run of `session` can't
        be resumed: its program is started again, on the files as they are then.

        Raises:
            UnknownRecord: no such record. RewindRefused: not to there. Busy: the agent is running. Nothing was touched.
        """
        self.node(to)
        with self.writing() as run:
            return offline.rewind(run.log, run.world, RecordUid(to), note)

    def restore_files(self, uid: str, *, dry_run: bool = False) -> RestoreReport:
        """Bring the files alone to what they were just before `uid`. Raises: as `rewind`."""
        node = self.node(uid)
        if dry_run and node.began.snapshot is not None:
            with self.reading() as world:
                return world.restore(node.began.snapshot, dry_run=True)
        with self.writing() as run:
            return offline.restore_files(run.log, run.world, node.uid)

    def undo(self) -> Rewound | FilesRestored:
        """Take back the last rewind or restore. Raises: UsageError: there is none. Busy: the agent is running."""
        with self.writing() as run:
            return offline.undo(run.log, run.world)

    @contextmanager
    def reading(self) -> Iterator[WorkspaceWorld]:
        """Its snapshots, for reading: no lease is taken. A workspace that is gone looks like an empty one."""
        with TemporaryDirectory(prefix="agentrewind-") as nothing:
            root = self.workspace if self.workspace.is_dir() else Path(nothing)
            store = self._home.store_of(self.workspace)
            with closing(open_world(self._home, root, store=store, reading=True, run_id=self.id)) as world:
                yield world

    @contextmanager
    def writing(
        self,
        progress: Progress | None = None,
        durability: Durability = "process",
        environ: Mapping[str, str] = os.environ,
    ) -> Iterator[Opened]:
        """Run and workspace open for writing, and whatever a crash had left half-done settled.

        The secrets of `environ` are kept out of the journal.

        Raises:
            Busy: the agent is running, or somebody else uses the workspace.
        """
        if self._log.alive:
            raise Busy(f"The run {self.id} is still running. Wait until it has ended, or stop it, and try again.")
        workspace = self._standing()
        redact = redactor(environ, workspace)
        holder = worker(self.id)
        try:
            with (
                closing(
                    open_world(
                        self._home,
                        workspace,
                        holder=holder,
                        durability=durability,
                        progress=progress,
                        run_id=self.id,
                    )
                ) as world,
                JournalWriter.open(self.path, redact=redact, durability=durability) as log,
            ):
                done = [*log.warnings, *settle(self._home, world, workspace, log)]
                world.mark(
                    [] if log.tree.ended is not None else [holder]
                )  # what changed since: a person's, or the agent's
                yield Opened(log, world, tuple(done))
        finally:
            with suppress(AgentRewindError):
                self._log = read_run(self.path)

    def _standing(self) -> Path:
        """The workspace; where it is gone, an empty directory in its place, so that its files can come back."""
        if not self.workspace.exists():
            try:
                self.workspace.mkdir(mode=0o700)
            except OSError as error:
                raise UsageError(f"{self.workspace} is gone and can't be made again: {error.strerror}.") from error
        return workspace_path(self.workspace, self._home, allow_home=True)


def open_run(ref: str = LAST) -> Run:
    """The run that `ref` names: `last`, an id, or the beginning of one.

    Raises:
        UnknownRun: there is none. JournalDamaged: its journal can't be read.
    """
    home = Home.of()
    return Run(home, home.find(ref))


def settle_if_possible(home: Home, world: WorkspaceWorld, workspace: Path) -> list[str]:
    """As `settle`; where that can't be done the workspace stays as it is, for it must always be possible to save it and
    to restore another state.
    """
    try:
        return settle(home, world, workspace)
    except (AgentRewindError, OSError) as error:
        return [str(error) if isinstance(error, Unsettled) else f"What a crash left can't be finished: {error}"]


class Unsettled(StoreError):
    """A restore that was cut off can't be finished; the text names the ways out."""


def settle(home: Home, world: WorkspaceWorld, workspace: Path, log: JournalWriter | None = None) -> list[str]:
    """Finish what a crash left half-done: in the workspace, whoever had begun it, and in the run of `log`.

    Says in words what was done. A restore that belongs to no run's rewind becomes a move of the run of `log`, so that
    it can be undone there.

    Raises:
        Unsettled: a restore was cut off and can't be finished; it is still pending.
    """
    done: list[str] = []
    for run_id in halves_of(home, world, workspace):
        try:
            with together(home, world, run_id) as both:
                done += _settled(home, both, workspace, log)
        except (AgentRewindError, OSError) as error:  # the workspace alone may still be brought to an end
            done.append(f"A restore of the run {run_id} with its sandbox can't be finished: {error}")
    return done + _settled(home, world, workspace, log) + ([] if log is None else offline.settle(log, world))


def halves_of(home: Home, world: WorkspaceWorld, workspace: Path) -> list[str]:
    """The runs that were cut off while they restored this workspace together with their sandbox. Left alone, each
    would later finish that over everything that was done here since.
    """
    return [run_id for run_id in cut_off_with_side(home, world) if _tree_here(home, run_id, workspace) is not None]


def _settled(home: Home, world: WorkspaceWorld, workspace: Path, log: JournalWriter | None) -> list[str]:
    done: list[str] = []
    pending = world.pending
    if pending is not None:
        owner = next((run for run in reversed(home.run_ids()) if _intends(home, run, workspace, pending.target)), None)
        if owner is None:
            done.append(_finish(world, pending, log))
        elif log is None or owner != log.run_dir.name:
            with JournalWriter.open(home.run_dir(owner), redact=redactor(os.environ, workspace)) as other:
                done += [f"{line} (run {owner})" for line in offline.settle(other, world)]
    return done


def _finish(world: WorkspaceWorld, pending: Pending, log: JournalWriter | None) -> str:
    try:
        report = world.resume()
    except (AgentRewindError, OSError) as error:
        raise Unsettled(
            f"A restore to snapshot {pending.target} was cut off, so the files may be a mixture, and it can't be"
            f" finished: {error} Nothing is lost. `agentrewind snap restore {pending.live}` brings back what was there"
            f" before it; `agentrewind snap restore {pending.target}` tries again, once nothing stands in the way."
        ) from error
    if log is not None and report is not None:
        log.append(FilesRestored(pending.target, pending.live, time.time_ns(), restored=len(report.acts)))
    return (
        f"Finished a restore to snapshot {pending.target} that a crash had cut off; what the files were before it is"
        f" snapshot {pending.live}."
    )


def _intends(home: Home, run_id: str, workspace: Path, target: SnapshotId) -> bool:
    """Whether that run was cut off in a rewind of this workspace to this snapshot."""
    tree = _tree_here(home, run_id, workspace)
    return tree is not None and tree.intent is not None and tree.intent.snapshot == target


def _tree_here(home: Home, run_id: str, workspace: Path) -> RunTree | None:
    """The tree of a run of this workspace; None of another one, or of one that can't be read."""
    try:
        tree = read_run(home.run_dir(run_id)).tree
    except AgentRewindError:
        return None
    return tree if tree.started is not None and tree.started.workspace == str(workspace) else None


def verify_snapshots(run: Run, progress: Progress) -> tuple[int, list[str]]:
    """Read every snapshot that a run names: how many there are, and what is wrong with them, in words."""
    if not run.in_workspace:
        return 0, []
    named = sorted({*run.tree.states, *(node.began.snapshot for node in run.records() if node.began.snapshot)})
    problems: list[str] = []
    with run.reading() as world:
        for number, snapshot in enumerate(named, 1):
            progress(number, len(named))
            problems += _damage(world, snapshot)
    return len(named), problems


def _damage(world: WorkspaceWorld, snapshot: SnapshotId) -> list[str]:
    try:
        found = world.verify(snapshot)
    except AgentRewindError as error:
        return [f"snapshot {snapshot}: {error}"]
    return [f"snapshot {snapshot}: {gap.path}: {gap.why}" for gap in found.problems]
