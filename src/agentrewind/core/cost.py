"""What a run has cost, by branch and by fate: a fold over its events (rewind.md, section 9).

What isn't known is counted beside the sums and never as 0: calls whose server named no tokens, calls without a price.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentrewind.core.records import (
    BranchId,
    Event,
    FilesRestored,
    NodeBegan,
    NodeEnded,
    NotesMerged,
    RecordUid,
    Rewound,
    RunEnded,
    RunResumed,
    RunStarted,
    Snapshotted,
    Usage,
)
from agentrewind.core.tree import Node, RunTree

_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What a part of a run took. Sums hold what is known of it; times are in milliseconds."""

    calls: int = 0
    """LLM calls, those that failed included."""
    failed: int = 0
    """Of these, those that got no answer. They have neither tokens nor a price."""
    uncounted: int = 0
    """Answered calls, or calls that a crash cut off, of which no token numbers are known."""
    unpriced: int = 0
    """The same without a price: those of `uncounted`, and those of models that the price table doesn't know."""
    tools: int = 0
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    spent: float = 0.0
    """US dollars of the calls that have a price."""
    wall_ms: float = 0.0
    model_ms: float = 0.0
    tool_ms: float = 0.0
    snapshot_ms: float = 0.0
    restore_ms: float = 0.0
    rewinds: int = 0
    memory_tokens: int = 0
    """Of the notes that its rewinds put into the context, estimated."""

    @property
    def usd(self) -> float | None:
        """What is known to be spent; None where no call has a price."""
        return self.spent if self.calls - self.failed > self.unpriced else None

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, name) + getattr(other, name) for name in _FIELDS))


_FIELDS = tuple(item.name for item in dataclasses.fields(Cost))


@dataclass(frozen=True, slots=True)
class RunCost:
    """A run's cost: of all of it, of what stands on the path to its head, of what was abandoned, by branch, by model.

    `unknown` says why calls have no price, with how many; `tables` names the price tables that gave the others.
    """

    total: Cost
    retained: Cost
    abandoned: Cost
    branches: dict[BranchId, Cost]
    models: dict[str, Cost]
    unknown: dict[str, int]
    tables: tuple[str, ...]


@dataclass(slots=True)
class _Books:
    """Where each share goes: to a branch, and to a node of it, whose fate is known at the end."""

    tree: RunTree = field(default_factory=RunTree)
    by_branch: dict[BranchId, Cost] = field(default_factory=dict)
    by_node: dict[RecordUid | None, Cost] = field(default_factory=dict)
    by_move: dict[BranchId, Cost] = field(default_factory=dict)
    """Of each rewind, by the branch that it opened."""
    clock: int | None = None
    waiting: list[tuple[BranchId, RecordUid | None, float]] = field(default_factory=list)
    """Time that counts once the agent is known to have gone on: what a person does to a run at rest is none of its."""

    def book(self, cost: Cost, node: RecordUid | None, branch: BranchId) -> None:
        self.by_branch[branch] = self.by_branch.get(branch, Cost()) + cost
        self.by_node[node] = self.by_node.get(node, Cost()) + cost

    def move(self, cost: Cost, branch: BranchId) -> None:
        self.by_branch[branch] = self.by_branch.get(branch, Cost()) + cost
        self.by_move[branch] = self.by_move.get(branch, Cost()) + cost

    def passed(self, event: Event) -> None:
        """Count the time since the event before."""
        at = _time_of(event, self.tree)
        if isinstance(event, RunStarted | RunResumed):
            self.clock, self.waiting = at, []
        elif at is not None and self.clock is not None:
            self.waiting.append((self.tree.branch, self.tree.head, max(at - self.clock, 0) / _NS))
            self.clock = max(at, self.clock)
        if isinstance(event, NodeBegan | NodeEnded | RunEnded):
            for branch, node, took in self.waiting:
                self.book(Cost(wall_ms=took), node, branch)
            self.waiting = []
        if isinstance(event, RunEnded):
            self.clock = None


def costs(events: Iterable[Event]) -> RunCost:
    """The cost of the run with these events.

    Raises:
        JournalError: they don't fit together.
    """
    books = _Books()
    for event in events:
        books.passed(event)
        books.tree.apply(event)
        _booked(books, event)
    for node in books.tree.nodes.values():
        books.book(_of_node(node), node.uid, node.began.branch)
    return _summed(books)


