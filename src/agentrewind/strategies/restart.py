"""Restart: after a rejection the whole task begins again, with what is written down about the attempts that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentrewind.core.records import MAIN_THREAD, Judged
from agentrewind.core.strategy import Decision, GoOn
from agentrewind.core.tree import Node, RunTree
from agentrewind.strategies.ending import EQUAL_FAILURES, REJECTIONS, ended, report
from agentrewind.strategies.selectors import targets
from agentrewind.strategies.triggers import Wanted

FEEDBACK = 4_000
"""How many characters of what the check said are kept."""
LOG = 6
"""How many of an attempt's last steps are kept, each in a line."""


@dataclass(frozen=True, slots=True)
class Restart:
    """The attempt is over with its rejection. `BeginAgain` makes the next one begin, before its first call."""

    equal_failures: int = EQUAL_FAILURES
    rejections: int | None = REJECTIONS
    name = "restart"
    offers_rewind = False

    def decide(self, tree: RunTree, verdict: Judged) -> Decision:
        """`verdict` is the newest one of `tree`."""
        return ended(tree, verdict, self.equal_failures, self.rejections) or GoOn(report(verdict))


@dataclass(frozen=True, slots=True)
class BeginAgain:
    """A trigger: the newest verdict on the path is a rejection. Back to the very first call; the note is what is added
    to the experiences, which only grow.
    """

    equal_failures: int = EQUAL_FAILURES
    name: str = "restart"

    def fires(self, tree: RunTree) -> Wanted | None:
        """See `Trigger`."""
        verdict = next((node.judged for node in tree.ancestors(tree.head) if node.judged is not None), None)
        first = next(iter(targets(tree, tree.main or MAIN_THREAD)), None)
        if verdict is None or verdict.accepted or first is None:
            return None
        return Wanted(first.uid, experience(tree, verdict, self.equal_failures))


def experience(tree: RunTree, verdict: Judged, equal_failures: int) -> str:
    """What is written down about an attempt that `verdict`, the newest one of `tree`, ended."""
    at = verdict.first_failure or f"exit code {verdict.exit_code}"
    return "\n".join(
        (
            f"Attempt {len(tree.verdicts)} failed at {at}.",
            f"The check said: {verdict.feedback.strip()[:FEEDBACK]}",
            *_progress(tree, verdict),
            "Its last steps:",
            *(f"- {line}" for line in _log(tree.path())),
            *_streak(tree.equal_failures(), equal_failures),
            f"Don't do again what left {at} as it is.",
            f"Deal with {at} first, before you try anything else.",
        )
    )


def _progress(tree: RunTree, verdict: Judged) -> Iterator[str]:
    if verdict.satisfied is not None and verdict.total:
        best = max((item.satisfied or 0) for item in tree.verdicts)
        yield f"In order, {verdict.satisfied} of {verdict.total} criteria were met; the best attempt so far met {best}."
    if verdict.criteria:
        count = Counter(item.outcome for item in verdict.criteria)
        yield f"{count['satisfied']} passed, {count['failed']} failed, {count['error']} could not be run."
    lost = _regressed(tree.verdicts[:-1], verdict)
    if lost:
        yield f"Met in an earlier attempt, and not in this one: {', '.join(lost)}."


def _regressed(earlier: Sequence[Judged], verdict: Judged) -> list[str]:
    met = {item.id for judged in earlier for item in judged.criteria if item.outcome == "satisfied"}
    return [item.id for item in verdict.criteria if item.outcome != "satisfied" and item.id in met]


def _log(path: Sequence[Node]) -> list[str]:
    calls = [node for node in path if node.is_llm and node.ended is not None and node.ended.calls]
    return [", ".join(node.ended.calls) for node in calls[-LOG:] if node.ended is not None]


def _streak(equal: int, limit: int) -> Iterator[str]:
    times = "once" if equal == 1 else f"{equal} times in a row"
    yield f"It has failed there {times}; after {limit - equal} more in a row no other attempt is made."
