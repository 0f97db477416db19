"""What a sandbox is to be: values only, so that a run can record them and another process can build on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["none", "bwrap", "session", "docker", "podman"]
"""`bwrap`: a sandbox for each command. `session`: one that stays, so that servers can. `docker`, `podman`: a container
for each command. `none`: commands run as the user.
"""

HOME = "/home/agent"
"""The home directory inside: never the path of the user's own, so that nobody takes one for the other."""
USER = "agent"
TEMPORARY = "/tmp"  # noqa: S108 (the path inside)
SIDES = {"tmp": TEMPORARY, "home": HOME}
"""What of the side directory is seen where."""
REACH = "/run/agentrewind"
"""Where the run itself can be reached from inside: the socket of its two tools, and the program that asks there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the commands of a run may take. None: as much as there is."""

    memory: int | None = None
    """Bytes, of all processes of the sandboxes of one run together."""
    processes: int | None = 4096
    """Processes and threads."""
    seconds: float | None = 3600.0
    """How long a command may take for which no other time-out is set."""
    file_size: int | None = None
    """Bytes of one file."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a user asks for; a run records it."""

    kind: Kind = "none"
    network: bool = False
    readable: tuple[str, ...] = ()
    """More directories and files that commands may read."""
    environ: tuple[str, ...] = ()
    """More variables that commands may see."""
    image: str = ""
    """Of a container."""
    limits: Limits = field(default_factory=Limits)
    place: str = ""
    """Where the workspace is seen inside; empty: at its own path."""
    hidden: tuple[str, ...] = ()
    """More directories of which nothing can be read."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A confinement in a place: all that is needed to run a command in it.

    `workspace` and what is below `side` can be written, nothing else; what lies inside of `hidden` can't even be read.
    """

    confinement: Confinement
    workspace: str
    side: str
    """The directory with `files/tmp` and `files/home`, which belong to the state of the run, and `etc` and `reach`,
    which don't.
    """
    place: str = ""
    """Where the workspace is seen inside; empty: at its own path, as paths in messages and caches are then the user's.
    """
    tools: tuple[str, ...] = ()
    """Directories with programs. Found when the run began, and never again: an agent could change what is found."""
    hidden: tuple[str, ...] = ()
    cgroup: tuple[str, ...] = ()
    """Control groups that commands join, in which the limits are set."""
    read_only: bool = False
    """The workspace can be read and not written."""

    @property
    def at(self) -> str:
        """The path of the workspace inside."""
        return self.place or self.workspace

    @property
    def sides(self) -> Path:
        """The directory whose state is saved together with the workspace."""
        return Path(self.side) / "files"

    @property
    def etc(self) -> Path:
        return Path(self.side) / "etc"

    @property
    def reach(self) -> Path:
        """What is seen at `REACH`."""
        return Path(self.side) / "reach"

    def inside(self, path: Path) -> str:
        """Where a path of the workspace is seen inside."""
        try:
            below = path.relative_to(self.workspace)
        except ValueError:
            return str(path)
        return str(Path(self.at) / below)


def told(sandbox: Sandbox | None) -> str:
    """What an agent has to know of its sandbox; empty where there is none."""
    if sandbox is None or sandbox.confinement.kind == "none":
        return ""
    network = "the network can be used" if sandbox.confinement.network else "there is no network"
    stays = (
        "Programs that you start in the background stay until you end them, and stand still between your commands"
        if sandbox.confinement.kind == "session"
        else "Everything that a command started ends with it, also what was sent to the background"
    )
    seconds = sandbox.confinement.limits.seconds
    time = f" A command for which you set no time-out is ended after {seconds:.0f} seconds." if seconds else ""
    return (
        f"Your commands run in a sandbox: only {sandbox.at}, {TEMPORARY} and {HOME} can be written, and {network}."
        f" {stays}.{time}"
    )
