"""What can confine the commands of an agent."""

from __future__ import annotations

from collections.abc import Iterator

from agentrewind.compose.doctor.finding import Finding
from agentrewind.integrations.sandbox import cgroups, probe

GROUP = "Sandbox"

UNCONFINED = (
    "`agentrewind run` runs an agent's commands as you: they can change whatever you can, and what lies outside of the"
    " workspace is neither saved nor brought back"
)


def findings() -> Iterator[Finding]:
    """The ways to confine, the best first."""
    found = probe.bubblewrap()
    engines = {name: probe.engine(name) for name in ("docker", "podman")}
    if found.works:
        yield Finding(GROUP, "bubblewrap", "works", f"{found.what}: a sandbox was made with it")
    else:
        yield Finding(GROUP, "bubblewrap", "wrong", found.what, UNCONFINED, found.remedy)
    yield _filter()
    yield _groups()
    for name, engine in engines.items():
        lost = "" if engine.works else f"--sandbox {name}"
        remedy = "" if engine.works or found.works else engine.remedy
        yield Finding(GROUP, name, "works" if engine.works else "less", engine.what, lost, remedy)


def _filter() -> Finding:
    found = probe.filtered()
    if found.works:
        return Finding(GROUP, "system calls", "works", found.what)
    lost = (
        "namespaces alone confine: sockets to a hypervisor, keyrings and set-uid files in the workspace stay possible"
    )
    return Finding(GROUP, "system calls", "less", found.what, lost)


def _groups() -> Finding:
    places = cgroups.places()
    controllers = sorted({name for place in places for name in place.controllers})
    if {"memory", "pids"} <= set(controllers):
        return Finding(GROUP, "control groups", "works", f"memory and processes can be limited ({len(places)} places)")
    what = f"only {', '.join(controllers)} can be limited" if controllers else "none can be made by this user"
    return Finding(
        GROUP,
        "control groups",
        "less",
        what,
        "--sandbox-memory limits nothing; the number of processes is limited by the user's own limit only",
        "Start it with `systemd-run --user --scope -p Delegate=yes agentrewind …`, or as root.",
    )
