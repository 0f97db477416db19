"""What the model sees where a run goes on in a new process."""

from __future__ import annotations

from collections.abc import Sequence

from agentrewind.core.budgets import Budget
from agentrewind.core.edits import Edit, Message
from agentrewind.core.memory import Note, injection
from agentrewind.core.records import BranchId
from agentrewind.core.tools import COMMIT
from agentrewind.dialects.base import Dialect, MemoryRole
from agentrewind.engine.plans import Plan
from agentrewind.engine.prefix import Unservable, prefix_before
from agentrewind.engine.session import NOT_EXECUTED
from agentrewind.engine.whole import Whole


class Contexts:
    """The contexts of one run, from its records."""

    def __init__(self, log: Whole, role: MemoryRole, budget: Budget) -> None:
        self._log = log
        self._role: MemoryRole = role
        self._budget = budget

    def notes(self, plan: Plan) -> tuple[BranchId, ...]:
        """The notes that stand in the context in which the plan goes on."""
        if plan.remembers:
            return tuple(note.branch for note in self._log.tree.notes)
        return () if plan.at is None else tuple(self._log.tree.held(plan.at))

    def memory(self, effects: Sequence[str], notes: Sequence[Note], rewinds: int) -> str:
        left = None if self._budget.rewinds is None else max(self._budget.rewinds - rewinds, 0)
        return injection(notes, rewinds=rewinds, left=left, effects=effects)

    def after(self, dialect: Dialect, plan: Plan, notes: Sequence[Note]) -> tuple[Message, ...]:
        """What stands after the retained messages: the memory of these notes, or why a rewind came to nothing."""
        if plan.remembers:
            return (dialect.memory(self.memory(plan.effects, notes, self._log.tree.rewinds), self._role),)
        if not plan.told or plan.at is None:
            return ()
        answer = dialect.parse(dialect.render(self._log.output(plan.at), stream=False), stream=False)
        commit = next((call.id for call in answer.calls if call.name == COMMIT), "")
        texts = {call.id: NOT_EXECUTED.format(tool=COMMIT) for call in answer.calls} | {commit: plan.told}
        return (*answer.messages, *dialect.results(answer.messages, texts))

    def all(self, dialect: Dialect, plan: Plan) -> tuple[Message, ...]:
        """The recorded messages of the plan's call, and what stands after them: every note once."""
        if plan.at is None:
            return ()
        tree = self._log.tree
        sent: list[Message] = [self._log.get(item) for item in tree.messages(plan.at)]
        missing = tree.notes
        if plan.remembers:
            try:
                sent = _without_notes(sent, prefix_before(tree, self._log.get, plan.at).edits_at_target)
            except Unservable:  # some may stand in what the harness itself sent
                held = tree.held(plan.at)
                missing = [note for note in tree.notes if note.branch not in held]
        return (*sent, *self.after(dialect, plan, missing))


def _without_notes(sent: Sequence[Message], edits: Sequence[Edit]) -> list[Message]:
    """The messages without those that carry notes. The edits only insert."""
    left, shift = list(sent), 0
    for edit in edits:
        start = edit.start + shift
        if edit.notes:
            del left[start : start + len(edit.inserted)]
        else:
            shift += len(edit.inserted)
    return left
