"""The services of a project: read from its settings once, when a run begins, and run where its commands do.

The settings file lies in the workspace, so an agent of an earlier run may have written it. Nothing is lost by that:
a service has no more power than any command of the agent, and where commands run is never read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agentrewind.compose.confining import Confined
from agentrewind.compose.secret import SETTINGS_FILE
from agentrewind.core.errors import UsageError
from agentrewind.core.settings import tables_of
from agentrewind.engine.services import Beside, Host, Service, Services
from agentrewind.integrations.sandbox import commands_of

_KNOWN: dict[str, tuple[type, ...]] = {"start": (str,), "ready": (str,), "within": (int, float)}


def services_of(workspace: Path) -> tuple[Service, ...]:
    """What `[services]` in the settings of a workspace declares.

    Raises:
        UsageError: it can't be read as settings, with the key that is wrong.
    """
    path = workspace / SETTINGS_FILE
    table = tables_of(path)
    if "sandbox" in table:
        raise UsageError(
            f"{path}: [sandbox] doesn't belong here, as the agent may write this file; say it with --sandbox and the"
            " options beside it."
        )
    services = table.get("services", {})
    if not isinstance(services, dict):
        raise UsageError(f"{path}: [services] must be a table with a table for each service")
    return tuple(_service(path, name, entry) for name, entry in services.items())


def _service(path: Path, name: str, entry: object) -> Service:
    where = f"{path}: services.{name}"
    if not isinstance(entry, dict):
        raise UsageError(f"{where} must be a table, with `start` and possibly `ready` and `within`")
    for key, value in entry.items():
        if key not in _KNOWN:
            raise UsageError(f"{where} has no setting {key!r}; it has {', '.join(sorted(_KNOWN))}")
        if not isinstance(value, _KNOWN[key]) or isinstance(value, bool):
            raise UsageError(f"{where}.{key} must be {'a number of seconds' if key == 'within' else 'a command'}")
    start, ready, within = entry.get("start", ""), entry.get("ready", ""), float(entry.get("within", 30))
    if not start.strip():
        raise UsageError(f"{where} needs `start`, the command that runs it")
    if not 0 < within <= 3600:  # noqa: PLR2004 (an hour)
        raise UsageError(f"{where}.within must be a number of seconds, up to an hour")
    return Service(name, start, ready.strip(), within)


def services_in(
    declared: tuple[Service, ...],
    within: Confined,
    workspace: Path,
    environ: Mapping[str, str],
    said: Callable[[str], None],
) -> Services:
    """The services of a run, none of them started yet."""
    host, commands = _host(within, workspace, environ), commands_of(within.sandbox)
    return Services(declared, host, commands, workspace, environ, said=said)


def _host(within: Confined, workspace: Path, environ: Mapping[str, str]) -> Host:
    sandbox = within.sandbox
    if sandbox is None:
        return Beside(workspace, environ)
    from agentrewind.integrations.sandbox.session import SessionHost

    return SessionHost(sandbox, within.pids[-1] if within.pids else 0, workspace, environ)


def fits(declared: tuple[Service, ...], kind: str) -> None:
    """Raises: UsageError: services can't run in a sandbox of this kind."""
    if declared and kind not in ("none", "session"):
        names = ", ".join(service.name for service in declared)
        raise UsageError(
            f"The project declares services ({names}), and with --sandbox {kind} nothing outlives its command; use"
            " --sandbox session."
        )
