"""Where an agent's commands run: confined by namespaces (bubblewrap) or by a container engine, or not at all."""

from __future__ import annotations

from agentrewind.engine.commands import UNCONFINED, Commands
from agentrewind.integrations.sandbox.spec import Sandbox


def commands_of(sandbox: Sandbox | None) -> Commands:
    """What runs commands as the sandbox says; None: as the user, unconfined."""
    if sandbox is None:
        return UNCONFINED
    match sandbox.confinement.kind:
        case "none":
            return UNCONFINED
        case "bwrap":
            from agentrewind.integrations.sandbox.running import confined
        case "session":
            from agentrewind.integrations.sandbox.session import confined
        case _:
            from agentrewind.integrations.sandbox.containers import confined
    return confined(sandbox)
