"""What of a rewind isn't the agent's to decide, as one value: notes, target, what is noticed, what happens unasked."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrewind.core.memory import CUMULATIVE, MemoryPolicy, policy_named
from agentrewind.strategies.noticing import Noticing, noticing_named
from agentrewind.strategies.selectors import Agent, Selector, selector_named
from agentrewind.strategies.triggers import Trigger, triggers_named


@dataclass(frozen=True, slots=True)
class RewindRules:
    """In force for a whole run."""

    memory: MemoryPolicy = CUMULATIVE
    selector: Selector = field(default_factory=Agent)
    triggers: tuple[Trigger, ...] = ()
    noticing: Noticing = field(default_factory=Noticing)


@dataclass(frozen=True, slots=True)
class RuleNames:
    """The same in words, as settings and command lines have it."""

    memory: str = "cumulative"
    selector: str = "agent"
    trigger: str = "never"
    notice: str = "on"

    def rules(self) -> RewindRules:
        """Raises: UsageError: one of them names nothing."""
        return RewindRules(
            policy_named(self.memory),
            selector_named(self.selector),
            triggers_named(self.trigger),
            noticing_named(self.notice),
        )
