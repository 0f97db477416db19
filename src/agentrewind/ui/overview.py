"""A run as the page shows it: its header, and its tree as rows from top to bottom."""

from __future__ import annotations

from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json
from agentrewind.core.cost import calls_cost
from agentrewind.core.memory import Note
from agentrewind.core.records import FilesRestored, Judged, Rewound
from agentrewind.core.world import Change
from agentrewind.ui.facts import move_facts, run_facts
from agentrewind.ui.steps import Left, Row, Step, rows

_FILES_NAMED = 40
"""Paths named in a row; the pane beside it has them all."""
_CUT = 400
"""Characters of a line in a row."""


def overview(run: Run) -> Json:
    """All that the tree needs, in the order in which it is read.

    `rows` are steps (`k` is `step`) and rewinds where they left off (`left`); `d` is the depth: 0 on the current path.
    """
    tree = run.tree
    return {
        **run_facts(run),
        "alive": run.alive,
        "resumable": run.resumable,
        "in_workspace": run.in_workspace,
        "head": tree.head,
        "branch": tree.branch,
        "branches": len(tree.branches),
        "rows": [_row(row) for row in rows(tree)],
        "notes": [_note(note) for note in tree.notes],
        "files_moved": [move_facts(move) for move in tree.moves if isinstance(move, FilesRestored)],
        "undoable": bool(tree.moves) and not run.alive,
        "intent": tree.intent.target if tree.intent else None,
        "warnings": [*run.warnings, *tree.warnings],
    }


def _row(row: Row) -> Json:
    return _left(row.move, row.depth) if isinstance(row, Left) else _step(row)


def _left(move: Rewound, depth: int) -> Json:
    return {"k": "left", "d": depth, **move_facts(move)}


def _step(step: Step) -> Json:
    first = step.nodes[0]
    cost = calls_cost(step.nodes)
    error = first.ended.error if first.ended else None
    return {
        "k": "step",
        "d": step.depth,
        "uid": step.uid,
        "uids": [node.uid for node in step.nodes],
        "branch": first.began.branch,
        "thread": first.began.thread,
        "at_ns": first.began.started_ns,
        "checkpoint": first.is_llm and first.began.snapshot is not None,
        "open": any(node.ended is None for node in step.nodes),
        "calls": _calls(step),
        "said": _cut(first.ended.digest) if first.is_llm and first.ended else "",
        "result": _cut(step.result),
        "error": _cut(f"{error.type}: {error.message}") if error else "",
        "files": [_change(change) for change in step.changes[:_FILES_NAMED]],
        "changed": step.changed,
        "verdict": _verdict(step.judged) if step.judged else None,
        "standing": step.standing,
        "held": step.held,
        "hint": first.began.hint.text if first.began.hint else "",
        "usd": cost.usd,
        "tokens": [cost.input, cost.output],
    }


def _calls(step: Step) -> list[Json]:
    first = step.nodes[0]
    if first.is_llm:
        return [_cut(call) for call in (first.ended.calls if first.ended else ())]
    return [first.began.tool.name if first.began.tool else "tool"]


def _change(change: Change) -> Json:
    return [change.status, change.path]


def _verdict(verdict: Judged) -> Json:
    return {"accepted": verdict.accepted, "satisfied": verdict.satisfied, "total": verdict.total}


def _note(note: Note) -> Json:
    return {"branch": note.branch, "target": note.target, "text": note.text, "by": note.by}


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else text[:_CUT] + "…"
