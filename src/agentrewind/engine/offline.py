"""What is done to a run while its agent is not running: settle after a crash, rewind, undo, restore files, resume."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from agentrewind.core.budgets import UNLIMITED
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentRewindError, RewindRefused, StoreError, UsageError
from agentrewind.core.memory import Note, entries, injection, policy_named, standing, tokens
from agentrewind.core.records import (
    BranchId,
    FilesRestored,
    RecordUid,
    RewindGivenUp,
    RewindIntended,
    Rewound,
    RunResumed,
    Warned,
)
from agentrewind.core.tree import Node, RunTree
from agentrewind.core.world import KeepsOthers, RestoreReport, SnapshotId, World, worker
from agentrewind.engine.checkpointer import Checkpointer, Log, ms
from agentrewind.engine.compensation import compensate
from agentrewind.engine.prefix import answered_here
from agentrewind.engine.processes import Process, end_all, marked
from agentrewind.engine.rewinder import Ender, Rewinder, Wish, brought_back, commit_of

FILES_DONE = named("restore.files done")
UNDO_INTENDED = named("undo.intent written")
RESUMED = named("resume.world ready")


def end_marked(run_id: str) -> Ender:
    """End what an agent that is gone has left running: the processes that carry the run's mark."""

    def end(started_since: int) -> tuple[list[Process], list[Process]]:
        return end_all(lambda: [process for process in marked(run_id) if process.started >= started_since])

    return end


def _run_id(tree: RunTree) -> str:
    return tree.started.run_id if tree.started else ""


def _clear(log: Log) -> list[Process]:
    """End what the run left running, which would write into the restored files.

    Raises:
        StoreError: a process can't be ended; the files were not touched.
    """
    ended, alive = end_marked(_run_id(log.tree))(0)
    if alive:
        names = ", ".join(map(str, alive))
        raise StoreError(f"Processes of this run are still running: {names}. End them first; no file was touched.")
    return ended


def _saved(world: World, label: str) -> SnapshotId:
    return world.snapshot(label).id


def settle(log: Log, world: World) -> list[str]:
    """Bring a run and its workspace to a consistent pair after a crash; says in words what was done.

    A rewind that was cut off is finished; where that can't be done (a damaged object) it is given up and the files
    become what they were before it. What the workspace holds at this moment is saved first either way.

    Raises:
        StoreError: neither was possible; both states are named, nothing was lost.
    """
    intent = log.tree.intent
    if intent is None:
        return [_finish_restore(world)] if world.pending is not None else []
    begun = time.perf_counter()
    found = _saved(world, "found after a crash")
    ended = _clear(log)
    clock = time.perf_counter()
    try:
        if intent.why == "rewind" and not intent.keep_world:
            compensate(log, intent)
        report = None if intent.keep_world else brought_back(world, intent, log.tree, until=intent.live)
    except (AgentRewindError, OSError) as error:
        return [_give_up(log, world, intent, error)]
    restore_ms = ms(clock)
    log.append(
        replace(
            commit_of(intent, report),
            live=intent.live,
            ended_processes=tuple(map(str, ended)),
            memory_tokens=tokens(_memory(log.tree, intent.target, intent.note)) if intent.why == "rewind" else 0,
            took_ms=ms(begun),
            at_ns=time.time_ns(),
            restore_ms=restore_ms,
        )
    )
    log.sync()
    done = [f"Finished the {intent.why} to {intent.target} that a crash had cut off."]
    if found != intent.live:
        log.append(Warned(f"What the workspace held after the crash is saved as snapshot {found}."))
        done.append(f"What the workspace held before that is saved as snapshot {found}.")
    return done


def _finish_restore(world: World) -> str:
    pending = world.pending
    assert pending is not None
    world.resume()
    return f"Finished a restore to snapshot {pending.target} that a crash had cut off; before it: {pending.live}."


def _give_up(log: Log, world: World, intent: RewindIntended, error: Exception) -> str:
    try:
        world.restore(intent.live)
    except (AgentRewindError, OSError) as second:
        raise StoreError(
            f"A {intent.why} was cut off by a crash and can't be finished ({error}), and the files can't be brought"
            f" back to what they were before it ({second}). Nothing else was touched; snapshots {intent.snapshot} (the"
            f" target) and {intent.live} (before) name the two states."
        ) from error
    log.append(RewindGivenUp(intent.branch, str(error), intent.request))
    log.sync()
    return f"Gave up the {intent.why} to {intent.target} ({error}); the files are as they were before it."


