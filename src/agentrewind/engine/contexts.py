"""What the model sees where a run goes on in a new process."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentrewind.core.edits import Edit, Message
from agentrewind.core.memory import Entry, entries
from agentrewind.core.records import BranchId
from agentrewind.core.tools import COMMIT
from agentrewind.dialects.base import Dialect, MemoryRole
from agentrewind.engine.holdings import Holdings
from agentrewind.engine.memory_policy import Memory
from agentrewind.engine.plans import Plan
from agentrewind.engine.prefix import Unservable, prefix_before
from agentrewind.engine.rewind_tools import NOT_EXECUTED
from agentrewind.engine.whole import Whole


class Contexts:
    """The contexts of one run, from its records."""

    def __init__(self, log: Whole, role: MemoryRole, memory: Memory, holdings: Holdings) -> None:
        self._log = log
        self._role: MemoryRole = role
        self._memory = memory
        self._holdings = holdings

    def notes(self, plan: Plan) -> tuple[BranchId, ...]:
        """The notes that stand in the context in which the plan goes on."""
        tree = self._log.tree
        if plan.remembers:
            stand = tree.held_on(tree.branch)
            return tuple(note.branch for note in tree.notes if note.branch in stand)
        return () if plan.at is None else tuple(tree.held(plan.at))

    def brought(self, held: Collection[str] = ()) -> list[Entry]:
        """What the newest rewind brought, less what is `held` already."""
        tree = self._log.tree
        stand = tree.held_on(tree.branch).difference(held)
        return entries([note for note in tree.notes if note.branch in stand], tree.merges)

    def after(self, dialect: Dialect, plan: Plan, notes: Sequence[Entry]) -> tuple[Message, ...]:
        """What stands after the retained messages: the memory of these notes, or why a rewind came to nothing."""
        if plan.remembers:
            text = self._memory.said(notes, rewinds=self._log.tree.rewinds, effects=plan.effects)
            text += self._holdings.told(plan.at)
            return (dialect.memory(text, self._role),) if text else ()
        if not plan.told or plan.at is None:
            return ()
        answer = dialect.parse(dialect.render(self._log.output(plan.at), stream=False), stream=False)
        commit = next((call.id for call in answer.calls if call.name == COMMIT), None)
        if commit is None:  # it asked in words of its own
            return (*answer.messages, dialect.memory(plan.told, self._role))
        texts = {call.id: NOT_EXECUTED.format(tool=COMMIT) for call in answer.calls} | {commit: plan.told}
        return (*answer.messages, *dialect.results(answer.messages, texts))

    def all(self, dialect: Dialect, plan: Plan) -> tuple[Message, ...]:
        """The recorded messages of the plan's call, and what stands after them: every note once."""
        if plan.at is None:
            return ()
        tree = self._log.tree
        sent: list[Message] = [self._log.get(item) for item in tree.messages(plan.at)]
        missing = self.brought()
        if plan.remembers:
            try:
                sent = _without_notes(sent, prefix_before(tree, self._log.get, plan.at).edits_at_target)
            except Unservable:  # some may stand in what the harness itself sent
                missing = self.brought(tree.held(plan.at))
        return (*sent, *self.after(dialect, plan, missing))


def _without_notes(sent: Sequence[Message], edits: Sequence[Edit]) -> list[Message]:
    """The messages without those that carry notes. Those that do only insert."""
    left, shift = list(sent), 0
    for edit in edits:
        start = edit.start + shift
        if edit.notes:
            del left[start : start + len(edit.inserted)]
        else:
            shift += len(edit.inserted) - (edit.stop - edit.start)
    return left
