"""The latest point of a run from which its task could still be solved: by bisection, with the reference for a model.

A checkpoint is recoverable where some tail of the reference, played on its files, still satisfies every criterion. What
a run has lost stays lost, so the recoverable checkpoints of a path come first, and a few tries find the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agentrewind.bench.results import Move, Result
from agentrewind.bench.telling import is_check
from agentrewind.compose.runs import Run
from agentrewind.core.records import Event, Rewound
from agentrewind.core.tree import Node, RunTree
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.inspection import SCRIPT_S
from agentrewind.tasks.rooms import Rooms
from agentrewind.tasks.task import Task


def last_true(length: int, holds: Callable[[int], bool]) -> int:
    """The last place that holds, where all that hold come first; -1 where the first doesn't."""
    low, high = -1, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(slots=True)
class Bisection:
    """Of one run, whose snapshots `world` still has. Each state is tried once."""

    task: Task
    rooms: Rooms
    world: WorkspaceWorld
    known: dict[SnapshotId, bool] = field(default_factory=dict)

    def latest(self, path: Sequence[Node]) -> int:
        """The place on a path of the last checkpoint that is recoverable; -1 where none is."""
        points = [(place, node.began.snapshot) for place, node in enumerate(path) if node.is_llm]
        states = [(place, state) for place, state in points if state is not None]
        found = last_true(len(states), lambda number: self.recoverable(states[number][1]))
        return states[found][0] if found >= 0 else -1

    def recoverable(self, state: SnapshotId) -> bool:
        """Whether some tail of the reference still reaches everything from these files."""
        if state not in self.known:
            starts = range(len(self.task.steps))
            self.known[state] = any(self._passes(state, start) for start in starts)
        return self.known[state]

    def _passes(self, state: SnapshotId, start: int) -> bool:
        with TemporaryDirectory(prefix="agentrewind-bisection-", ignore_cleanup_errors=True) as place:
            app = Path(place) / "app"
            self.world.export(state, app, include_private=True)
            with self.rooms(app, at=self.task.workdir) as room:
                for step in self.task.steps[start:]:
                    room.run(step.script, SCRIPT_S)
            return Evaluator(self.task, self.rooms).evaluate(app).succeeded


def with_regret(result: Result, task: Task, run: Run, events: Iterable[Event], rooms: Rooms) -> Result:
    """The result with what each of its rewinds threw away, or missed, and how long it went on in vain at its end.

    Raises:
        SnapshotNotFound, SnapshotDamaged: a state of the run is not there any more.
    """
    history = list(events)
    with run.reading() as world:
        search = Bisection(task, rooms, world)
        moves = tuple(_judged(history, result.moves, search))
        path = _done(RunTree.fold(history))
        in_vain = None if result.success else len(path) - search.latest(path)
    return replace(result, moves=moves, in_vain=in_vain)


def _judged(history: Sequence[Event], moves: Sequence[Move], search: Bisection) -> Iterator[Move]:
    tree, left = RunTree(), iter(moves)
    for event in history:
        if isinstance(event, Rewound) and event.why == "rewind":
            move, path = next(left), _done(tree)
            target = next((place for place, node in enumerate(path) if node.uid == event.target), 0)
            yield replace(move, regret=search.latest(path) - target)
        tree.apply(event)


def _done(tree: RunTree) -> list[Node]:
    """The agent's own nodes on the present path."""
    return [node for node in tree.path() if not is_check(node.began)]
