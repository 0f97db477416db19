"""What is done about a call with effects that survive, before it runs: nothing, a word, a question, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentrewind.core.effects import Effect, EffectClass, Mode
from agentrewind.core.records import Gated, RecordUid
from agentrewind.core.tree import RunTree

Ask = Callable[[str], bool | None]
"""Puts a question to a person, who is told of these effects; None where nobody can be asked."""

HELD: tuple[EffectClass, ...] = ("outside", "external")

TOLD = (
    "Not run yet: {what}. Going back to a checkpoint brings back the conversation and the files of the workspace, not"
    " this{undo}. If you still want it, make the very same call again: then it is run."
)
BLOCKED = (
    "Not run: {what}. What going back to a checkpoint can't undo is not allowed in this run. Go on without it, and say"
    " at the end what is left to do."
)
REFUSED = "Not run: {what}. A person was asked and said no. Go on without it."
NOBODY = (
    "Not run: {what}. It needs a person's word, and nobody can be asked here. Go on without it, and say at the end what"
    " is left to do."
)
BESIDE = "Not run: another call of the same turn was held back. Make this one again if it is still wanted."


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that is about to run: of the answer or tool call `uid`. `key` is a digest of its tool and arguments."""

    uid: RecordUid
    call: str
    key: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A call about which something has to be done first."""

    planned: Planned
    held: tuple[Effect, ...]
    answer: Literal["tell", "ask", "block"]

    @property
    def what(self) -> str:
        return "; ".join(dict.fromkeys(effect.what for effect in self.held))


class Gate:
    """The mode of one run.

    Args:
        mode: `record` lets all calls run.
        held: the classes of effects that the other modes are about; what only reads is never held.
        ask: for `confirm`. None: nobody can be asked.
    """

    def __init__(self, mode: Mode = "record", held: Collection[EffectClass] = HELD, ask: Ask | None = None) -> None:
        self.mode: Mode = mode
        self._held = frozenset(held)
        self._ask = ask

    @property
    def holds(self) -> bool:
        """Whether a call may come to nothing."""
        return self.mode in ("confirm", "block")

    def questions(self, tree: RunTree, calls: Sequence[Planned]) -> list[Question]:
        """What stands between these calls and their running. Decides only."""
        found: list[Question] = []
        for planned in calls:
            held = tuple(effect for effect in planned.effects if effect.kind in self._held and not effect.reads)
            if self.mode == "record" or not held or (self.mode == "annotate" and _was_told(tree, planned.key)):
                continue
            answer: Mapping[Mode, Literal["tell", "ask", "block"]] = {
                "annotate": "tell",
                "confirm": "ask",
                "block": "block",
            }
            found.append(Question(planned, held, answer[self.mode]))
        return found

    def settle(self, questions: Sequence[Question]) -> list[Gated]:
        """The outcome of each; may wait for a person."""
        return [self._settled(question) for question in questions]

    def _settled(self, question: Question) -> Gated:
        planned = question.planned
        uid = planned.uid
        if question.answer == "tell":
            undo = ", although its undoing is registered" if all(e.undo for e in question.held) else ""
            return Gated(uid, "told", planned.key, planned.call, TOLD.format(what=question.what, undo=undo))
        if question.answer == "block":
            return Gated(uid, "blocked", planned.key, planned.call, BLOCKED.format(what=question.what))
        said = self._ask(question.what) if self._ask is not None else None
        if said:
            return Gated(uid, "approved", planned.key, planned.call)
        text = (NOBODY if said is None else REFUSED).format(what=question.what)
        return Gated(uid, "refused", planned.key, planned.call, text)


def _was_told(tree: RunTree, key: str) -> bool:
    """Whether the agent knows: it was told of this very call on the path on which it is."""
    path = tree.ancestors(tree.head)
    return any(gate.key == key and gate.outcome == "told" for node in path for gate in node.gated)
