"""The command line: one module a command, and the entry point."""

from __future__ import annotations

from agentrewind.cli.entry import main

__all__ = ["main"]
