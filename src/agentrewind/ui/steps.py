"""A run's tree as rows to be read from top to bottom: the current path, and what was abandoned where it was left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from agentrewind.core.effects import overall
from agentrewind.core.records import Judged, RecordUid, Rewound, ToolInput
from agentrewind.core.standing import effects_of
from agentrewind.core.tree import Node, RunTree
from agentrewind.core.world import Change


@dataclass(frozen=True, slots=True)
class Step:
    """An LLM call together with the tool calls that it led to (or tool calls that no LLM call led to)."""

    nodes: tuple[Node, ...]
    depth: int
    """0 on the current path; more for what was abandoned."""

    @property
    def uid(self) -> RecordUid:
        return self.nodes[0].uid

    @property
    def changes(self) -> tuple[Change, ...]:
        """What it changed, each path once, by name."""
        found = {change.path: change for node in self.nodes if node.after for change in node.after.changes.items}
        return tuple(found[path] for path in sorted(found))

    @property
    def changed(self) -> int:
        return max(len(self.changes), *(node.after.changes.total if node.after else 0 for node in self.nodes))

    @property
    def judged(self) -> Judged | None:
        return next((node.judged for node in reversed(self.nodes) if node.judged), None)

    @property
    def held(self) -> bool:
        """Whether calls of it were not run because of their effects."""
        return any(node.held for node in self.nodes)

    @property
    def standing(self) -> str:
        """The class of what a rewind would leave standing of it; empty where that is nothing."""
        kind = overall(effect for _, effect in effects_of(self.nodes) if effect.survives)
        return "" if kind == "read" else kind

    @property
    def result(self) -> str:
        """The digest of what came back from its last tool call."""
        tools = [node for node in self.nodes if not node.is_llm and not _is_check(node.began.tool)]
        return tools[-1].ended.digest if tools and tools[-1].ended else ""


@dataclass(frozen=True, slots=True)
class Left:
    """Here the run went back (or an undo took that back)."""

    move: Rewound
    depth: int


Row = Step | Left


@dataclass(frozen=True, slots=True)
class _Fork:
    """Stands for all that begins with `first`, until it is written out."""

    first: Node
    depth: int


def rows(tree: RunTree) -> list[Row]:
    """Every node once. What was abandoned stands, one level deeper, where the path that replaced it begins."""
    reader = _Reader(tree)
    found: list[Row] = []
    pending: list[Iterator[Row | _Fork]] = [reader.beginning()]  # a stack of our own: runs are long
    while pending:
        item = next(pending[-1], None)
        if item is None:
            pending.pop()
        elif isinstance(item, _Fork):
            pending.append(reader.line(item.first, item.depth))
        else:
            found.append(item)
    return found


class _Reader:
    def __init__(self, tree: RunTree) -> None:
        self._on_path = {node.uid for node in tree.path()}
        self._children: dict[RecordUid | None, list[Node]] = defaultdict(list)
        for node in tree.nodes.values():
            self._children[node.began.parent].append(node)
        self._left: dict[RecordUid | None, list[Rewound]] = defaultdict(list)
        for move in tree.moves:
            if isinstance(move, Rewound):
                self._left[move.source].append(move)

    def beginning(self) -> Iterator[Row | _Fork]:
        yield from self._forks(None, 0)
        first = self._next(None, 0)
        if first is not None:
            yield from self.line(first, 0)

    def line(self, first: Node, depth: int) -> Iterator[Row | _Fork]:
        """`first` and what follows it, step by step, with the forks where they hang."""
        step: list[Node] = []
        node: Node | None = first
        while node is not None:
            step.append(node)
            following = self._next(node.uid, depth)
            if following is None or following.is_llm or self._eventful(node.uid):
                yield Step(tuple(step), depth)
                yield from (Left(move, depth) for move in self._left[node.uid])
                yield from self._forks(node.uid, depth)
                step = []
            node = following

    def _next(self, parent: RecordUid | None, depth: int) -> Node | None:
        """How the path goes on that was last followed from here."""
        children = self._children[parent]
        if depth == 0:
            return next((child for child in children if child.uid in self._on_path), None)
        return children[-1] if children else None

    def _forks(self, parent: RecordUid | None, depth: int) -> Iterator[_Fork]:
        following = self._next(parent, depth)
        return (_Fork(child, depth + 1) for child in self._children[parent] if child is not following)

    def _eventful(self, uid: RecordUid) -> bool:
        return bool(self._left[uid]) or len(self._children[uid]) > 1


def _is_check(tool: ToolInput | None) -> bool:
    return tool is not None and tool.name == "submission check"
