"""Runs of agents on workspaces as trials: what forks of real work teach, in the terms of the worlds.

A decision is a model call of the run's own conversation; its state is the fingerprint of the files that it was made on,
its history the calls before it on the path. Value is verified progress: the share of the check's criteria that were
satisfied, as the newest verdict says. A rewind ends a segment; the call that asked for it wrote the note, so it is the
reflection, and the request to see the candidates is a decision like any other. What a person or a strategy sent back
has no reflection of the model's. (retrospective.md, sections 1, 2 and 4.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agentrewind.compose.runs import Run
from agentrewind.core.codec import digest
from agentrewind.core.errors import UsageError
from agentrewind.core.records import BranchId, Judged, RecordUid, Rewound, ThreadId
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.core.tree import Node, RunTree
from agentrewind.learn.trial import Call, Output, Recovery, Segment, Trial

NOWHERE = "sha256:"
NO_RECORD = RecordUid("")


@dataclass(frozen=True, slots=True)
class RecordedCall(Call):
    """A call, and where it stands."""

    run: str = ""
    uid: RecordUid = NO_RECORD
    tokens: int = 1
    """Of its output, as the provider counted them."""


def trial_of(run: Run) -> Trial:
    """A run as the archive of one trial; its calls are `RecordedCall`s.

    Raises:
        UsageError: there is nothing to learn from: no model call, or no verdict that counts criteria.
    """
    return _Reader(run).trial()


def recoveries_of(run: Run) -> list[tuple[Rewound, Recovery]]:
    """The rewinds of a run, with what came of them. Raises: as `trial_of`."""
    reader = _Reader(run)
    return list(zip(reader.moves, reader.trial().recoveries, strict=False))


def same_task(run: Run) -> str:
    """What runs must have in common to be compared: the task in words. Whether they also began on equal files is the
    user's to see to; decisions are compared with one another only where the files are equal, times included.
    """
    return digest(run.started.task)


class _Reader:
    def __init__(self, run: Run) -> None:
        self._run, self._tree = run, run.tree
        self._thread = self._tree.main or ThreadId("main")
        self._past = self._histories()
        self.moves: list[Rewound] = []
        """Those that the recoveries stand for, in the same order."""
        forked = run.started.forked is not None
        self._since_ns = run.started.started_ns if forked else 0
        """What a fork took over from its run is that run's, and counts there."""

    def trial(self) -> Trial:
        if not any(verdict.satisfied is not None or verdict.accepted for verdict in self._tree.verdicts):
            raise UsageError(
                f"{self._run.id} has no verdict that says how much of the work is done, so nothing in it can be"
                " credited. Give the run a check: --check."
            )
        segments, recoveries, calls = self._segments()
        if not calls:
            raise UsageError(f"{self._run.id} has no model call of its own.")
        ended = self._tree.ended
        return Trial(
            same_task(self._run),
            "workspace",
            tuple(segments),
            tuple(recoveries),
            tuple(calls),
            "solved" if ended is not None and ended.ok else None,
            _state(self._tree, self._tree.nodes[calls[-1].uid]),
            attempts=1,
            proactive=sum(recovery.trigger == "asked" for recovery in recoveries),
            why_ended=ended.reason if ended else "",
        )

    def _segments(self) -> tuple[list[Segment], list[Recovery], list[RecordedCall]]:
        segments: list[Segment] = []
        recoveries: list[Recovery] = []
        calls: list[RecordedCall] = []
        opening: Rewound | None = None
        for move, nodes in self._stretches():
            made = self._calls(nodes, len(segments), len(calls))
            calls += made
            if opening is not None and recoveries and recoveries[-1].resumed is None:
                recoveries[-1] = self._resumed(recoveries[-1], opening, nodes, made)
            decisions = tuple(call for call in made if call.kind == "execution")
            if decisions:
                segments.append(self._segment(len(segments), nodes, decisions))
            opening = move
            if move is not None and move.why == "rewind" and decisions:
                self.moves.append(move)
                recoveries.append(self._recovery(len(segments) - 1, move, made))
        return segments, recoveries, calls

    def _stretches(self) -> Iterable[tuple[Rewound | None, list[Node]]]:
        """What was done between two moves, with the move that ended it; the last has none."""
        moves = {move.branch: move for move in self._tree.moves if isinstance(move, Rewound)}
        found: list[Node] = []
        seen: set[BranchId] = set()
        for node in self._tree.nodes.values():
            move = moves.get(node.began.branch)
            if move is not None and node.began.branch not in seen:
                yield move, found
                found = []
            seen.add(node.began.branch)
            if node.began.started_ns >= self._since_ns:
                found.append(node)
        yield None, found

    def _calls(self, nodes: Sequence[Node], segment: int, before: int) -> list[RecordedCall]:
        decided = [node for node in nodes if node.is_llm and node.began.thread == self._thread and node.answered]
        values = [self._before(node.uid) for node in decided]
        values.append(self._after(nodes[-1].uid) if nodes else 0.0)
        return [
            self._call(node, segment, before + place + 1, (values[place], values[place + 1]))
            for place, node in enumerate(decided)
        ]

    def _call(self, node: Node, segment: int, number: int, progress: tuple[float, float]) -> RecordedCall:
        assert node.ended is not None
        committed, asked = (_calls_tool(node, name) for name in (COMMIT, CANDIDATES))
        before, after = progress
        path = self._tree.ancestors(node.began.parent)
        return RecordedCall(
            number,
            "reflection" if committed else "execution",
            segment,
            sum(item.is_llm for item in path),
            _state(self._tree, node),
            (self._past[node.uid],),
            (),
            Output(node.ended.digest or ", ".join(node.ended.calls)),
            "reflected" if committed else "went back" if asked else "acted",
            node.ended.action or node.ended.digest,
            0.0 if committed or asked else after - before,
            progress=(before, before) if committed or asked else progress,
            run=self._run.id,
            uid=node.uid,
            tokens=node.ended.usage.output or 1,
        )

    def _segment(self, index: int, nodes: Sequence[Node], decisions: tuple[RecordedCall, ...]) -> Segment:
        started = self._before(decisions[0].uid)
        return Segment(
            index,
            decisions,
            decisions[0].checkpoint,
            decisions[-1].checkpoint + 1,
            self._after(nodes[-1].uid),
            _highest(started, nodes),
        )

    def _recovery(self, segment: int, move: Rewound, made: Sequence[RecordedCall]) -> Recovery:
        target = self._tree.nodes[move.target]
        abandoned = self._suffix(move)
        last = made[-1]
        return Recovery(
            segment,
            last if last.kind == "reflection" else _unsaid(last),
            "asked" if move.by == "agent" else move.by,
            last.checkpoint,
            sum(item.is_llm for item in self._tree.ancestors(target.began.parent)),
            move.note,
            _highest(self._before(move.target), abandoned),
        )

    def _suffix(self, move: Rewound) -> list[Node]:
        """What was abandoned: the path to where it was asked for, from the target on."""
        found: list[Node] = []
        for node in self._tree.ancestors(move.source):
            found.append(node)
            if node.uid == move.target:
                break
        return found

    def _resumed(
        self, recovery: Recovery, move: Rewound, nodes: Sequence[Node], made: Sequence[RecordedCall]
    ) -> Recovery:
        if not any(call.kind == "execution" for call in made):
            return recovery
        return replace(recovery, resumed=_highest(self._before(move.target), nodes))

    def _before(self, uid: RecordUid) -> float:
        return _share(self._tree.progress(uid))

    def _after(self, uid: RecordUid) -> float:
        judged = self._tree.nodes[uid].judged
        return self._before(uid) if judged is None else _share(judged)

    def _histories(self) -> dict[RecordUid, str]:
        """For each node a digest of all that the run's conversation had asked for on the path to it."""
        found: dict[RecordUid, str] = {}
        for node in self._tree.nodes.values():
            parent = node.began.parent
            if parent is None:
                found[node.uid] = NOWHERE
                continue
            before = self._tree.nodes[parent]
            own = before.is_llm and before.began.thread == self._thread and before.ended is not None
            asked = before.ended.action or before.ended.digest if own and before.ended else ""
            found[node.uid] = digest([found[parent], asked]) if own else found[parent]
        return found


