"""Another chance for a run that its failures had ended, from where it stood: the same words, and counters from 0."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentrewind.core.records import Judged
from agentrewind.core.strategy import Decision, GoOn, Strategy
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.core.tree import RunTree

AGAIN = (
    "You have submitted this work several times, and it was rejected at the same point each time. The check says:\n\n"
    "{feedback}\n\n"
    "Find out what you took for granted, or changed on the way here, that was wrong. Then go about it in another way:"
    " don't go round the same repair once more."
)
BACK = f"You can also go back to an earlier point of your work: {CANDIDATES} lists them, {COMMIT} returns to one."


@dataclass(frozen=True, slots=True)
class Recovery:
    """`inner` from a failed endpoint on. `before` is how many verdicts the run had there.

    The work is judged as it stands there; what is said of that is the same whatever follows, but that only an agent
    which can go back is told so.
    """

    inner: Strategy
    before: int

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def offers_rewind(self) -> bool:
        return self.inner.offers_rewind

    def decide(self, tree: RunTree, verdict: Judged) -> Decision:
        """`verdict` is the newest one of `tree`."""
        if len(tree.verdicts) <= self.before + 1 and not verdict.accepted:
            said = AGAIN.format(feedback=verdict.feedback)
            return GoOn(f"{said}\n\n{BACK}" if self.offers_rewind else said)
        since = tree.verdicts[self.before + 1 :] or tree.verdicts[-1:]
        return self.inner.decide(replace(tree, verdicts=since), verdict)