def rewind(
    log: Log, world: World, to: RecordUid, note: str, *, by: str = "person", keep_drift: bool = False
) -> Rewound:
    """Rewind a run whose agent is not running; `resume` then goes on from there. With `keep_drift`, what somebody else
    changed last stays as it is.

    Raises:
        UnknownRecord: no such record.
        RewindRefused: it can't be made; nothing was touched.
    """
    node = log.tree.node(to)
    wish = Wish(to, note, node.began.thread, by=by, keep_drift=keep_drift)
    rewinder = _rewinder(log, world)
    refusal = rewinder.refusal(wish)
    if refusal is not None:
        raise RewindRefused(refusal)
    return rewinder.make(wish, memory=_memory(log.tree, to, note, by))


def _rewinder(log: Log, world: World) -> Rewinder:
    checkpointer = Checkpointer(log, world)
    ender = end_marked(_run_id(log.tree))
    return Rewinder(log, world, checkpointer, budget=UNLIMITED, end_processes=ender, memory=_policy(log.tree))


def _policy(tree: RunTree) -> str:
    return tree.started.memory if tree.started else ""


def restore_files(log: Log, world: World, uid: RecordUid, *, dry_run: bool = False) -> RestoreReport:
    """Bring the files alone to what they were just before `uid`; the conversation doesn't move.

    Raises:
        UnknownRecord: no such record. UsageError: it has no snapshot. Nothing was touched.
    """
    snapshot = log.tree.node(uid).began.snapshot
    if snapshot is None:
        raise UsageError(f"{uid} has no snapshot of the files: it failed when it was taken. Choose another record.")
    if not dry_run:
        _clear(log)
    begun = time.perf_counter()
    report = world.restore(snapshot, dry_run=dry_run)
    reach(FILES_DONE)
    if not dry_run and report.live is not None:
        _say_restored(log, report, begun, uid)
        log.sync()
    return report


def undo(log: Log, world: World) -> Rewound | FilesRestored:
    """Take the last rewind or restore back: the files, and after a rewind the conversation too, are where they were
    just before it. What has been done since is saved and stays readable. Undoing an undo does it again.

    Raises:
        UsageError: there is nothing to undo.
    """
    if not log.tree.moves:
        raise UsageError("There is nothing to undo: this run has no rewind and no restore.")
    last = log.tree.moves[-1]
    if isinstance(last, Rewound) and last.source is None:
        raise UsageError(
            f"The last rewind (to {last.target}) was made when the run stood at its very beginning; there is no step to"
            " go back to. Its files before it are saved: use `agentrewind snap restore` with snapshot " + last.live
        )
    _clear(log)
    if isinstance(last, Rewound):
        return _undo_rewind(log, world, last)
    begun = time.perf_counter()
    event = _say_restored(log, world.restore(last.live), begun, why="undo")
    log.sync()
    return event


def _say_restored(
    log: Log,
    report: RestoreReport,
    begun: float,
    record: RecordUid | None = None,
    why: Literal["restore", "undo"] = "restore",
) -> FilesRestored:
    """Write down that the files alone were brought to another state. `begun` is when that began."""
    live = report.live or report.target
    event = FilesRestored(report.target, live, time.time_ns(), record, why, len(report.acts), ms(begun))
    log.append(event)
    return event


