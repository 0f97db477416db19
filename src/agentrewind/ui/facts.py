"""What commands print with `--json`: plain objects with fixed names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from agentrewind.compose import asking
from agentrewind.compose.differences import FileDifference
from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json, to_plain
from agentrewind.core.cost import Cost
from agentrewind.core.records import FilesRestored, Hint, Judged, NotesMerged, RecordUid, Rewound
from agentrewind.core.tree import Branch, Node, RunTree
from agentrewind.core.world import Changes, Gap, RestoreReport, Snapshot


def run_facts(run: Run) -> Json:
    """A run in short."""
    tree, started = run.tree, run.started
    calls = sum(node.is_llm for node in tree.nodes.values())
    verdict = tree.verdicts[-1] if tree.verdicts else None
    return {
        "run": run.id,
        "state": run.state,
        "reason": tree.ended.reason if tree.ended else None,
        "answer": tree.ended.answer if tree.ended else None,
        "task": started.task,
        "agent": started.agent,
        "model": started.model,
        "strategy": started.strategy,
        "mode": started.mode,
        "workspace": started.workspace,
        "directory": str(run.path),
        "forked_from": to_plain(started.forked) if started.forked else None,
        "started_ns": started.started_ns,
        "ended_ns": tree.ended.at_ns if tree.ended else None,
        "llm_calls": calls,
        "tool_calls": len(tree.nodes) - calls,
        "rewinds": tree.rewinds,
        "resumes": tree.resumes,
        "satisfied": verdict.satisfied if verdict else None,
        "total": verdict.total if verdict else None,
        "usage": usage_facts(run),
    }


def usage_facts(run: Run) -> Json:
    """The sums of what is known, and of how many calls it isn't."""
    total = run.cost().total
    return {
        "input": total.input,
        "output": total.output,
        "cached": total.cached,
        "cache_write": total.cache_write,
        "reasoning": total.reasoning,
        "usd": total.usd,
        "uncounted": total.uncounted,
        "unpriced": total.unpriced,
    }


def cost_facts(run: Run) -> Json:
    """What a run took, and of which parts of it that isn't known."""
    cost = run.cost()
    return {
        "run": run.id,
        "total": _cost(cost.total),
        "retained": _cost(cost.retained),
        "abandoned": _cost(cost.abandoned),
        "branches": {branch: _cost(of) for branch, of in cost.branches.items()},
        "models": {model: _cost(of) for model, of in cost.models.items()},
        "price_tables": list(cost.tables),
        "unpriced": cost.unknown,
    }


def _cost(cost: Cost) -> Json:
    facts = {item.name: getattr(cost, item.name) for item in fields(Cost) if item.name != "spent"}
    return {name: round(value, 3) for name, value in facts.items()} | {"usd": cost.usd}


def tree_facts(run: Run) -> Json:
    """All of a run but the contents of its messages."""
    tree = run.tree
    on_path = {node.uid for node in tree.path()}
    return {
        **run_facts(run),
        "head": tree.head,
        "branch": tree.branch,
        "branches": [_branch(branch) for branch in tree.branches.values()],
        "nodes": [node_facts(node, on_path=node.uid in on_path) for node in tree.nodes.values()],
        "moves": [{**move_facts(move), **_memory_facts(tree, move)} for move in tree.moves],
        "merges": [_merge(event) for event in tree.merging],
        "rejected": [{"to": item.target, "told": item.told, "by": item.by} for item in tree.rejected],
        "warnings": [*run.warnings, *tree.warnings],
    }


def _branch(branch: Branch) -> Json:
    return {"branch": branch.id, "forked_at": branch.forked_at, "parent": branch.parent}


def node_facts(node: Node, *, on_path: bool) -> Json:
    began, ended = node.began, node.ended
    return {
        "uid": node.uid,
        "kind": began.kind,
        "parent": began.parent,
        "branch": began.branch,
        "thread": began.thread,
        "on_path": on_path,
        "input_id": began.input_id,
        "snapshot": began.snapshot,
        "started_ns": began.started_ns,
        "tool": to_plain(began.tool) if began.tool else None,
        "digest": ended.digest if ended else None,
        "calls": list(ended.calls) if ended else [],
        "error": to_plain(ended.error) if ended and ended.error else None,
        "usage": to_plain(ended.usage) if ended else None,
        "priced": ended.priced if ended else "",
        "latency_ms": ended.latency_ms if ended else None,
        "effects": to_plain(node.effects),
        "gated": to_plain(node.gated),
        "note": ended.note if ended else "",
        "hint": _hint(began.hint) if began.hint else None,
        "snapshot_after": node.after.snapshot if node.after else None,
        "changes": changes_facts(node.after.changes) if node.after else None,
        "verdict": _verdict(node.judged) if node.judged else None,
    }


