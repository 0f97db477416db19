"""Review: as Continue; besides, each call is put to a guard before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.strategies.continue_ import Continue


@dataclass(frozen=True, slots=True)
class Review(Continue):
    """What follows a rejection is what follows it in Continue. The guard is the session's, not this one's."""

    name = "review"
