"""The effects of a run's calls, each once, and which of them still stand after a rewind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from agentrewind.core.effects import Effect
from agentrewind.core.records import RecordUid
from agentrewind.core.tree import Node, RunTree

MOST = 30
"""So many are said; the rest are counted."""


def effects_of(nodes: Sequence[Node]) -> list[tuple[Node, Effect]]:
    """What the calls of these nodes do, oldest first.

    A call is known twice where its tool is recorded too: by the answer that asked for it, and by the tool call itself,
    which then counts.
    """
    ran = {effect.call for node in nodes if not node.is_llm for effect in node.effects if effect.call}
    return [
        (node, effect)
        for node in nodes
        for effect in node.effects
        if not node.held and not (node.is_llm and effect.call in ran)
    ]


def abandoned(tree: RunTree, target: RecordUid) -> list[Node]:
    """All nodes that aren't on the path to `target`, which is itself to be made again; oldest first."""
    kept = {node.uid for node in tree.ancestors(tree.node(target).began.parent)}
    return [node for node in tree.nodes.values() if node.uid not in kept]


Undoing = tuple[RecordUid, str, str]
"""What takes effects back: the node, the tool call, and the command or function, which is run once for all of them."""


def surviving(tree: RunTree, target: RecordUid, undone: Collection[Undoing] = ()) -> list[str]:
    """In words, oldest first, what stands outside of the workspace once the run has gone back to `target`: of all paths
    that were ever abandoned. What may stand, for all that one knows, comes last. `undone` is what is to be taken back
    on the way.
    """
    outcomes = {**_undone(tree), **dict.fromkeys(undone, "done")}
    found = [(effect, outcomes.get(undoing(node, effect))) for node, effect in effects_of(abandoned(tree, target))]
    sure = dict.fromkeys(_said(effect, outcome) for effect, outcome in found if effect.survives)
    perhaps = dict.fromkeys(_said(effect, outcome) for effect, outcome in found if effect.may_survive)
    sure.pop("", None)
    perhaps.pop("", None)
    return [*_cut(sure), *(f"perhaps: {what}" for what in _cut(perhaps))]


def undoing(node: Node, effect: Effect) -> Undoing:
    """What takes this effect back."""
    return node.uid, effect.call, effect.undo


def _undone(tree: RunTree) -> dict[Undoing, str]:
    """What became of each that was to take something back."""
    return {
        undoing(tree.node(uid), effect): outcome
        for (uid, number), outcome in tree.compensations.items()
        for effect in tree.node(uid).effects[number : number + 1]
    }


def _said(effect: Effect, outcome: str | None) -> str:
    """What survives, with what became of undoing it; nothing where it is undone."""
    if outcome == "done":
        return ""
    return effect.what + {"failed": " (undoing it failed)", "unknown": " (it is not known whether it was undone)"}.get(
        outcome or "", ""
    )


def standing_words(effects: Iterable[Effect]) -> tuple[str, ...]:
    """The effects among these that survive, each once."""
    return tuple(dict.fromkeys(effect.what for effect in effects if effect.survives))


def _cut(words: Iterable[str]) -> list[str]:
    found = list(words)
    more = len(found) - MOST
    return found if more <= 0 else [*found[:MOST], f"and {more} more"]
