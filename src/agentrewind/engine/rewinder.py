"""One rewind, in the order that no crash can break (rewind.md, section 3).

Validate, save the present, write the intent, end leftover processes, restore, verify, write the commit. The caller
moves the context last. A process killed in between leaves an intent that `engine.offline.settle` finishes or gives up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from agentrewind.core.budgets import Budget
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import AgentRewindError, RewindRefused, StoreError
from agentrewind.core.memory import tokens
from agentrewind.core.records import (
    RecordUid,
    RequestId,
    RewindGivenUp,
    RewindIntended,
    Rewound,
    ThreadId,
    Warned,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import CHANGES_KEPT, KeepsOthers, RestoreReport, SnapshotId, TellsApart, World, worker
from agentrewind.engine.checkpointer import Checkpointer, Log, ms
from agentrewind.engine.compensation import Undo, compensate
from agentrewind.engine.processes import Process, end_all, leftovers, ticks_now

SAVED = named("rewind.present saved")
INTENDED = named("rewind.intent written")
CLEARED = named("rewind.processes ended")
RESTORED = named("rewind.world restored")
COMMITTED = named("rewind.committed")

Ender = Callable[[int], tuple[list[Process], list[Process]]]
"""Ends the run's processes that were started at this tick or later: (ended, still alive)."""


