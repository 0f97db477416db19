"""Continue: tell the agent what is missing, reset nothing."""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.core.records import Judged
from agentrewind.core.strategy import Decision, GoOn
from agentrewind.core.tree import RunTree
from agentrewind.strategies.ending import EQUAL_FAILURES, REJECTIONS, ended, report


@dataclass(frozen=True, slots=True)
class Continue:
    """The feedback is appended, nothing else. `equal_failures` in a row end the run, and so do
    `rejections` in a row without progress.
    """

    equal_failures: int = EQUAL_FAILURES
    rejections: int | None = REJECTIONS
    name = "continue"
    offers_rewind = False

    def decide(self, tree: RunTree, verdict: Judged) -> Decision:
        """`verdict` is the newest one of `tree`."""
        return ended(tree, verdict, self.equal_failures, self.rejections) or GoOn(report(verdict))
