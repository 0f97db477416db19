"""What is compared: a strategy, and what differs from its usual settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from agentrewind.bench.validators import Validator, validator_named
from agentrewind.compose.agents import Keep, RunSettings, as_in_the_paper
from agentrewind.core.effects import Mode
from agentrewind.core.errors import UsageError
from agentrewind.core.memory import policy_named
from agentrewind.strategies import NAMES
from agentrewind.strategies.rewind_rules import RuleNames
from agentrewind.strategies.selectors import selector_named
from agentrewind.strategies.triggers import triggers_named

ORACLE = "oracle"
"""The selector that knows which step of a simulated policy did the harm."""
ABLATIONS = ("rewind", "rewind+keep=world", "rewind+keep=context", "rewind+memory=none")
"""All of it, and without one part each (the paper's Table 12)."""
KEYS = ("keep", "memory", "selector", "trigger", "candidates", "guard", "effects", "validator")
UNATTENDED: tuple[Mode, ...] = ("record", "annotate", "block")
"""What can be done about effects that survive where nobody sits at a terminal."""


@dataclass(frozen=True, slots=True)
class Arm:
    """`name` says all of it: `rewind`, or `rewind+memory=none+candidates=10`."""

    name: str
    strategy: str
    changes: Mapping[str, str]

    @property
    def has_oracle(self) -> bool:
        return self.changes.get("selector") == ORACLE

    @property
    def validator(self) -> Validator:
        """How verdicts reach the agent."""
        return validator_named(self.changes.get("validator", "exact"))

    def settings(self, base: RunSettings, *, paper: bool, seed: int) -> RunSettings:
        """`base` under this arm. A random selector draws by the seed of the run."""
        settings = replace(base, strategy=self.strategy, max_rewinds=50)
        if paper:
            settings = as_in_the_paper(settings)
        elif self.strategy == "restart":
            settings = replace(settings, mode="fresh")
        for key, value in self.changes.items():
            settings = _CHANGES[key](settings, value, seed)
        return settings


def arm_named(text: str) -> Arm:
    """The arm of that name.

    Raises:
        UsageError: it names none.
    """
    strategy, *parts = text.strip().split("+")
    if strategy not in NAMES:
        raise UsageError(f"There is no strategy {strategy!r}. Known: {', '.join(NAMES)}.")
    changes: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in KEYS or not equals or key in changes:
            raise UsageError(
                f"{part!r} of {text!r} says nothing: after a + stand {', '.join(KEYS)}, once each, with a =."
            )
        _check(key, value)
        changes[key] = value
    return Arm(text.strip(), strategy, changes)


def _check(key: str, value: str) -> None:
    """Raises: UsageError: the key can't have this value."""
    checks: Mapping[str, Callable[[str], object]] = {
        "memory": policy_named,
        "selector": lambda name: None if name == ORACLE else selector_named(name),
        "trigger": triggers_named,
        "keep": _kept,
        "candidates": _candidates,
        "guard": str,
        "effects": _effects,
        "validator": validator_named,
    }
    checks[key](value)


def _kept(value: str) -> Keep:
    found = next((item for item in get_args(Keep) if item == value), None)
    if found is None:
        raise UsageError(f"What a rewind keeps is one of {', '.join(get_args(Keep))}, not {value!r}.")
    kept: Keep = found
    return kept


def _effects(value: str) -> Mode:
    found = next((item for item in UNATTENDED if item == value), None)
    if found is None:
        raise UsageError(f"What is done about effects is one of {', '.join(UNATTENDED)}, not {value!r}.")
    return found


def _candidates(value: str) -> int | None:
    if value != "all" and not (value.isascii() and value.isdigit() and int(value) > 0):
        raise UsageError(f"The number of candidates is a number above 0 or `all`, not {value!r}.")
    return None if value == "all" else int(value)


def _rule(settings: RunSettings, **names: str) -> RunSettings:
    rules: RuleNames = replace(settings.rules, **names)
    return replace(settings, rules=rules)


def _selected(settings: RunSettings, value: str, seed: int) -> RunSettings:
    if value == ORACLE:
        return settings
    return _rule(settings, selector=f"random:{seed}" if value == "random" else value)


def _keeping(settings: RunSettings, value: str, _seed: int) -> RunSettings:
    """A conversation can only be kept in a process that stays."""
    keep = _kept(value)
    return replace(settings, keep=keep, mode="in place" if keep == "context" else settings.mode)


_CHANGES: Mapping[str, Callable[[RunSettings, str, int], RunSettings]] = {
    "keep": _keeping,
    "memory": lambda settings, value, _: _rule(settings, memory=value),
    "selector": _selected,
    "trigger": lambda settings, value, _: _rule(settings, trigger=value),
    "candidates": lambda settings, value, _: replace(settings, candidates=_candidates(value)),
    "guard": lambda settings, value, _: replace(settings, guard=value),
    "effects": lambda settings, value, _: replace(settings, effects=_effects(value)),
    "validator": lambda settings, _value, _: settings,  # of the judge, not of the session
}
