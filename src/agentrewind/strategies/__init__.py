"""What follows a rejected submission. Pure: a strategy sees an immutable tree and returns a `Decision`."""

from __future__ import annotations

from dataclasses import replace

from agentrewind.core.errors import UsageError
from agentrewind.core.strategy import Strategy
from agentrewind.strategies.continue_ import Continue
from agentrewind.strategies.ending import EQUAL_FAILURES, REJECTIONS
from agentrewind.strategies.restart import BeginAgain, Restart
from agentrewind.strategies.review import Review
from agentrewind.strategies.rewind import Rewind
from agentrewind.strategies.rewind_rules import RewindRules

__all__ = ["NAMES", "Continue", "Restart", "Review", "Rewind", "by_name", "in_force"]

_KINDS: dict[str, type[Continue | Restart | Rewind]] = {
    "continue": Continue,
    "restart": Restart,
    "review": Review,
    "rewind": Rewind,
}

NAMES = tuple(sorted(_KINDS))


def by_name(name: str, *, equal_failures: int = EQUAL_FAILURES, rejections: int | None = REJECTIONS) -> Strategy:
    """The strategy called `name`.

    Raises:
        UsageError: there is none; the text names those that there are.
    """
    try:
        kind = _KINDS[name]
    except KeyError:
        raise UsageError(f"There is no strategy {name!r}. Known: {', '.join(NAMES)}.") from None
    return kind(equal_failures=equal_failures, rejections=rejections)


def in_force(strategy: Strategy, rules: RewindRules, *, equal_failures: int = EQUAL_FAILURES) -> RewindRules:
    """The rules of a run with this strategy: `restart` goes back to the beginning unasked."""
    if not isinstance(strategy, Restart):
        return rules
    return replace(rules, triggers=(BeginAgain(equal_failures), *rules.triggers))
