"""Who made a move and who chose its target: the same words wherever a move is told."""

from __future__ import annotations

from agentrewind.core.records import Rewound
from agentrewind.ui.text import printable


def told_by(move: Rewound) -> str:
    """To follow the target; empty where the agent went where it asked to go."""
    by = {"agent": "", "person": ", by a person"}.get(move.by, f", by {printable(move.by)}")
    chosen = f", chosen by {printable(move.selector)} in place of {move.asked}" if move.asked else ""
    return by + chosen
