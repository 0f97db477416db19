"""What follows a rejected submission. Pure: a strategy sees an immutable tree and returns a `Decision`."""

from __future__ import annotations

from agentrewind.core.errors import UsageError
from agentrewind.core.strategy import Strategy
from agentrewind.strategies.continue_ import Continue
from agentrewind.strategies.ending import EQUAL_FAILURES, REJECTIONS
from agentrewind.strategies.rewind import Rewind

__all__ = ["NAMES", "Continue", "Rewind", "by_name"]

_KINDS: dict[str, type[Continue | Rewind]] = {"continue": Continue, "rewind": Rewind}

NAMES = tuple(sorted(_KINDS))


def by_name(name: str, *, equal_failures: int = EQUAL_FAILURES, rejections: int = REJECTIONS) -> Strategy:
    """The strategy called `name`.

    Raises:
        UsageError: there is none; the text names those that there are.
    """
    try:
        kind = _KINDS[name]
    except KeyError:
        raise UsageError(f"There is no strategy {name!r}. Known: {', '.join(NAMES)}.") from None
    return kind(equal_failures=equal_failures, rejections=rejections)
