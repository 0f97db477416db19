"""What works on this machine, tried piece by piece: for `agentrewind doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrewind.compose.doctor import agents, hooks, sandbox, storage, worlds
from agentrewind.compose.doctor.finding import Finding
from agentrewind.compose.home import Home

__all__ = ["Finding", "examined"]


def examined(home: Home, workspace: Path, environ: Mapping[str, str]) -> list[Finding]:
    """Everything, in the order in which a person should look at it.

    Makes nothing but the home, and reaches no network.
    """
    machine = [*sandbox.findings(), *storage.findings(home, workspace)]
    return [*machine, *agents.findings(), *hooks.findings(environ), *worlds.findings()]
