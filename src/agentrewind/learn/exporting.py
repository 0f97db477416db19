"""Training data out of runs: decisions with advantages, the kept path to imitate, and pairs to prefer.

One line a decision, with all that its call was sent and what it answered, in the dialect in which it was made. Secrets
were taken out when the run was recorded.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.core.records import RecordUid, Rewound
from agentrewind.core.tree import Node
from agentrewind.integrations.formats.conversation import reply_of
from agentrewind.journal.output import new_file
from agentrewind.learn.credit.named import CREDITS
from agentrewind.learn.credit.retrail import advancement
from agentrewind.learn.credit.samples import DecisionSample
from agentrewind.learn.journals import RecordedCall, recoveries_of, same_task, tokens_of, trial_of

Shape = Literal["decisions", "sft", "preferences"]


def export(runs: Sequence[Run], to: Path, shape: Shape, credit: str = "sa-grpo", *, force: bool = False) -> Json:
    """Write training data of runs into the JSONL file `to`, which appears whole or not at all; what is in it.

    Raises:
        UsageError: a run has nothing to learn from, `to` is there and no `force`, or there would be no line.
        StorageFull. Nothing was written then.
    """
    rows, told = _rows(runs, shape, credit)
    if not rows:
        raise UsageError(f"There is nothing to write: {told['why']}.")
    with new_file(to, force=force) as file:
        for row in rows:
            file.write(json.dumps(row()).encode() + b"\n")
    return {"file": str(to), "rows": len(rows), "runs": len(runs), **told}


Rows = list[Callable[[], Json]]
"""Lines that are made one by one: each holds a whole conversation."""


def _rows(runs: Sequence[Run], shape: Shape, credit: str) -> tuple[Rows, dict[str, Json]]:
    if shape == "sft":
        kept = [(run, node) for run in runs if run.state == "done" for node in _kept(run)]
        why = "no run among these ended well"
        return [functools.partial(_to_imitate, run, node) for run, node in kept], {"why": why}
    if shape == "preferences":
        pairs = [(run, *pair) for run in runs for pair in _pairs(run)]
        why = "no rewind among these runs led to more than what it abandoned"
        return [functools.partial(_pair, *pair) for pair in pairs], {"why": why}
    return _decisions(runs, credit)


def _decisions(runs: Sequence[Run], credit: str) -> tuple[Rows, dict[str, Json]]:
    trials = [trial_of(run) for run in runs]
    samples = CREDITS[credit](trials, tokens_of)
    told = {
        "credit": credit,
        "tasks": len({trial.task for trial in trials}),
        "recoveries": sum(len(trial.recoveries) for trial in trials),
        "with_advantage": sum(sample.advantage != 0 for sample in samples),
        "why": "these runs made no decision",
    }
    rows: Rows = [functools.partial(_decision, runs[item.trial], item, credit, len(samples)) for item in samples]
    return rows, told


def _decision(run: Run, sample: DecisionSample, credit: str, rows: int) -> Json:
    call = sample.call
    assert isinstance(call, RecordedCall)
    return {
        **_call(run, run.tree.nodes[call.uid]),
        "task": sample.task,
        "kind": sample.kind,
        "segment": call.segment,
        "state": call.state,
        "reward": call.reward,
        "credit": credit,
        "advantage": sample.advantage,
        "weight": sample.weight,
        "folded": sample.folded(rows),
    }


def _call(run: Run, node: Node) -> dict[str, Json]:
    """What a call was sent, and what it answered."""
    llm = node.began.llm
    assert llm is not None
    return {
        "run": run.id,
        "uid": node.uid,
        "dialect": llm.dialect,
        "model": llm.model,
        "messages": run.messages(node.uid),
        "tools": run.content(llm.tools) if llm.tools else None,
        "completion": _completion(run, node),
    }


def _completion(run: Run, node: Node) -> list[Json]:
    """The answer as it would stand in the next request."""
    response = run.output(node.uid)
    reply = reply_of(node, response)
    return list(reply.messages) if reply else []


def _kept(run: Run) -> Iterator[Node]:
    """The answered calls of the path on which a run stands."""
    return (node for node in run.tree.path() if node.is_llm and node.answered and node.began.thread == run.tree.main)


def _to_imitate(run: Run, node: Node) -> Json:
    return {**_call(run, node), "task": same_task(run)}


def _pairs(run: Run) -> Iterator[tuple[RecordUid, RecordUid, float]]:
    """For each rewind that led to more than it abandoned: the first call after it, the one it took back, the gain."""
    for move, recovery in recoveries_of(run):
        gain = advancement(recovery)
        if gain is None or gain <= 0:
            continue
        kept = next((node for node in _of_branch(run, move) if node.answered), None)
        if kept is not None and run.tree.nodes[move.target].answered:
            yield kept.uid, move.target, gain


def _of_branch(run: Run, move: Rewound) -> Iterable[Node]:
    nodes = run.tree.nodes.values()
    return (node for node in nodes if node.is_llm and node.began.branch == move.branch)


def _pair(run: Run, kept: RecordUid, left: RecordUid, gain: float) -> Json:
    """From the same checkpoint: the prompt is what the abandoned call was sent, without what was learned later."""
    chosen, rejected = run.tree.nodes[kept], run.tree.nodes[left]
    prompt = _call(run, rejected)
    return {
        "task": same_task(run),
        "run": run.id,
        "checkpoint": left,
        "dialect": prompt["dialect"],
        "prompt": prompt["messages"],
        "tools": prompt["tools"],
        "chosen": _completion(run, chosen),
        "rejected": prompt["completion"],
        "chosen_uid": kept,
        "gain": gain,
    }
