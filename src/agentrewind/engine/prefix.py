"""The part of a run that a rewind keeps, as the calls in which a harness made it. Pure: journal in, steps out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from agentrewind.core.codec import Json
from agentrewind.core.edits import Edit
from agentrewind.core.records import BranchId, MessageId, RecordUid, ThreadId
from agentrewind.core.tools import NAMES
from agentrewind.core.tree import Node, RunTree

Content = Callable[[MessageId], Json]


class Unservable(Exception):
    """The records don't say enough to bring a new process to this point; the text says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One LLM call of the harness: the record whose answer it got, and what the interposer put into its messages."""

    uid: RecordUid
    thread: ThreadId
    raw_length: int
    edits: tuple[Edit, ...]
    stripped: bool = False
    """Its answer reached the harness without the calls of rewind tools that it held."""
    tools: tuple[RecordUid, ...] = ()
    """The tool calls after it, up to the next step of its conversation."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """`steps` are served in their order, conversation by conversation; `target` is the call that is made anew."""

    steps: tuple[Step, ...]
    target: Step | None

    @property
    def edits_at_target(self) -> tuple[Edit, ...]:
        return () if self.target is None else self.target.edits


def calls_rewind_tool(node: Node) -> bool:
    """Whether the answer of an LLM call asked for one of our tools."""
    return node.ended is not None and any(call.split("(", 1)[0] in NAMES for call in node.ended.calls)


def answered_here(node: Node) -> bool:
    """Whether the interposer answered an LLM call itself: the harness never saw it."""
    return node.held or calls_rewind_tool(node)


def without_notes(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    return tuple(edit for edit in edits if not edit.notes)


def prefix_before(tree: RunTree, content: Content, target: RecordUid) -> Prefix:
    """All that leads to LLM call `target`, which is itself to be made again. Raises: Unservable."""
    node = tree.node(target)
    path = [*_path(tree, node.began.parent), node]
    edits = _edits(tree, content, path)
    target_step = Step(target, node.began.thread, node.began.raw_length, edits[target])
    return Prefix(_steps(path[:-1], edits, node), target_step)


def prefix_through(tree: RunTree, content: Content, last: RecordUid | None) -> Prefix:
    """All up to `last` and its answer; what the harness asks after it is new. Raises: Unservable."""
    path = _path(tree, last)
    return Prefix(_steps(path, _edits(tree, content, path), None), None)


def _path(tree: RunTree, uid: RecordUid | None) -> list[Node]:
    return list(tree.ancestors(uid))[::-1]


def _edits(tree: RunTree, content: Content, path: list[Node]) -> dict[RecordUid, tuple[Edit, ...]]:
    """The edits in force at each LLM call.

    In fresh mode an edit inserts at the end of what the harness had sent: the exchange over a rewind tool, or the
    memory after a rewind, which takes the place of all earlier ones. So the lengths say where they stand. The only
    other edit is a hint, whose place is recorded.
    """
    found: dict[RecordUid, tuple[Edit, ...]] = {}
    last: dict[ThreadId, Node] = {}
    for node in path:
        if node.is_llm:
            before = last.get(node.began.thread)
            known = found[before.uid] if before is not None else ()
            found[node.uid] = _edits_at(tree, content, node, before, known)
            last[node.began.thread] = node
    return found


def _edits_at(
    tree: RunTree, content: Content, node: Node, before: Node | None, known: tuple[Edit, ...]
) -> tuple[Edit, ...]:
    target = _target_between(tree, before, node)
    kept = known if target is None else without_notes(_edits_at(tree, content, target, before, known))
    raw = node.began.raw_length
    new = _length(node) - raw - sum(len(edit.inserted) - (edit.stop - edit.start) for edit in kept)
    kept = _with_hint(tree, content, node, new, kept)
    if new < 0 or (kept and kept[-1].start > raw):
        raise Unservable(f"{node.uid} was asked by a process that had not begun at the beginning")
    if new == 0:
        return kept
    inserted = tuple(content(item) for item in _newest(tree, node, new))
    exchange = target is None and before is not None and answered_here(before)
    notes = () if exchange else tuple(note.branch for note in tree.notes if note.branch in tree.held(node.uid))
    if not exchange and not notes:
        raise Unservable(f"{node.uid} was sent {new} messages of which nothing says where they came from")
    return (*kept, Edit(raw, raw, inserted, notes[-1] if notes else "", notes))


def _with_hint(tree: RunTree, content: Content, node: Node, new: int, kept: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits, and that of the hint which the model was given at this call, `new` messages before the last."""
    hint = node.began.hint
    if hint is None:
        return kept
    shown = tree.messages(node.uid)[hint.place - node.began.raw_length - new]
    return (*kept, Edit(hint.place, hint.place + 1, (content(shown),), hint=hint.key))


def _length(node: Node) -> int:
    """How many messages it sent, without going through those of the calls before it."""
    llm = node.began.llm
    return 0 if llm is None else llm.messages.keep + len(llm.messages.added)


def _newest(tree: RunTree, node: Node, count: int) -> tuple[MessageId, ...]:
    """The last `count` messages that it sent."""
    added = node.began.llm.messages.added if node.began.llm else ()
    return (added if count <= len(added) else tree.messages(node.uid))[-count:]


def _target_between(tree: RunTree, before: Node | None, node: Node) -> Node | None:
    """The target of the newest rewind of this conversation between two of its calls (None: the beginning)."""
    for branch in _line(tree, node.began.branch):
        if before is not None and branch == before.began.branch:
            return None
        opened = tree.branches[branch].opened_by
        target = None if opened is None or opened.why != "rewind" else tree.node(opened.target)
        if target is not None and target.began.thread == node.began.thread:
            return target
    return None


def _line(tree: RunTree, branch: BranchId) -> Iterator[BranchId]:
    """A branch and those that it goes back to, newest first."""
    at: BranchId | None = branch
    while at is not None:
        yield at
        at = tree.branches[at].parent


def _steps(path: list[Node], edits: dict[RecordUid, tuple[Edit, ...]], target: Node | None) -> tuple[Step, ...]:
    asked = [node for node in path if node.is_llm and node.answered]
    following: dict[ThreadId, Node] = {} if target is None else {target.began.thread: target}
    steps: dict[RecordUid, Step] = {}
    for node in reversed(asked):
        step = _step(node, edits[node.uid], following.get(node.began.thread))
        if step is not None:
            steps[node.uid] = step
        following[node.began.thread] = node
    ordered = {uid: steps[uid] for uid in (node.uid for node in asked) if uid in steps}
    for uid, tools in _tools(path, ordered).items():
        ordered[uid] = replace(ordered[uid], tools=tools)
    return tuple(ordered.values())


def _step(node: Node, edits: tuple[Edit, ...], after: Node | None) -> Step | None:
    """None where the interposer answered the model itself, so that the harness never saw this answer."""
    ours = answered_here(node)
    raw = node.began.raw_length
    if ours and after is not None and after.began.raw_length == raw:
        return None
    return Step(node.uid, node.began.thread, raw, edits, stripped=ours)


def _tools(path: list[Node], steps: dict[RecordUid, Step]) -> dict[RecordUid, tuple[RecordUid, ...]]:
    found: dict[RecordUid, tuple[RecordUid, ...]] = {}
    last: dict[ThreadId, RecordUid] = {}
    for node in path:
        if node.uid in steps:
            last[node.began.thread] = node.uid
        elif not node.is_llm and node.began.thread in last:
            step = last[node.began.thread]
            found[step] = (*found.get(step, ()), node.uid)
    return found