def end_descendants(
    started_since: int, spared: Callable[[], Collection[int]] = tuple
) -> tuple[list[Process], list[Process]]:
    """End the descendants of this process that were started since, but those that are `spared`.

    What an older process of the run, which stays, starts from now on is left alone.
    """
    kept, begun = set(spared()), ticks_now()
    return end_all(lambda: [item for item in leftovers(os.getpid(), started_since, begun) if item.pid not in kept])


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asks for."""

    target: RecordUid
    note: str
    thread: ThreadId
    reason: str = ""
    by: str = "agent"
    request: RequestId | None = None
    asked: RecordUid | None = None
    """What was asked for, where a selector chose `target` in its place."""
    selector: str = ""
    keep_drift: bool = False
    """What somebody else changed last stays as it is."""


@dataclass(frozen=True, slots=True)
class _Words:
    """How the one who asked is told what to do instead."""

    look: str
    empty: str


_AGENT = _Words(
    "Call backtrack_candidates to see the checkpoints.",
    "memory_summary is empty; say what was tried, why it failed, what is done, and what to do next.",
)
_PERSON = _Words(
    "`agentrewind candidates` shows the checkpoints.",
    "The note is empty; say in it what the agent should know when it goes on from there.",
)


def obstacle(tree: RunTree, wish: Wish) -> str | None:
    """What in the run itself stands against a wish, as `Rewinder.refusal` says it."""
    words = _PERSON if wish.by == "person" else _AGENT
    unusable = tree.usable(wish.target)
    if unusable:
        return f"{unusable} {words.look}"
    node = tree.node(wish.target)
    if node.began.thread != wish.thread:
        return f"{wish.target} belongs to another conversation of this run; choose one of your own checkpoints."
    if not wish.note.strip():
        return words.empty
    snapshot = node.began.snapshot
    if snapshot is not None and not tree.complete(snapshot):
        return f"The snapshot at {wish.target} is incomplete (some files could not be read); choose another one."
    return None


def brought_back(
    world: World, intent: RewindIntended, tree: RunTree, *, until: SnapshotId | None = None
) -> RestoreReport:
    """Restore the files of a rewind as it was intended; `until` as in `KeepsOthers`. Raises: as `World.restore`."""
    if intent.keeps == "nothing" or tree.started is None or not isinstance(world, KeepsOthers):
        return world.restore(intent.snapshot)
    mine = worker(tree.started.run_id)
    return world.restore_own(intent.snapshot, mine, people=intent.keeps == "all", until=until)


def commit_of(intent: RewindIntended, report: RestoreReport | None) -> Rewound:
    """The commit of a rewind that was made as intended; `report` is of its files, None where they stay as they are."""
    kept = report.kept if report else ()
    return Rewound(
        intent.branch,
        intent.source,
        intent.target,
        (report.live if report else None) or intent.live,
        intent.note,
        intent.by,
        intent.why,
        keep_world=intent.keep_world,
        keep_context=intent.keep_context,
        restored=len(report.acts) if report else 0,
        kept=kept[:CHANGES_KEPT],
        kept_more=len(kept[CHANGES_KEPT:]),
        request=intent.request,
        asked=intent.asked,
        selector=intent.selector,
        memory=intent.memory,
    )


class Rewinder:
    """Makes the rewinds of one run.

    Args:
        undos: the functions that take tool calls back, as `compensate` takes them; more may come to them.
    """

    def __init__(
        self,
        log: Log,
        world: World,
        checkpointer: Checkpointer,
        *,
        budget: Budget,
        end_processes: Ender = end_descendants,
        keep_world: bool = False,
        keep_context: bool = False,
        memory: str = "",
        undos: Mapping[RecordUid, Undo] = MappingProxyType({}),
    ) -> None:
        self._policy = memory
        self._undos = undos
        self._log = log
        self._world = world
        self._checkpointer = checkpointer
        self._budget = budget
        self._end_processes = end_processes
        self._keep_world = keep_world
        self._keep_context = keep_context
        self._refused: set[tuple[RecordUid, str]] = set()

    def refusal(self, wish: Wish) -> str | None:
        """Why this wish can't be granted, as one sentence that says what to do instead; None where it can."""
        tree = self._log.tree
        return obstacle(tree, wish) or (None if wish.by == "person" else self._used_up(tree, wish))

    def _used_up(self, tree: RunTree, wish: Wish) -> str | None:
        if self._budget.rewinds is not None and tree.rewinds >= self._budget.rewinds:
            return f"All {self._budget.rewinds} rewinds of this run are used up; go on from here."
        return self._repeated(tree, wish)

    def _repeated(self, tree: RunTree, wish: Wish) -> str | None:
        """A rewind to the same target with an equal note is refused once, with the earlier note shown."""
        key = (wish.target, wish.note.strip())
        earlier = next((note for note in tree.notes if (note.target, note.text.strip()) == key), None)
        if earlier is None or key in self._refused:
            return None
        self._refused.add(key)
        return (
            f"You went back to {wish.target} before with the very same note ({earlier.text.strip()!r}). Choose another"
            " checkpoint, or say in memory_summary what you will do differently; ask again to insist."
        )

    def make(
        self,
        wish: Wish,
        *,
        memory: str | Callable[[], str] = "",
        ended_threads: Sequence[ThreadId] = (),
        context: Literal["exact", "degraded"] = "exact",
    ) -> Rewound:
        """Carry the wish out; the commit is in the journal when this returns.

        `memory` is the text that will be injected, for the accounting; `ended_threads` are the conversations that
        this ends; `context` says whether the model will see exactly what it saw at the target.

        Raises:
            RewindRefused: it was not made; files and context are where they were.
            StoreError: it was not made, and the files could not be brought back to where they were; the journal
                keeps the intent, and whatever changes the run next settles it.
        """
        begun = time.perf_counter()
        intent = self.intend(wish)
        return self.carry_out(intent, memory=memory, ended_threads=ended_threads, begun=begun, context=context)

    def intend(self, wish: Wish) -> RewindIntended:
        """Save the present and write down what is to be done; from here on the rewind can be finished by anybody.

        Raises:
            RewindRefused: nothing was written, nothing is touched.
        """
        tree = self._log.tree
        snapshot = tree.node(wish.target).began.snapshot
        if snapshot is None:
            raise RewindRefused(f"{wish.target} has no snapshot.")
        present = self._checkpointer.save("before a rewind")
        if present.snapshot is None:
            raise RewindRefused(f"The rewind was not made: the present could not be saved ({present.failed}).")
        reach(SAVED)
        intent = RewindIntended(
            tree.head,
            wish.target,
            snapshot,
            present.snapshot,
            wish.note,
            tree.next_branch(),
            wish.thread,
            wish.reason,
            wish.by,
            keep_world=self._keep_world,
            keep_context=self._keep_context,
            request=wish.request,
            asked=wish.asked,
            selector=wish.selector,
            memory=self._policy,
            keeps=self._keeps(wish),
        )
        self._world.sync()
        self._log.append(intent)
        self._log.sync()
        reach(INTENDED)
        return intent

    def _keeps(self, wish: Wish) -> Literal["nothing", "runs", "all"]:
        if wish.keep_drift:
            return "all"
        return "runs" if isinstance(self._world, TellsApart) and self._world.shared else "nothing"

    def carry_out(
        self,
        intent: RewindIntended,
        *,
        memory: str | Callable[[], str],
        ended_threads: Sequence[ThreadId],
        begun: float,
        context: Literal["exact", "degraded"] = "exact",
    ) -> Rewound:
        """Do what was written down. `begun` is when it was asked for (`time.perf_counter`). Raises: as `make`."""
        ended = self._clear(intent)
        reach(CLEARED)
        if not intent.keep_world:
            compensate(self._log, intent, self._undos)
        clock = time.perf_counter()
        report = None if intent.keep_world else self._restore(intent)
        restore_ms = 0.0 if report is None else ms(clock)
        reach(RESTORED)
        rewound = replace(
            commit_of(intent, report),
            ended_processes=tuple(map(str, ended)),
            ended_threads=tuple(ended_threads),
            context=context,
            memory_tokens=tokens(memory if isinstance(memory, str) else memory()),
            took_ms=ms(begun),
            at_ns=time.time_ns(),
            restore_ms=restore_ms,
        )
        self._log.append(rewound)
        self._log.sync()
        reach(COMMITTED)
        return rewound

    def _clear(self, intent: RewindIntended) -> list[Process]:
        if intent.keep_world:
            return []
        ended, alive = self._end_processes(self._checkpointer.taken_at(intent.target))
        if alive:
            names = ", ".join(map(str, alive))
            self._log.append(RewindGivenUp(intent.branch, f"still running: {names}", intent.request))
            raise RewindRefused(
                f"The rewind was not made: these processes of the run could not be ended: {names}. End them and try"
                " again."
            )
        return ended

    def _restore(self, intent: RewindIntended) -> RestoreReport:
        try:
            report = brought_back(self._world, intent, self._log.tree)
        except (AgentRewindError, OSError) as error:
            self._go_back(intent, error)
            raise RewindRefused(f"The rewind was not made: {error} The files are as they were before it.") from error
        self._checkpointer.moved(intent.snapshot)
        return report

    def _go_back(self, intent: RewindIntended, error: Exception) -> None:
        """After a failed restore: make the files what they were, and say in the journal that it came to nothing."""
        if self._world.pending is not None:
            try:
                self._world.restore(intent.live)
            except (AgentRewindError, OSError) as second:
                raise StoreError(
                    f"A rewind failed half-way ({error}) and the files could not be brought back ({second}). Both"
                    f" states are saved: {intent.live} is what was there, {intent.snapshot} the target. Free what"
                    " stands in the way; what changes this run next (`agentrewind undo`, going on with it) settles it."
                ) from second
        self._checkpointer.moved(intent.live)
        self._log.append(Warned(f"rewind to {intent.target} failed: {type(error).__name__}: {error}"))
        self._log.append(RewindGivenUp(intent.branch, str(error), intent.request))
        self._log.sync()
