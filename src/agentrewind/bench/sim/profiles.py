"""The knobs of the simulated model, and the sets of them that come with the package."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from agentrewind.core.codec import digest, to_plain
from agentrewind.core.errors import UsageError

DEFAULT = "plain"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a simulated model is like. All but `notice_delay` are probabilities or factors between 0 and 1."""

    name: str
    says: str
    error_rate: float
    """By what the probabilities of a task's errors are multiplied."""
    format_errors: float
    """For each step: that the call is malformed the first time."""
    premature: float
    """For each step but the first: that the work is submitted before it."""
    repair_skill: float
    """That an attempt to repair the right step is the right one, and that a call that was held back is thought over."""
    rewind_inclination: float
    """That the agent goes back after a rejection, where it can, instead of repairing."""
    persistence: float
    """For each step: that it is done as before whatever the notes say, unless a lesson stands against it; else each
    set of notes is another draw."""
    attribution: float
    """That the step which is to blame for a rejection is known. Else any that was done is blamed, each as likely."""
    notice_delay: int
    """How many rejections at the same criterion have to be seen before going back is thought of."""
    memory_right: float
    """That a note holds the lesson, where the blame was right."""
    memory_wrong: float
    """That a note holds another lesson instead. What is left is vague: it holds none."""
    guard_true_positive: float
    """That the guard holds back a call that destroys something or comes too early."""
    guard_false_positive: float
    """That it holds back any other."""

    @property
    def digest(self) -> str:
        """Names the numbers: equal for equal ones."""
        return digest({key: value for key, value in to_plain(self).items() if key not in {"name", "says"}})[7:19]


@cache
def profiles() -> Mapping[str, Profile]:
    """Those that come with the package, by name."""
    text = resources.files("agentrewind.bench.sim").joinpath("profiles.toml").read_text("utf-8")
    return {name: Profile(name, **knobs) for name, knobs in tomllib.loads(text).items()}


def profile_named(text: str) -> Profile:
    """The profile of that name, with the knobs that the text sets after it: `plain`, or `plain,attribution=0.3`.

    Raises:
        UsageError: no such profile or knob, or a number that it can't have.
    """
    name, *changes = text.split(",")
    found = profiles().get(name.strip())
    if found is None:
        raise UsageError(f"There is no profile {name!r}. Known: {', '.join(profiles())}.")
    for change in changes:
        knob, _, number = (part.strip() for part in change.partition("="))
        found = _with(found, knob, _number(knob, number))
    return found if not changes else dataclasses.replace(found, name=text)


def _with(profile: Profile, knob: str, value: float) -> Profile:
    changed: dict[str, Any] = {knob: value}
    return dataclasses.replace(profile, **changed)


def _number(knob: str, number: str) -> float | int:
    knobs = [item.name for item in dataclasses.fields(Profile)][2:]
    if knob not in knobs:
        raise UsageError(f"There is no knob {knob!r}. Known: {', '.join(knobs)}.")
    try:
        value = int(number) if knob == "notice_delay" else float(number)
    except ValueError:
        raise UsageError(f"The knob {knob} needs a number, not {number!r}.") from None
    if not (value >= 0 if knob == "notice_delay" else 0 <= value <= 1):
        raise UsageError(f"The knob {knob} can't be {number}.")
    return value
