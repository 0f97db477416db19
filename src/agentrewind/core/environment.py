"""A world with observations and actions, as a contract: act, save the state in no time, bring it back.

Where a workspace is saved path by path (`core.world`), an environment's whole state is one immutable value, so that a
checkpoint costs nothing. Definitions: `retrospective.md`, section 2; paper "ReTRAIL", appendix C.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from agentrewind.core.errors import AgentRewindError, UsageError

StateT = TypeVar("StateT")
ActionT = TypeVar("ActionT")

Outcome = Literal["solved", "failed"]
"""How an attempt ended. A failed state can't be acted in; a rewind leads out of it."""


class IllegalAction(UsageError):
    """An action that means nothing here (out of range, or the attempt has ended); the environment is as it was."""


class ReplayDiverged(AgentRewindError):
    """Actions that were recorded gave another observation when played again; the environment is no longer usable."""


@dataclass(frozen=True, slots=True)
class Transition:
    """What one decision did."""

    observation: str
    reward: float
    """`δ` of the decision: the sum over its primitive actions."""
    outcome: Outcome | None = None
    moved: bool = True
    """False where the state is as it was (a reveal of an open cell, a step into a wall)."""


@dataclass(frozen=True, slots=True)
class Branch(Generic[StateT]):
    """A stretch of an active path: n + 1 states, the anchor first, and the rewards of the n decisions between."""

    states: tuple[StateT, ...]
    rewards: tuple[float, ...]


class Environment(Protocol[StateT, ActionT]):
    """One instance, being acted in. Deterministic: equal states and actions give equal transitions."""

    name: str

    def reset(self) -> str:
        """Go to the initial state; returns its observation."""

    def checkpoint(self) -> StateT:
        """The present state as an immutable, hashable value, in constant time."""

    def restore(self, checkpoint: StateT) -> None:
        """Make `checkpoint` the present state.

        Raises:
            ReplayDiverged: of environments that replay, where the recorded observations didn't come again.
        """

    def fingerprint(self) -> str:
        """The identity of the state: equal exactly where the future is equal, also for what isn't observed."""

    def observe(self) -> str:
        """What the policy sees of the present state."""

    def actions(self) -> Sequence[ActionT]:
        """The decisions that would change the state, in a fixed order; none once the attempt has ended."""

    def step(self, action: ActionT) -> Transition:
        """Carry out one decision.

        Raises:
            IllegalAction: nothing was changed.
        """

    @property
    def outcome(self) -> Outcome | None:
        """None while the attempt goes on."""

    def progress(self) -> float:
        """How much of the way is done, 0 to 1. For the evaluator; a policy never sees it."""

    def endpoint_score(self, path: Branch[StateT]) -> float:
        """`S` of a segment whose retained path from the initial state is `path`."""

    def branch_score(self, branch: Branch[StateT]) -> float:
        """`V` of what was done after the anchor `branch.states[0]`."""

    @property
    def reference_length(self) -> int | None:
        """How many actions the reference solution takes from the initial state; None where there is none."""