def _verdict(verdict: Judged) -> Json:
    return {
        "accepted": verdict.accepted,
        "exit_code": verdict.exit_code,
        "first_failure": verdict.first_failure,
        "satisfied": verdict.satisfied,
        "total": verdict.total,
        "feedback": verdict.feedback,
    }


def move_facts(move: Rewound | FilesRestored) -> Json:
    """A rewind, a restore, or the undoing of one."""
    if isinstance(move, FilesRestored):
        return {
            "kind": "restore" if move.why == "restore" else "undo of a restore",
            "to": move.record,
            "snapshot": move.snapshot,
            "live": move.live,
            "restored": move.restored,
            "took_ms": move.took_ms,
            "at_ns": move.at_ns,
        }
    return {
        "kind": "rewind" if move.why == "rewind" else "undo of a rewind",
        "from": move.source,
        "to": move.target,
        "branch": move.branch,
        "live": move.live,
        "note": move.note,
        "by": move.by,
        "restored": move.restored,
        "kept": gaps_facts(move.kept),
        "kept_more": move.kept_more,
        "ended_processes": list(move.ended_processes),
        "context": move.context,
        "memory_tokens": move.memory_tokens,
        "took_ms": move.took_ms,
        "restore_ms": move.restore_ms,
        "at_ns": move.at_ns,
        "asked": move.asked or move.target,
        "selector": move.selector or "agent",
        "memory": move.memory or "cumulative",
    }


def _memory_facts(tree: RunTree, move: Rewound | FilesRestored) -> Json:
    """What the notes of a rewind take, and who counted."""
    if isinstance(move, FilesRestored) or move.why != "rewind":
        return {}
    tokens, counted = tree.memory_tokens(move)
    return {"memory_tokens": tokens, "memory_counted_by": counted}


def _merge(event: NotesMerged) -> Json:
    return {
        "covers": list(event.covers),
        "text": event.text,
        "failed": event.failed,
        "usage": to_plain(event.usage),
        "latency_ms": event.latency_ms,
        "at_ns": event.at_ns,
    }


def _hint(hint: Hint) -> Json:
    return {"kind": hint.kind, "text": hint.text, "seen": list(hint.seen)}


def changes_facts(changes: Changes) -> Json:
    return {
        "total": changes.total,
        "items": [{"status": change.status, "path": change.path} for change in changes.items],
    }


def gaps_facts(gaps: tuple[Gap, ...]) -> Json:
    return [{"path": gap.path, "why": gap.why} for gap in gaps]


def report_facts(report: RestoreReport) -> Json:
    return {
        "target": report.target,
        "live": report.live,
        "dry_run": report.dry_run,
        "verified": report.verified,
        "acts": [{"what": act.what, "path": act.path} for act in report.acts],
        "kept": gaps_facts(report.kept),
        "lossy": gaps_facts(report.lossy),
        "drift": gaps_facts(report.drift),
    }


def rehearsal_facts(run: Run, target: RecordUid, plan: RestoreReport) -> dict[str, Json]:
    """What a rewind to `target` would do: to the files, outside of them, and to processes."""
    outside = asking.outside(run, target)
    return {
        **report_facts(plan),
        "survives": list(outside.survives),
        "undone": list(outside.undone),
        "processes": asking.in_the_way(run, target),
    }


def snapshot_facts(snapshot: Snapshot) -> Json:
    coverage = snapshot.coverage
    return {
        "snapshot": snapshot.id,
        "parent": snapshot.parent,
        "label": snapshot.label,
        "automatic": snapshot.automatic,
        "created_ns": snapshot.created_ns,
        "fingerprint": snapshot.fingerprint,
        "entries": coverage.entries,
        "bytes": coverage.bytes,
        "complete": coverage.complete,
        "excluded": gaps_facts(coverage.excluded),
        "unreadable": gaps_facts(coverage.unreadable),
        "too_large": gaps_facts(coverage.too_large),
        "unstable": gaps_facts(coverage.unstable),
        "lossy": gaps_facts(coverage.lossy),
        "changes": changes_facts(snapshot.changes),
    }


def files_facts(files: Sequence[FileDifference]) -> Json:
    return [
        {
            "status": item.status,
            "path": item.path,
            "what": item.what,
            "notes": list(item.notes),
            "diff": list(item.lines),
        }
        for item in files
    ]
