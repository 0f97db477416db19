"""Where a path of a command lies, seen from the workspace."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

DYNAMIC = "\0"
"""Stands in a word for the part that is only known when the command runs."""

Where = Literal["workspace", "outside", "nothing", "network", "unknown"]

_STREAMS = frozenset(
    {"/dev/null", "/dev/zero", "/dev/full", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/random"}
)
_GLOB = "*?[{"
LONGEST_SCRIPT = 256 << 10


@dataclass(frozen=True, slots=True)
class Place:
    """The workspace and the home directory, as real paths."""

    workspace: str
    home: str

    @classmethod
    def of(cls, workspace: str, home: str) -> Place:
        return cls(os.path.realpath(workspace), os.path.realpath(home))

    def absolute(self, path: str, cwd: str | None) -> str | None:
        """The path from the root on, links not followed; None where that can't be said."""
        path = self._at_home(path)
        if path.startswith(DYNAMIC):
            return None
        if not path.startswith("/"):
            if cwd is None:
                return None
            path = f"{cwd}/{path}"
        return os.path.normpath(path)

    def where(self, path: str, cwd: str | None) -> Where:
        """Where what is written to `path` lands; of one with unknown parts or wildcards, the known directory counts."""
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            return "network"
        if path in _STREAMS or path.startswith(("/dev/fd/", "/proc/self/fd/")) or path in ("", "-"):
            return "nothing"
        known = self.absolute(_known_part(path), cwd)
        if known is None or (path.startswith(DYNAMIC) and cwd is not None):
            return "unknown"
        return "workspace" if self.holds(known) else "outside"

    def holds(self, absolute: str) -> bool:
        """Whether an absolute path leads into the workspace, links followed."""
        try:
            real = os.path.realpath(absolute)
        except (OSError, ValueError):
            return False
        return real == self.workspace or real.startswith(self.workspace.rstrip("/") + "/")

    def read(self, path: str, cwd: str | None) -> str | None:
        """The text of a file in the workspace; None where there is none that could be read as text."""
        absolute = self.absolute(path, cwd)
        if absolute is None or DYNAMIC in absolute or not self.holds(absolute):
            return None
        try:
            if not os.path.isfile(absolute) or os.path.getsize(absolute) > LONGEST_SCRIPT:
                return None
            with open(absolute, "rb") as file:
                data = file.read(LONGEST_SCRIPT)
            return None if b"\0" in data else data.decode("utf-8")
        except (OSError, ValueError):
            return None

    def _at_home(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            return self.home + path[1:]
        return os.path.dirname(self.home) + "/" + path[1:] if path.startswith("~") else path


def _known_part(path: str) -> str:
    """`path` up to the directory before its first unknown part or wildcard."""
    ends = [path.find(sign) for sign in (DYNAMIC, *_GLOB) if sign in path]
    if not ends:
        return path
    head, slash, _ = path[: min(ends)].rpartition("/")
    return (head or "/") if slash else "."
