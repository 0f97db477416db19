"""What a tool call did that a restore can't undo (rewind.md, section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EffectClass = Literal["read", "workspace", "outside", "external", "unknown"]


@dataclass(frozen=True, slots=True)
class Effect:
    """`kind` is its class; `what` says it in words for the agent and for a person."""

    kind: EffectClass
    what: str

    @property
    def survives(self) -> bool:
        """Whether a restore of the workspace leaves it standing."""
        return self.kind in ("outside", "external")