def _state(tree: RunTree, node: Node) -> str:
    snapshot = node.began.snapshot
    if snapshot is None:
        return f"unknown {node.uid}"
    known = tree.states.get(snapshot)
    return known.fingerprint if known is not None and known.fingerprint else str(snapshot)


def _share(verdict: Judged | None) -> float:
    """How much of the work is done, from 0 to 1."""
    if verdict is None:
        return 0.0
    if verdict.satisfied is not None and verdict.total:
        return verdict.satisfied / verdict.total
    return 1.0 if verdict.accepted else 0.0


def _highest(start: float, nodes: Iterable[Node]) -> float:
    """`V`: the highest share on a branch, its start included."""
    return max([start, *(_share(node.judged) for node in nodes if node.judged is not None)])


def _calls_tool(node: Node, name: str) -> bool:
    return node.ended is not None and any(call.startswith(f"{name}(") for call in node.ended.calls)


def _unsaid(call: RecordedCall) -> RecordedCall:
    """Stands for the reflection that the model didn't make: it has no output, so nothing is credited."""
    return replace(call, kind="reflection", output=Output(""), did="reflected", action=None, reward=0.0, tokens=1)


def tokens_of(call: Call) -> int:
    """The length of an output, for the mean over reflection tokens."""
    return call.tokens if isinstance(call, RecordedCall) else 1
