"""One step of a run in full, whatever dialect its call speaks, and the state of the files around it."""

from __future__ import annotations

import json

from agentrewind.compose.differences import FileDifference, snapshot_difference
from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json, to_plain
from agentrewind.core.records import RecordUid, Rewound
from agentrewind.core.tree import Node
from agentrewind.core.world import SnapshotId
from agentrewind.integrations.formats.conversation import Said, reasoning_of, reply_of, said
from agentrewind.ui.facts import files_facts, move_facts, node_facts, snapshot_facts
from agentrewind.ui.steps import Step, rows

LONGEST = 100_000
"""Characters of a text that are shown; the rest is counted."""
_FILES = 200
_LINES = 20_000
"""Lines of all diffs together."""


def step_detail(run: Run, uid: str, *, every: bool = False) -> Json:
    """The step that the record `uid` belongs to; `every` message rather than those that are new in its call.

    Raises:
        UnknownRecord: no such record.
    """
    node = run.node(uid)
    step = next(row for row in rows(run.tree) if isinstance(row, Step) and node in row.nodes)
    before, after = ends_of(step)
    return {
        "uid": step.uid,
        "before": before,
        "after": after,
        "nodes": [_node(run, item, on_path=step.depth == 0, every=every) for item in step.nodes],
        "moves": [
            move_facts(move)
            for move in run.tree.moves
            if isinstance(move, Rewound) and (move.target == step.uid or move.source in {n.uid for n in step.nodes})
        ],
        "memory": _memory(run, step.uid),
    }


def ends_of(step: Step) -> tuple[SnapshotId | None, SnapshotId | None]:
    """The snapshots before and after a step; None where there is none."""
    before = step.nodes[0].began.snapshot
    after = next((n.after.snapshot for n in reversed(step.nodes) if n.after is not None and n.after.snapshot), before)
    return before, after


def _node(run: Run, node: Node, *, on_path: bool, every: bool) -> Json:
    facts = node_facts(node, on_path=on_path)
    if node.began.llm is None:
        output = run.output(node.uid)
        arguments = node.began.tool.arguments if node.began.tool else None
        return {**facts, "arguments": _shown(_arguments(arguments)), "result": _shown(_pretty(output))}
    response = run.output(node.uid)
    reply = reply_of(node, response)
    messages, known = _messages(run, node, every=every)
    return {
        **facts,
        "model": node.began.llm.model,
        "dialect": node.began.llm.dialect,
        "messages": messages,
        "known": known,
        "reasoning": _shown(reasoning_of(response)),
        "answer": _shown(reply.text if reply else "" if response is None else _pretty(response)),
        "asked": [
            {"id": call.id, "name": call.name, "arguments": _shown(_arguments(call.arguments))}
            for call in (reply.calls if reply else ())
        ],
    }


def _messages(run: Run, node: Node, *, every: bool) -> tuple[list[Json], int]:
    """What the call was sent, and how many of its messages are left out because the call before had them."""
    ids = run.tree.messages(node.uid)
    before = next((item for item in run.tree.ancestors(node.began.parent) if _same_talk(item, node)), None)
    known = 0
    if before is not None and not every:
        for old, new in zip(run.tree.messages(before.uid), ids, strict=False):
            if old != new:
                break
            known += 1
    found = [_said(item) for name in ids[known:] for item in _parts(run.content(name))]
    answered = before is not None and not every  # what the model said itself is the answer of the call before
    return [item for item in found if not (answered and item["role"] == "assistant")], known


def _same_talk(one: Node, other: Node) -> bool:
    return one.is_llm and one.began.thread == other.began.thread


def _parts(message: Json) -> list[Said]:
    """Of a message in any dialect; of an item that says nothing by itself, what it is."""
    found = list(said(message))
    if found or not isinstance(message, dict):
        return found
    return [Said("assistant", _pretty(message))] if message.get("type") not in (None, "reasoning") else []


def _said(item: Said) -> Json:
    return {"role": item.role, "text": _shown(item.text), "call": item.call_id}


def _memory(run: Run, uid: RecordUid) -> list[Json]:
    """The notes that the context of a call held."""
    held = run.tree.held(uid)
    return [
        {"branch": note.branch, "target": note.target, "text": _shown(note.text), "by": note.by}
        for note in run.tree.notes
        if note.branch in held
    ]


def _arguments(arguments: Json) -> str:
    """As a person would write them: one plain text where there is just one."""
    if isinstance(arguments, dict) and len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        return only
    return _pretty(arguments)


def _pretty(value: Json) -> str:
    """For a person to read: texts of several lines as they are, the rest as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and any(isinstance(item, str) and "\n" in item for item in value.values()):
        return "\n".join(f"{name}: {_pretty(item)}" for name, item in value.items())
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _shown(text: str) -> Json:
    """A text, and how many characters of it were cut off."""
    return {"text": text[:LONGEST], "more": max(0, len(text) - LONGEST)}


def state_detail(run: Run, snapshot: str) -> Json:
    """What a snapshot holds and what it doesn't. Raises: SnapshotNotFound, SnapshotDamaged."""
    with run.reading() as world:
        found = world.find(SnapshotId(snapshot))
        return {**snapshot_facts(found), "found_by": to_plain(found.coverage.found_by)}


def diff_detail(run: Run, before: str, after: str) -> Json:
    """What differs between two snapshots, or a snapshot and `now`. Raises: SnapshotNotFound, SnapshotDamaged."""
    with run.reading() as world:
        files, total = snapshot_difference(world, before, after)
    return {"total": total, "files": files_facts(_cut(files))}


def _cut(files: tuple[FileDifference, ...]) -> list[FileDifference]:
    left, shown = _LINES, []
    for item in files[:_FILES]:
        shown.append(item if len(item.lines) <= left else FileDifference(item.status, item.path, "large"))
        left -= len(shown[-1].lines)
    return shown
