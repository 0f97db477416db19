"""What all strategies share: when a run is over, and how a rejection is told."""

from __future__ import annotations

from agentrewind.core.records import Judged
from agentrewind.core.strategy import Stop
from agentrewind.core.tree import RunTree

EQUAL_FAILURES = 5
"""How many equal failures in a row end a run (bench.md, section 2)."""


def ended(tree: RunTree, verdict: Judged, equal_failures: int) -> Stop | None:
    """Why the run is over after `verdict`, the newest one of `tree`; None where it isn't."""
    if verdict.accepted:
        return Stop(ok=True, reason="The check accepted the work.")
    if tree.equal_failures() >= equal_failures:
        what = verdict.first_failure or f"exit code {verdict.exit_code}"
        return Stop(ok=False, reason=f"The check failed {equal_failures} times in a row at the same point: {what}")
    return None


def report(verdict: Judged) -> str:
    """The rejection in words for the agent."""
    return f"Your submission was checked and is not accepted yet. The check says:\n\n{verdict.feedback}"
