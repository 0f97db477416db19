"""What a tool call did that a restore can't undo (rewind.md, section 8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

EffectClass = Literal["read", "workspace", "outside", "external", "unknown"]
Mode = Literal["record", "annotate", "confirm", "block"]
"""What is done about a call with effects that survive: it is written down; the agent is told before it runs; a person
is asked; it isn't run.
"""
Source = Literal["annotation", "rule", "tool", "command", "code", "sandbox"]
"""Who said so: the tool's own annotation, a rule of the user, the tool's name and arguments, the parse of a shell
command, that of other code, the sandbox.
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """`kind` is its class; `what` says it in words for the agent and for a person."""

    kind: EffectClass
    what: str
    reads: bool = False
    """external: it asks and changes nothing there, so that nothing stands afterwards."""
    source: Source = "command"
    call: str = ""
    """The id of the tool call that it belongs to, as the model gave it."""
    undo: str = ""
    """The compensation that is registered for it: a shell command, or the name of a function."""
    by_program: bool = False
    """`undo` is a function of the agent's own program, which only that can call."""

    @property
    def survives(self) -> bool:
        """Whether a restore of the workspace leaves it standing."""
        return self.kind in ("outside", "external") and not self.reads

    @property
    def may_survive(self) -> bool:
        """Whether nobody can say."""
        return self.kind == "unknown"


def weight(effect: Effect) -> int:
    """How much a restore leaves standing, from nothing (0) on."""
    if effect.kind == "external":
        return 3 if effect.reads else 5
    return {"read": 0, "workspace": 1, "unknown": 2, "outside": 4}[effect.kind]


def overall(effects: Iterable[Effect]) -> EffectClass:
    """The class of a call with these effects: that of the weightiest; `read` where there is none."""
    heaviest = max(effects, key=weight, default=None)
    return heaviest.kind if heaviest else "read"


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a tool says of itself: MCP's hints, or its class by name. None: it doesn't say."""

    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    kind: EffectClass | None = None
    undo: str = ""
    """The function of its own program that takes a call back, by name."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the sandbox lets the agent's commands reach; without one, everything."""

    network: bool = True
    outside: bool = True
    """Files outside of the workspace and processes of others, so that it lasts."""
