"""What may follow a rejected submission, as values. A strategy sees an immutable tree and returns one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentrewind.core.records import Judged
from agentrewind.core.tree import RunTree


@dataclass(frozen=True, slots=True)
class GoOn:
    """Tell the agent this and let it continue."""

    message: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run."""

    ok: bool
    reason: str


Decision = GoOn | Stop


class Strategy(Protocol):
    """Pure: equal trees and verdicts give equal decisions."""

    @property
    def name(self) -> str: ...

    @property
    def offers_rewind(self) -> bool:
        """Whether the agent is given the two tools."""

    def decide(self, tree: RunTree, verdict: Judged) -> Decision: ...
