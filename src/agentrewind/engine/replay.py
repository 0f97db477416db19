"""A retained prefix as it is given out again: which recorded call a call of the new process is. Never runs anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentrewind.core.codec import Json, canonical
from agentrewind.core.records import RecordUid, ThreadId, ToolInput
from agentrewind.engine.matching import Comparison, Verdict
from agentrewind.engine.prefix import Prefix, Step

_ORDER = (Verdict.EXACT, Verdict.SOFT, Verdict.HARD)


class Diverged(Exception):
    """The new process asked for something that was not recorded; the text says what and where. Nothing was run."""


class Early(Exception):
    """A call of another conversation than those of the prefix: it is new, and has to wait until the run is live."""


@dataclass(frozen=True, slots=True)
class Match:
    """The recorded call that a call is, and how alike the two are."""

    step: Step
    comparison: Comparison


class Replay:
    """What of a prefix has been given out, and what comes next in each conversation.

    `pinned`: calls are taken in the recorded order even where they ask something else; else that is a divergence.
    """

    def __init__(self, prefix: Prefix, tool: Callable[[RecordUid], ToolInput], *, pinned: bool = False) -> None:
        self._target = prefix.target
        self._tool = tool
        self.pinned = pinned
        self._waiting: dict[ThreadId, list[Step]] = {}
        for step in prefix.steps:
            self._waiting.setdefault(step.thread, []).append(step)
        self._tools: dict[ThreadId, list[RecordUid]] = {}
        """The tool calls of the newest step of each conversation that were not made again yet."""
        self._reached = prefix.target is None

    @property
    def live(self) -> bool:
        """Whether the run has come to where it goes on; then what the prefix doesn't hold is new."""
        return self._reached and not (self._target is None and any(self._waiting.values()))

    @property
    def over(self) -> bool:
        """Whether nothing recorded can be asked for any more."""
        return self.live and not any(self._waiting.values()) and not any(self._tools.values())

    def is_target(self, step: Step) -> bool:
        return step is self._target

    def match(
        self,
        measure: Callable[[Step], Comparison],
        tools_of: Callable[[Step], Sequence[str]],
        tools: Sequence[str],
    ) -> Match | None:
        """The next recorded call that this one is; None where it is none and the run is live.

        `measure` compares it with a recorded one, `tools_of` names the tools that a recorded one offered, `tools` are
        the names of those that this one offers.

        Raises:
            Diverged: nothing was given out.
            Early: it has to wait.
        """
        found = [Match(step, measure(step)) for step in self._next()]
        found.sort(key=lambda match: _ORDER.index(match.comparison.verdict))
        if found and found[0].comparison.verdict is not Verdict.HARD:
            return found[0]
        kin = [match for match in found if list(tools_of(match.step)) == list(tools)]
        if self.live:
            return None
        if not kin:
            raise Early
        if not self.pinned:
            raise Diverged(f"at {kin[0].step.uid} it asked something else: {'; '.join(kin[0].comparison.differences)}")
        return kin[0]

    def _next(self) -> list[Step]:
        """The next step of each conversation; the target once its conversation has come to it."""
        steps = [steps[0] for steps in self._waiting.values() if steps]
        target = self._target
        if target is not None and not self._reached and not self._waiting.get(target.thread):
            steps.append(target)
        return steps

    def give(self, step: Step) -> None:
        """`step` was answered, or, where it is the target, is about to be asked."""
        if step is self._target:
            self._reached = True
        else:
            self._waiting[step.thread].remove(step)
        self._tools[step.thread] = list(step.tools)

    def match_tool(self, name: str, arguments: Json, call_id: str | None) -> RecordUid | None:
        """The recorded tool call that this one is, now given out; None where it is new and the run is live.

        Raises:
            Diverged: it was never made.
        """
        for uids in self._tools.values():
            for uid in uids:
                if _is(self._tool(uid), name, arguments, call_id):
                    uids.remove(uid)
                    return uid
        if self.live:
            return None
        raise Diverged(f"it called {name} with what was never recorded")


def _is(recorded: ToolInput, name: str, arguments: Json, call_id: str | None) -> bool:
    if recorded.call_id is not None and recorded.call_id != call_id:
        return False
    return recorded.name == name and canonical(recorded.arguments) == canonical(arguments)
