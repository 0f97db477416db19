"""The Agent Trajectory Interchange Format, version 1.8 (that of Harbor): one trajectory a branch.

The trajectory of a later branch begins with what it kept of the earlier ones, marked as copied; that of a branch which
was left names the file in which the run went on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from agentrewind.core.codec import Json
from agentrewind.core.cost import Cost, calls_cost
from agentrewind.core.errors import UsageError
from agentrewind.core.records import BranchId, ThreadId, Usage
from agentrewind.core.tree import Node
from agentrewind.dialects.base import Reply, ToolCall
from agentrewind.integrations.formats.conversation import Said, Turn, reasoning_of, threads_of, turns
from agentrewind.journal.export import check_names, created, utc
from agentrewind.journal.output import new_directory
from agentrewind.journal.reader import RunLog

VERSION = "ATIF-v1.8"
_OURS = re.compile(r"branch-[A-Za-z0-9_-]{1,64}\.json")


def export_atif(log: RunLog, to: Path, *, force: bool = False) -> None:
    """Write `branch-<id>.json` into the directory `to` for each branch on which a model was called.

    Raises:
        UsageError: no model was called; or as `export_records`. JournalError, StorageFull: as there.
    """
    check_names(log)
    ends = _ends(log)
    if not ends:
        raise UsageError(f"The run {log.run_dir.name} has no model call, so there is no trajectory to write.")
    with new_directory(to, _OURS, force=force) as part:
        for branch, end in ends.items():
            with created(part / _name(branch)) as file:
                _trajectory(file, log, branch, log.tree.path(end.uid), _next(log, branch, ends))


def _name(branch: BranchId) -> str:
    return f"branch-{branch}.json"


def _ends(log: RunLog) -> dict[BranchId, Node]:
    """The newest node of each branch that holds an LLM call."""
    called = {node.began.branch for node in log.tree.nodes.values() if node.is_llm}
    return {node.began.branch: node for node in log.tree.nodes.values() if node.began.branch in called}


def _next(log: RunLog, branch: BranchId, ends: dict[BranchId, Node]) -> BranchId | None:
    """The first branch that left this one."""
    left = [item.id for item in log.tree.branches.values() if item.parent == branch and item.id in ends]
    return left[0] if left else None


def _trajectory(file: IO[str], log: RunLog, branch: BranchId, path: Sequence[Node], goes_on: BranchId | None) -> None:
    """One JSON object, written step by step."""
    main, *others = threads_of(path)
    head = _head(log, branch, path, main)
    if goes_on is not None:
        head["continued_trajectory_ref"] = _name(goes_on)
    file.write(json.dumps(head)[:-1] + ',\n"steps": [\n')
    count = _steps(file, log, branch, path, main)
    calls = [node for node in path if node.is_llm]
    file.write('],\n"final_metrics": ' + json.dumps(_totals(calls_cost(calls), count)))
    if others:
        file.write(',\n"subagent_trajectories": [\n')
        for number, thread in enumerate(others):
            file.write(
                (",\n" if number else "") + json.dumps(_head(log, branch, path, thread))[:-1] + ',\n"steps": [\n'
            )
            _steps(file, log, branch, path, thread)
            file.write("]}")
        file.write("]")
    file.write("}\n")


def _head(log: RunLog, branch: BranchId, path: Sequence[Node], thread: ThreadId) -> dict[str, Json]:
    started, tree = log.tree.started, log.tree
    first = next(node.began.llm for node in path if node.began.llm and node.began.thread == thread)
    agent: dict[str, Json] = {
        "name": (started.agent if started else "") or "unknown",
        "version": (started.version if started else "") or "unknown",
        "model_name": first.model or (started.model if started else ""),
    }
    if first.tools is not None and isinstance(tools := log.get(first.tools), list):
        agent["tool_definitions"] = [item for item in tools if isinstance(item, dict)]
    opened = tree.branches[branch]
    extra = {
        "source": "agentrewind",
        "branch": branch,
        "thread": thread,
        "forked_at": opened.forked_at,
        "parent_branch": opened.parent,
        "note": opened.opened_by.note if opened.opened_by else None,
        "task": started.task if started else None,
        "ended": tree.ended.reason if tree.ended else None,
    }
    return {
        "schema_version": VERSION,
        "session_id": started.run_id if started else log.run_dir.name,
        "trajectory_id": f"{branch}/{thread}",
        "agent": agent,
        "extra": {key: value for key, value in extra.items() if value is not None},
    }


def _steps(file: IO[str], log: RunLog, branch: BranchId, path: Sequence[Node], thread: ThreadId) -> int:
    number = 0
    for turn in turns(log, path, thread):
        for step in _of_turn(turn, branch):
            number += 1
            file.write((",\n" if number > 1 else "") + json.dumps({"step_id": number, **step}))
    file.write("\n")
    return number


def _of_turn(turn: Turn, branch: BranchId) -> Iterator[dict[str, Json]]:
    copied = {"is_copied_context": True} if turn.node.began.branch != branch else {}
    for item in turn.new:
        yield {"source": item.role, "message": item.text, **copied}
    yield {**_agent_step(turn), **copied}


def _agent_step(turn: Turn) -> dict[str, Json]:
    node, reply = turn.node, turn.reply
    ended = node.ended
    step: dict[str, Json] = {"source": "agent", "message": reply.text if reply else "", "llm_call_count": 1}
    if (at := utc(node.began.started_ns, digits=6)) is not None:
        step["timestamp"] = at
    if node.began.llm and node.began.llm.model:
        step["model_name"] = node.began.llm.model
    if thought := reasoning_of(turn.response):
        step["reasoning_content"] = thought
    if reply is not None and reply.calls:
        step["tool_calls"] = [_call(item) for item in reply.calls]
    results = _results(reply, turn.results)
    if results:
        step["observation"] = {"results": results}
    if ended is not None and ended.usage.known:
        step["metrics"] = _metrics(ended.usage)
    step["extra"] = _about(node)
    return step


def _call(call: ToolCall) -> Json:
    arguments = call.arguments if isinstance(call.arguments, dict) else {"raw": call.raw_arguments}
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}


def _results(reply: Reply | None, results: Sequence[Said]) -> list[Json]:
    known = {call.id for call in reply.calls} if reply else set()
    return [
        {"content": item.text, **({"source_call_id": item.call_id} if item.call_id in known else {})}
        for item in results
    ]


def _metrics(usage: Usage) -> Json:
    metrics: dict[str, Json] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cached,
    }
    if usage.usd is not None:
        metrics["cost_usd"] = usage.usd
    more = {"cache_write_tokens": usage.cache_write, "reasoning_tokens": usage.reasoning}
    if any(more.values()):
        metrics["extra"] = {name: count for name, count in more.items() if count}
    return metrics


def _about(node: Node) -> Json:
    about: dict[str, Json] = {
        "record_uid": node.uid,
        "branch": node.began.branch,
        "snapshot_before": node.began.snapshot,
        "latency_ms": node.ended.latency_ms if node.ended else None,
        "error": f"{node.ended.error.type}: {node.ended.error.message}" if node.ended and node.ended.error else None,
        "files_changed": node.after.changes.total if node.after else None,
    }
    return {key: value for key, value in about.items() if value is not None}


def _totals(cost: Cost, steps: int) -> Json:
    """Sums only where every call is known: a reader takes them for the whole."""
    totals: dict[str, Json] = {"total_steps": steps}
    if not cost.uncounted:
        totals |= {
            "total_prompt_tokens": cost.input,
            "total_completion_tokens": cost.output,
            "total_cached_tokens": cost.cached,
        }
    if not cost.unpriced and cost.usd is not None:
        totals["total_cost_usd"] = cost.usd
    totals["extra"] = {
        "calls": cost.calls,
        "calls_without_tokens": cost.uncounted,
        "calls_without_price": cost.unpriced,
    }
    return totals
