"""The review of the calls of one run by a guard, before they run."""

from __future__ import annotations

from collections.abc import Sequence

from agentrewind.core.edits import Message
from agentrewind.core.records import Gated, NodeBegan
from agentrewind.core.review import HELD_BACK, RECENT, Guard, Proposed
from agentrewind.engine.effects import key_of


class Reviewer:
    """Puts calls to a guard, but those that provably only read."""

    def __init__(self, guard: Guard, task: str) -> None:
        self._guard = guard
        self._task = task

    def proposed(self, began: NodeBegan, messages: Sequence[Message]) -> Proposed | None:
        """What the guard is shown of this tool node; None where it isn't asked."""
        if began.tool is None:
            return None
        recent = tuple(messages[-RECENT:])
        proposed = Proposed(self._task, recent, began.tool.name, began.tool.arguments, began.effects)
        return None if proposed.only_reads else proposed

    def held(self, began: NodeBegan, proposed: Proposed) -> Gated | None:
        """How the call is held back; None where it may run. May take as long as the guard does."""
        review = self._guard.review(proposed)
        if review.safe:
            return None
        key = key_of(proposed.tool, proposed.arguments)
        call = began.tool.call_id if began.tool is not None else None
        told = HELD_BACK.format(reason=review.reason.strip().rstrip("."))
        return Gated(began.uid, "blocked", key, call or "", told, by=self._guard.name)
