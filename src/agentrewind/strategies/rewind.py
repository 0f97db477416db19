"""Rewind: tell the agent what is missing and that it may go back instead of repairing."""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.core.records import Judged
from agentrewind.core.strategy import Decision, GoOn
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.core.tree import RunTree
from agentrewind.strategies.ending import EQUAL_FAILURES, REJECTIONS, ended, report

CHOICE = (
    "Choose: repair what is there, or, if the cause lies further back and can't be repaired well from here, go back to"
    f" before it ({CANDIDATES} lists the points, {COMMIT} returns to one) and do it differently."
)


@dataclass(frozen=True, slots=True)
class Rewind:
    """As Continue, with the two tools and a neutral word about them. The agent decides; nothing is rewound here."""

    equal_failures: int = EQUAL_FAILURES
    rejections: int | None = REJECTIONS
    name = "rewind"
    offers_rewind = True

    def decide(self, tree: RunTree, verdict: Judged) -> Decision:
        """`verdict` is the newest one of `tree`."""
        stop = ended(tree, verdict, self.equal_failures, self.rejections)
        if stop is not None:
            return stop
        return GoOn("\n\n".join(part for part in (report(verdict), _regression(tree, verdict), CHOICE) if part))


def _regression(tree: RunTree, verdict: Judged) -> str:
    """Where progress fell on the current path, in one sentence; empty where it didn't."""
    if verdict.satisfied is None:
        return ""
    earlier = [node.judged for node in tree.path() if node.judged is not None and node.judged != verdict]
    comparable = [each for each in earlier if each.satisfied is not None and each.total == verdict.total]
    best = max(reversed(comparable), key=lambda each: each.satisfied or 0, default=None)
    if best is None or (best.satisfied or 0) <= verdict.satisfied:
        return ""
    was, now = (f"{each.satisfied}/{each.total}" for each in (best, verdict))
    return f"Progress fell: it was {was} after {best.after} and is {now} now."
