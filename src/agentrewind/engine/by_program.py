"""The two tools for an agent that reaches them by a program: an MCP server, or a command in its shell.

To the harness such a call is one of its own tools, with others of the same turn at work beside it. So a rewind is only
asked for here, and made just before the next call of its conversation, as one that a person asks for. What the program
said is then part of what is abandoned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError
from agentrewind.core.records import RecordUid, ThreadId
from agentrewind.core.tools import CANDIDATES, COMMIT, NAMES
from agentrewind.core.tree import RunTree
from agentrewind.dialects.base import ToolCall
from agentrewind.engine.candidates import candidates, render
from agentrewind.engine.rewind_tools import wished
from agentrewind.engine.rewinder import Wish
from agentrewind.engine.threads import Thread

ACCEPTED = (
    "Accepted: before your next turn the files and this conversation are as they were just before {target}, and your"
    " note stands there in place of all that came after, this text too. If you do read this in a later turn, the rewind"
    " was not made; call backtrack_candidates then."
)
ASKED_ALREADY = "A rewind to {target} has been asked for already; it is made before your next turn."
NOT_OFFERED = "This run records only; going back is not offered to its agent."
OVER = "The run has ended, so nothing was moved."


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent is told; `ok` is False where nothing was done."""

    text: str
    ok: bool = True


class ByProgram:
    """Takes the calls of one run's tools that come by a program. Thread-safe.

    Args:
        guarded: holds the lock of the session.
        threads: the conversations of now.
        refusal: why a wish can't be granted, as the tools in an answer of the model are told.
        over: whether the run has ended.
        limit: how many candidates are shown.
        offered: whether the agent may go back at all.
    """

    def __init__(
        self,
        tree: Callable[[], RunTree],
        guarded: Callable[[], AbstractContextManager[None]],
        threads: Callable[[], Sequence[Thread]],
        refusal: Callable[[Wish], str | None],
        over: Callable[[], bool],
        *,
        limit: int,
        offered: bool,
    ) -> None:
        self._tree, self._guarded, self._threads = tree, guarded, threads
        self._refusal, self._over, self._limit, self._offered = refusal, over, limit, offered
        self._wishes: dict[ThreadId, Wish] = {}

    def call(self, tool: str, arguments: Json) -> Told:
        """Carry out a call of one of the two tools, from any thread."""
        if tool not in NAMES:
            return Told(f"There is no tool {tool!r}. There are: {CANDIDATES}, {COMMIT}.", ok=False)
        if not self._offered:
            return Told(NOT_OFFERED, ok=False)
        try:
            with self._guarded():
                if self._over():
                    return Told(OVER, ok=False)
                return self._candidates() if tool == CANDIDATES else self._commit(arguments)
        except AgentRewindError as error:
            return Told(str(error), ok=False)

    def take(self, thread: ThreadId) -> Wish | None:
        """What was asked for in this conversation and isn't made yet. With the lock held."""
        return self._wishes.pop(thread, None)

    def stands(self, thread: ThreadId) -> bool:
        """Whether that conversation goes back at its next call. With the lock held."""
        return thread in self._wishes

    def forget(self) -> None:
        """The process that asked is gone."""
        self._wishes.clear()

    def _candidates(self) -> Told:
        askers = self._askers()
        only = askers[0].id if len(askers) == 1 else None
        return Told(render(candidates(self._tree(), only, self._limit)))

    def _commit(self, arguments: Json) -> Told:
        wish = wished(ToolCall("", COMMIT, arguments), self._tree().main or ThreadId(""))
        if isinstance(wish, str):
            return Told(wish, ok=False)
        wish = Wish(wish.target, wish.note, self._thread(wish.target) or wish.thread, wish.reason)
        refusal = self._refusal(wish)
        if refusal is not None:
            return Told(refusal, ok=False)
        earlier = self._wishes.setdefault(wish.thread, wish)
        if earlier is not wish:
            return Told(ASKED_ALREADY.format(target=earlier.target), ok=False)
        return Told(ACCEPTED.format(target=wish.target))

    def _thread(self, target: RecordUid) -> ThreadId | None:
        """The conversation that asks: that of the target, unless only others are at work, one of which it must be."""
        node, askers = self._tree().nodes.get(target), self._askers()
        owner = node.began.thread if node is not None else None
        if not askers or any(item.id == owner for item in askers):
            return owner
        return askers[0].id

    def _askers(self) -> list[Thread]:
        """The conversations that the call may come from: one of their tools is at work."""
        at_work = [item for item in self._threads() if item.pending and not item.ended]
        return [item for item in at_work if any(map(_is_ours, item.pending.values()))] or at_work


def _is_ours(tool: str) -> bool:
    """Harnesses put the name of the MCP server before that of its tool."""
    return tool.endswith((CANDIDATES, COMMIT))