def _booked(books: _Books, event: Event) -> None:
    """What an event took besides the call that it speaks of. What of it came before the event belongs to the head."""
    tree = books.tree
    match event:
        case Snapshotted():
            books.book(Cost(snapshot_ms=event.took_ms), event.after or tree.head, tree.branch)
        case NodeBegan():
            books.book(Cost(snapshot_ms=event.looked_ms), event.uid, event.branch)
        case Rewound():
            restore = event.restore_ms or (0.0 if event.keep_world else event.took_ms)
            count = 1 if event.why == "rewind" else 0
            books.move(Cost(restore_ms=restore, rewinds=count, memory_tokens=event.memory_tokens), event.branch)
        case FilesRestored():
            books.book(Cost(restore_ms=event.took_ms), tree.head, tree.branch)
        case NotesMerged():
            books.book(_of_merge(event), tree.head, tree.branch)


def _time_of(event: Event, tree: RunTree) -> int | None:
    match event:
        case RunStarted() | NodeBegan():
            return event.started_ns
        case NodeEnded():
            node = tree.nodes.get(event.uid)
            return None if node is None else node.began.started_ns + int(event.latency_ms * _NS)
        case Snapshotted() | Rewound() | FilesRestored() | RunResumed() | RunEnded():
            return event.at_ns or None
    return None


def calls_cost(nodes: Iterable[Node]) -> Cost:
    """What calls took by themselves: no snapshots, no rewinds, no time between them."""
    return sum(map(_of_node, nodes), Cost())


def _of_node(node: Node) -> Cost:
    ended = node.ended
    took = ended.latency_ms if ended else 0.0
    if not node.is_llm:
        return Cost(tools=1, tool_ms=took)
    if ended is not None and ended.error is not None:
        return Cost(calls=1, failed=1, model_ms=took)
    if ended is None:
        return Cost(calls=1, uncounted=1, unpriced=1)
    return _of_answer(ended.usage, took)


def _of_merge(event: NotesMerged) -> Cost:
    """The runtime's own call is a call like any other."""
    if event.output is None:
        return Cost(calls=1, failed=1, model_ms=event.latency_ms)
    return _of_answer(event.usage, event.latency_ms)


def _of_answer(usage: Usage, took: float) -> Cost:
    return Cost(
        calls=1,
        uncounted=int(not usage.known),
        unpriced=int(usage.usd is None),
        input=usage.input,
        cached=usage.cached,
        cache_write=usage.cache_write,
        output=usage.output,
        reasoning=usage.reasoning,
        spent=usage.usd or 0.0,
        model_ms=took,
    )


def _summed(books: _Books) -> RunCost:
    tree = books.tree
    path = {node.uid for node in tree.path()}
    lines = {tree.branch, *(tree.node(uid).began.branch for uid in path)}
    retained = abandoned = Cost()
    for uid, cost in books.by_node.items():
        if uid is None or uid in path:
            retained += cost
        else:
            abandoned += cost
    for branch, cost in books.by_move.items():
        if branch in lines:
            retained += cost
        else:
            abandoned += cost
    calls = [_Call.of_node(node) for node in tree.nodes.values() if node.is_llm]
    calls += [_Call(event.model, _of_merge(event), event.usage, event.priced) for event in tree.merging]
    return RunCost(
        retained + abandoned,
        retained,
        abandoned,
        {branch: books.by_branch.get(branch, Cost()) for branch in tree.branches},
        _by_model(calls),
        _unknown(calls),
        tuple(sorted({_table(call.priced) for call in calls if call.usage is not None and call.usage.usd is not None})),
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """A call to a model, of the agent's or of the runtime. `usage` is None where it was cut off."""

    model: str
    cost: Cost
    usage: Usage | None
    priced: str

    @classmethod
    def of_node(cls, node: Node) -> _Call:
        ended, llm = node.ended, node.began.llm
        model, priced = llm.model if llm else "", ended.priced if ended else ""
        return cls(model, _of_node(node), ended.usage if ended else None, priced)


def _by_model(calls: Iterable[_Call]) -> dict[str, Cost]:
    models: dict[str, Cost] = {}
    for call in calls:
        models[call.model] = models.get(call.model, Cost()) + call.cost
    return models


def _unknown(calls: Iterable[_Call]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for call in calls:
        if call.cost.unpriced:
            why = _why(call)
            counts[why] = counts.get(why, 0) + 1
    return counts


def _why(call: _Call) -> str:
    if call.usage is None:
        return "the call was cut off"
    if not call.usage.known:
        return "the server said no token numbers"
    return call.priced or "no prices were looked up when it was recorded"


def _table(priced: str) -> str:
    """`genai-prices 0.2.3` of `genai-prices 0.2.3: openai/gpt-5`."""
    return priced.partition(":")[0] or "an unnamed table"
