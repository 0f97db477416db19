"""AgentRewind: go back to any step of an agent run, conversation and files together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrewind.compose.declared import Call
    from agentrewind.compose.live import LiveRun, session
    from agentrewind.compose.runs import Run, open_run
    from agentrewind.compose.tools import tool
    from agentrewind.compose.workspace import Workspace
    from agentrewind.core.errors import AgentRewindError, Busy, NotRun, RewindRefused, UsageError
    from agentrewind.core.world import RestoreReport, Snapshot
    from agentrewind.snapshots.rules import PathRules

__version__ = "0.1.0"

__all__ = [
    "AgentRewindError",
    "Busy",
    "Call",
    "LiveRun",
    "NotRun",
    "PathRules",
    "RestoreReport",
    "RewindRefused",
    "Run",
    "Snapshot",
    "UsageError",
    "Workspace",
    "open_run",
    "session",
    "tool",
]

_HOMES = {
    "AgentRewindError": "core.errors",
    "Busy": "core.errors",
    "Call": "compose.declared",
    "LiveRun": "compose.live",
    "NotRun": "core.errors",
    "PathRules": "snapshots.rules",
    "RestoreReport": "core.world",
    "RewindRefused": "core.errors",
    "Run": "compose.runs",
    "Snapshot": "core.world",
    "UsageError": "core.errors",
    "Workspace": "compose.workspace",
    "open_run": "compose.runs",
    "session": "compose.live",
    "tool": "compose.tools",
}
"""Where each public name is defined: it is imported when it is first asked for."""


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'agentrewind' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"agentrewind.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
