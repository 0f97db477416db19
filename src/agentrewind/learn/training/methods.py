"""The training methods that are compared: how each plays, how many trials it gets, and how its decisions are credited
(retrospective.md, section 5). All sample the same number of attempts a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentrewind.core.errors import UsageError
from agentrewind.learn.credit.baselines import lamer
from agentrewind.learn.credit.named import CREDITS
from agentrewind.learn.credit.samples import DecisionSample, output_tokens
from agentrewind.learn.methods import METHODS as PLAYED
from agentrewind.learn.methods import RETROSPECTIVE, Method
from agentrewind.learn.rules import Rules, protocol
from agentrewind.learn.trial import Trial

Credit = Callable[[Sequence[Trial]], list[DecisionSample]]
ATTEMPTS = 3
"""Of a trial that goes back after a failure."""
ACROSS = {"sokoban": 0.9}
"""LaMer's discount between attempts; 0.6 elsewhere (retrospective.md, section 6)."""


@dataclass(frozen=True, slots=True)
class Training:
    name: str
    credit: Credit
    attempts: int = ATTEMPTS
    asks: bool = True
    """Whether the policy itself may ask for a way back."""
    play: Method = RETROSPECTIVE

    def rules(self, rules: Rules) -> Rules:
        """The rules of its trials."""
        limited = protocol(f"T@{self.attempts}", rules)
        return limited if self.asks else replace(limited, proactive=0)

    def trials(self, attempts: int) -> int:
        """How many trials of a task make so many attempts.

        Raises:
            UsageError: no number of them does.
        """
        if attempts < 1 or attempts % self.attempts:
            raise UsageError(f"{attempts} attempts a task can't be parted into trials of {self.attempts}.")
        return attempts // self.attempts


def _named(name: str) -> Credit:
    """As `learn export --credit NAME`, with the tokens of outputs for lengths."""
    return lambda trials: CREDITS[name](trials, output_tokens)


def _lamer(trials: Sequence[Trial]) -> list[DecisionSample]:
    return lamer(trials, across=ACROSS.get(trials[0].environment, 0.6))


def _executions_alone(trials: Sequence[Trial]) -> list[DecisionSample]:
    """Where nobody reads what a reflection says, it is worth nothing."""
    return [sample for sample in _named("sa-grpo")(trials) if sample.kind == "execution"]


METHODS = {
    method.name: method
    for method in (
        Training("grpo", _named("grpo"), attempts=1, asks=False),
        Training("rloo", _named("rloo"), attempts=1, asks=False),
        Training("gigpo", _named("gigpo"), attempts=1, asks=False),
        Training("beacon", _named("beacon"), attempts=1, asks=False),
        Training("lamer", _lamer, asks=False, play=PLAYED["reflexion"]),
        Training("retrail", _named("sa-grpo")),
        Training("retrail-never-asks", _named("sa-grpo"), asks=False),
        Training("retrail-raw-suffix", _executions_alone, play=PLAYED["raw-suffix"]),
        Training("retrail-progress", _named("sa-grpo-progress")),
        Training("retrail-gigpo", _named("sa-grpo-gigpo")),
        Training("retrail-boundary", _named("sa-grpo-boundary")),
    )
}


def training_of(name: str) -> Training:
    """Raises: UsageError: there is no such method."""
    if name not in METHODS:
        raise UsageError(f"{name!r} is no training method; there are {', '.join(METHODS)}.")
    return METHODS[name]
