"""The result of a run, from its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from agentrewind.bench.results import Move, Result, Spec, Submission
from agentrewind.core.cost import costs
from agentrewind.core.effects import overall
from agentrewind.core.records import SUBMISSION, Event, Judged, NodeBegan, RecordUid, Rewound
from agentrewind.core.tree import RunTree
from agentrewind.tasks.check import EVALUATOR_ERROR


def result_of(spec: Spec, events: Iterable[Event], *, simulated: str = "") -> Result:
    """What the run with these events came to. The final state is judged by its last verdict."""
    history = list(events)
    tree = RunTree.fold(history)
    cost = costs(history).total
    submissions, moves = tuple(_submissions(history)), tuple(_moves(history))
    last = submissions[-1] if submissions else Submission(0, 0, 0)
    ended = tree.ended
    return Result(
        spec,
        success=ended is not None and ended.ok,
        satisfied=last.satisfied,
        total=last.total,
        ended=ended.reason if ended is not None else "cut off",
        abnormal=_evaluator_error(submissions, ok=ended is not None and ended.ok),
        submissions=submissions,
        moves=moves,
        nodes=len(_work(tree)),
        calls=cost.calls,
        input_tokens=cost.input,
        cached_tokens=cost.cached,
        output_tokens=cost.output,
        usd=cost.usd,
        effects=_effects(tree),
        held=sum(node.held for node in tree.nodes.values()),
        simulated=simulated,
        run_id=tree.started.run_id if tree.started is not None else "",
        wall_s=round(cost.wall_ms / 1000, 3),
    )


def _work(tree: RunTree) -> list[RecordUid]:
    """The LLM and tool calls. That the work was judged is a node too, and none of the agent's."""
    return [uid for uid, node in tree.nodes.items() if not is_check(node.began)]


def is_check(began: NodeBegan) -> bool:
    """Whether a node is the judging of work, and no doing of the agent's."""
    return began.tool is not None and began.tool.name == SUBMISSION


def _counted(events: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """Each event with the number of the agent's nodes before it."""
    nodes = 0
    for event in events:
        yield nodes, event
        nodes += isinstance(event, NodeBegan) and not is_check(event)


def _submissions(events: Iterable[Event]) -> Iterator[Submission]:
    for nodes, event in _counted(events):
        if isinstance(event, Judged):
            criteria = {item.id: item.outcome for item in event.criteria}
            yield Submission(nodes, event.satisfied or 0, event.total or 0, event.first_failure, criteria)


def _moves(events: Iterable[Event]) -> Iterator[Move]:
    tree = RunTree()
    for nodes, event in _counted(events):
        if isinstance(event, Rewound) and event.why == "rewind":
            path = [node.uid for node in tree.path() if not is_check(node.began)]
            back = len(path) - path.index(event.target) if event.target in path else 0
            yield Move(nodes, event.target, event.by, event.selector, event.asked or "", back, event.memory_tokens)
        tree.apply(event)


def _effects(tree: RunTree) -> dict[str, int]:
    tools = (node for node in tree.nodes.values() if not node.is_llm and not is_check(node.began))
    return dict(sorted(Counter(overall(node.effects) for node in tools if node.effects).items()))


def _evaluator_error(submissions: tuple[Submission, ...], *, ok: bool) -> str:
    """Where a run ended by errors of the evaluator, it says nothing about the agent."""
    last = submissions[-1].first_failure if submissions and not ok else ""
    return last if last.startswith(EVALUATOR_ERROR) else ""


def as_abnormal(result: Result, why: str) -> Result:
    """The same as one that doesn't count."""
    return replace(result, abnormal=why, success=False)
