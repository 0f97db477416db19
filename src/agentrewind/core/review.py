"""The review of tool calls before they run: what a guard is shown, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.effects import Effect

RECENT = 8
"""How many of the latest messages a guard sees."""
HELD_BACK = (
    "Not run: a safety review held this call back ({reason}). Nothing was changed. Find another way, or do without it."
)


@dataclass(frozen=True, slots=True)
class Proposed:
    """A tool call that is about to run. `recent` are the latest messages of its conversation, newest last."""

    task: str
    recent: tuple[Message, ...]
    tool: str
    arguments: Json
    effects: tuple[Effect, ...] = ()
    """What the call will do, as a program reads it."""

    @property
    def only_reads(self) -> bool:
        """Whether it provably changes nothing."""
        return bool(self.effects) and all(effect.kind == "read" for effect in self.effects)

    @property
    def stays_inside(self) -> bool:
        """Whether all that is known of it stays in the workspace, and nothing was left for a sandbox to prevent."""
        return all(effect.kind in ("read", "workspace") and effect.source != "sandbox" for effect in self.effects)


@dataclass(frozen=True, slots=True)
class Review:
    """What a guard says. `failed`: it could not say anything, which holds a call back like an unsafe one."""

    safe: bool
    reason: str
    failed: bool = False


class Guard(Protocol):
    """Judges calls one by one."""

    @property
    def name(self) -> str: ...

    def review(self, proposed: Proposed) -> Review:
        """Never raises: whatever goes wrong is a review that failed."""
