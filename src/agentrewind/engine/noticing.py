"""Telling the agent, once and at the end of a tool result, what the runtime notices (rewind.md, section 6)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from agentrewind.core.edits import Edit, Message
from agentrewind.core.records import Hint
from agentrewind.core.tree import RunTree
from agentrewind.dialects.base import Dialect
from agentrewind.engine.checkpointer import Log
from agentrewind.engine.threads import Thread
from agentrewind.strategies.noticing import Notice, Noticing, error, first, loop, stall

RESULTS = 40
"""How many of the newest messages are searched for the same error."""
TOLD = "[agentrewind] {text} (Said once; backtrack_candidates lists the points to which you can go back.)"
TOLD_WITHOUT_TOOLS = "[agentrewind] {text} (Said once.)"


@dataclass(frozen=True, slots=True)
class Teller:
    """Finds what is to be told to a conversation, and makes the edit that tells it."""

    log: Log
    noticing: Noticing

    def look(self, dialect: Dialect, thread: Thread, *, offers: bool) -> Hint | None:
        """What the next call of this conversation tells for the first time; the thread's edits then say it too.

        Only the model's view changes: the tool result that the harness holds stays as it is. Where the newest message
        is no tool result, what was noticed waits for one.
        """
        place = len(thread.raw) - 1
        newest = thread.raw[place]
        if (thread.edits and thread.edits[-1].stop > place) or not dialect.tool_results(newest):
            return None
        notice = self._noticed(dialect, thread, self.log.tree)
        if notice is None:
            return None
        text = (TOLD if offers else TOLD_WITHOUT_TOOLS).format(text=notice.text)
        message = dialect.with_hint(newest, text)
        if message is None:
            return None
        thread.edits = (*thread.edits, hint_edit(place, message, notice.key))
        return Hint(notice.kind, notice.key, text, place, self.log.put(newest), notice.seen)

    def _noticed(self, dialect: Dialect, thread: Thread, tree: RunTree) -> Notice | None:
        told = frozenset(edit.hint for edit in thread.edits if edit.hint)
        return first(
            (
                error(_results(dialect, thread), self.noticing.errors),
                loop(tree, thread.id, self.noticing.loop),
                stall(tree, self.noticing.stall),
            ),
            told,
        )


def _results(dialect: Dialect, thread: Thread) -> Iterator[tuple[str, bool | None]]:
    """What the tools said last, newest first, on the present path."""
    for message in itertools.islice(reversed(thread.effective()), RESULTS):
        for result in reversed(dialect.tool_results(message)):
            yield result.text, result.failed


def hint_edit(place: int, message: Message, key: str) -> Edit:
    """The edit that shows the model the message number `place` with a hint at its end."""
    return Edit(place, place + 1, (message,), hint=key)
