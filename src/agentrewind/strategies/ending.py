"""What all strategies share: when a run is over, and how a rejection is told."""

from __future__ import annotations

from agentrewind.core.records import Judged
from agentrewind.core.strategy import Stop
from agentrewind.core.tree import RunTree

EQUAL_FAILURES = 5
"""How many equal failures in a row end a run (bench.md, section 2)."""
REJECTIONS = 25
"""How many rejections in a row without progress end a run, however much their words differ: a check whose output is
never twice the same would let it go on for ever.
"""


def ended(tree: RunTree, verdict: Judged, equal_failures: int, rejections: int | None) -> Stop | None:
    """Why the run is over after `verdict`, the newest one of `tree`; None where it isn't."""
    if verdict.accepted:
        return Stop(ok=True, reason="The check accepted the work.")
    if tree.equal_failures() >= equal_failures:
        return Stop(
            ok=False, reason=f"The check failed {equal_failures} times in a row at the same point: {_at(verdict)}"
        )
    if rejections is not None and tree.rejections() >= rejections:
        reason = f"The check rejected {rejections} submissions in a row without any progress, the last one at: "
        return Stop(ok=False, reason=reason + _at(verdict))
    return None


def _at(verdict: Judged) -> str:
    return verdict.first_failure or f"exit code {verdict.exit_code}"


def report(verdict: Judged) -> str:
    """The rejection in words for the agent."""
    return f"Your submission was checked and is not accepted yet. The check says:\n\n{verdict.feedback}"
