"""The two tools as a program: a socket of the run that they act on, and what asks it."""

from __future__ import annotations

from agentrewind.integrations.tool_program.client import ask
from agentrewind.integrations.tool_program.server import ToolSocket

__all__ = ["ToolSocket", "ask"]