def _undo_rewind(log: Log, world: World, last: Rewound) -> Rewound:
    tree, source = log.tree, last.source
    assert source is not None
    live = _saved(world, "before an undo")
    thread = tree.node(source).began.thread
    intent = RewindIntended(tree.head, source, last.live, live, "", tree.next_branch(), thread, by="person", why="undo")
    world.sync()
    log.append(intent)
    log.sync()
    reach(UNDO_INTENDED)
    clock = time.perf_counter()
    report = world.restore(last.live)
    restore_ms = ms(clock)
    event = replace(commit_of(intent, report), took_ms=restore_ms, at_ns=time.time_ns(), restore_ms=restore_ms)
    log.append(event)
    log.sync()
    return event


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a run goes on: the conversation to seed the agent with, and the files that belong to it.

    `at` is None where the run never came to a checkpoint: the task begins again.
    """

    at: RecordUid | None
    seed: tuple[Message, ...]
    snapshot: SnapshotId | None
    serves: bool
    """The answer that this checkpoint got is given again instead of a new call."""
    notes: frozenset[BranchId] = frozenset()
    """The notes that stand in the seed, by the branches that brought them."""
    found: SnapshotId | None = None
    """What the workspace held before `resume` brought it to `snapshot`; None where that was the same."""


def system_message(text: str) -> Message:
    """The memory as most dialects take it."""
    return {"role": "system", "content": text}


def resume_point(log: Log, memory: Callable[[str], Message] = system_message) -> ResumePoint:
    """The newest checkpoint of the current path with the conversation that belongs to it.

    `memory` makes the message that carries notes, where a rewind has not been answered yet.
    """
    tree = log.tree
    moved = unanswered_move(tree)
    if moved is not None:
        seed = (*_contents(log, moved.target), memory(_memory(tree, moved.target, None)))
        snapshot = tree.node(moved.target).began.snapshot
        return ResumePoint(moved.target, seed, snapshot, serves=False, notes=tree.held_on(tree.branch))
    node = next((item for item in tree.ancestors(tree.head) if _goes_on(tree, item)), None)
    if node is None:
        return ResumePoint(None, (), _first_snapshot(tree), serves=False)
    seed, snapshot = _contents(log, node.uid), node.began.snapshot
    return ResumePoint(node.uid, seed, snapshot, serves=_servable(node), notes=tree.held(node.uid))


def _goes_on(tree: RunTree, node: Node) -> bool:
    failed = node.ended is not None and node.ended.error is not None
    return tree.usable(node.uid) is None and node.began.thread == tree.main and not failed


def unanswered_move(tree: RunTree) -> Rewound | None:
    """The rewind after which nothing has been answered, however often the run was resumed since: its memory is in no
    record yet.
    """
    branch = tree.branches[tree.branch]
    since = {branch.id}
    while branch.opened_by is None and branch.parent is not None:
        branch = tree.branches[branch.parent]
        since.add(branch.id)
    last = branch.opened_by
    if last is None or last.why != "rewind":
        return None
    asked = any(node.began.branch in since and node.is_llm and node.answered for node in tree.nodes.values())
    return None if asked else last


def _first_snapshot(tree: RunTree) -> SnapshotId | None:
    return next(iter(tree.states), None)


def _contents(log: Log, uid: RecordUid) -> tuple[Message, ...]:
    return tuple(log.get(item) for item in log.tree.messages(uid))


def _servable(node: Node) -> bool:
    """An answer can be given again, unless it called a rewind tool (that was dealt with, or is to be asked anew)."""
    return node.answered and node.ended is not None and node.ended.output is not None and not answered_here(node)


def _memory(tree: RunTree, target: RecordUid, note: str | None, by: str = "agent") -> str:
    """The text to stand after the prefix of `target`: the notes that this prefix doesn't hold, and `note`.

    Without a note: what the newest rewind, which has not been answered, brought.
    """
    held = tree.held(target)
    if note is None:
        stand, number = _standing(tree), tree.rewinds
    else:
        notes = [*tree.notes, Note(tree.next_branch(), target, note, by)]
        stand, number = standing(policy_named(_policy(tree)), notes, held), tree.rewinds + 1
    missing = [item for item in stand if item.branch not in held]
    return injection(entries(missing, tree.merges), rewinds=number, left=None)


def _standing(tree: RunTree) -> list[Note]:
    held = tree.held_on(tree.branch)
    return [note for note in tree.notes if note.branch in held]


def standing_notes(tree: RunTree) -> tuple[list[Note], str]:
    """The notes that hold on the current path, oldest first, and the text that brings all of them into a context."""
    notes = _standing(tree)
    return notes, injection(entries(notes, tree.merges), rewinds=tree.rewinds, left=None)


def resume(log: Log, world: World, memory: Callable[[str], Message] = system_message) -> tuple[ResumePoint, list[str]]:
    """Settle, bring the files to the newest checkpoint, open a branch there; says in words what was done.

    What the workspace holds now is saved first; `agentrewind undo` brings it back.
    """
    done = settle(log, world)
    _clear(log)
    point = resume_point(log, memory)
    live = None
    found = None
    if point.snapshot is not None:
        begun = time.perf_counter()
        report = _brought_to(world, point.snapshot, log.tree)
        live = report.live
        if report.acts and live is not None:
            found = live
            _say_restored(log, report, begun, point.at)
            done.append(
                f"Brought {len(report.acts)} paths back to the last checkpoint; what was there is snapshot {live}."
            )
    reach(RESUMED)
    log.append(RunResumed(time.time_ns(), log.tree.next_branch(), point.at, serves=point.serves, live=live))
    log.sync()
    return replace(point, found=found), done


def _brought_to(world: World, snapshot: SnapshotId, tree: RunTree) -> RestoreReport:
    """The files of the checkpoint at which a run is resumed; what a rewind to it has left to others stays theirs."""
    move = unanswered_move(tree)
    if move is None or not move.kept or not isinstance(world, KeepsOthers):
        return world.restore(snapshot)
    return world.restore_own(snapshot, worker(_run_id(tree)), people=True)
