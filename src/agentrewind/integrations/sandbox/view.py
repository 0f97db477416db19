"""What of the host is seen inside, as a list of mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentrewind.integrations.sandbox.configuration import MOUNTED, PRIVATE
from agentrewind.integrations.sandbox.spec import REACH, SIDES, Sandbox

How = Literal["read", "write", "link", "nothing"]

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_HOMES_OF_TOOLS = re.compile(
    r"\.nvm/versions/node/[^/]+|\.pyenv/versions/[^/]+|\.local/share/uv/(?:python|tools)/[^/]+|\.rustup"
    r"|\.local/share/(?:mise|rtx)/installs/[^/]+(?:/[^/]+)?|\.asdf/installs/[^/]+/[^/]+|\.volta/tools"
    r"|(?:mini|ana)conda3|miniforge3|mambaforge|\.bun|\.deno|go"
)
"""Where version managers put programs, below a home directory: nothing else lies there."""


@dataclass(frozen=True, slots=True)
class Mount:
    """`at` is the path inside. A `link` leads to `source`; `nothing` covers what would be seen there."""

    at: str
    how: How
    source: str = ""


def view(sandbox: Sandbox) -> list[Mount]:
    """The mounts, each after the ones that it lies in."""
    found = {
        mount.at: mount
        for mount in (
            *_system(),
            *_configuration(sandbox),
            *(Mount(path, "read", path) for path in _readable(sandbox)),
            *_covered(sandbox),
            *(Mount(at, "write", str(sandbox.sides / name)) for name, at in SIDES.items()),
            Mount(REACH, "read", str(sandbox.reach)),
            Mount(sandbox.at, "read" if sandbox.read_only else "write", sandbox.workspace),
        )
    }
    return sorted(found.values(), key=lambda mount: mount.at.count("/"))


def _system() -> Iterator[Mount]:
    yield Mount("/usr", "read", "/usr")
    for name in _SYSTEM:
        path = f"/{name}"
        if os.path.islink(path):
            yield Mount(path, "link", os.readlink(path))
        elif os.path.isdir(path):
            yield Mount(path, "read", path)


def _configuration(sandbox: Sandbox) -> Iterator[Mount]:
    yield Mount("/etc", "read", str(sandbox.etc))
    for name in MOUNTED:
        if os.path.isdir(f"/etc/{name}"):
            yield Mount(f"/etc/{name}", "read", f"/etc/{name}")
    for name in PRIVATE:
        if os.path.isdir(f"/etc/{name}"):
            yield Mount(f"/etc/{name}", "nothing")
    if sandbox.confinement.network and os.path.exists("/etc/resolv.conf"):
        yield Mount("/etc/resolv.conf", "read", os.path.realpath("/etc/resolv.conf"))


def _covered(sandbox: Sandbox) -> Iterator[Mount]:
    """What is hidden and lies inside of what may be read."""
    shown = ("/usr", *_readable(sandbox))
    for path in sandbox.hidden:
        if any(_inside(path, top) for top in shown):
            yield Mount(path, "nothing")


def _readable(sandbox: Sandbox) -> Iterator[str]:
    """What is in the workspace is seen with it: a place to see it at there could be moved by a command. And what lies
    in something else that is seen, and not in what is hidden, is seen with that.
    """
    wanted = (*sandbox.tools, *map(os.path.realpath, sandbox.confinement.readable))
    found = dict.fromkeys(path for path in wanted if not _inside(path, sandbox.workspace) and os.path.exists(path))
    for path in found:
        above = any(_inside(path, other) for other in found if other != path)
        if not above or any(_inside(path, covered) for covered in sandbox.hidden):
            yield path


def _inside(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def shows(sandbox: Sandbox, path: str) -> bool:
    """Whether something that exists at this path of the host is seen inside at the same path."""
    real = os.path.realpath(path)
    holders = [mount for mount in view(sandbox) if _inside(real, mount.at)]
    return bool(holders) and holders[-1].how != "nothing" and holders[-1].source == holders[-1].at


# --- programs outside of /usr -----------------------------------------------------------------------------------------


def tools_of(environ: Mapping[str, str], home: str, workspace: str) -> tuple[str, ...]:
    """The directories that programs in PATH need, beyond the system's: read-only inside.

    Of a home directory only what is known to hold programs and nothing else. Nothing that lies in the workspace has a
    say in it: an agent could have written that.
    """
    found: dict[str, None] = {}
    for entry in environ.get("PATH", "").split(os.pathsep):
        if not os.path.isabs(entry) or _inside(os.path.realpath(entry), workspace) or not os.path.isdir(entry):
            continue
        for path in _needed(os.path.realpath(entry), home):
            found[path] = None
    return tuple(path for path in found if not _inside(path, "/usr") and not _is_system(path))


def _is_system(path: str) -> bool:
    return path in ("/", "/etc", "/var", "/home", "/root", "/tmp") or path.split("/")[1] in (  # noqa: S108
        *_SYSTEM,
        "proc",
        "sys",
        "dev",
        "run",
    )


def _needed(entry: str, home: str) -> Iterator[str]:
    """For a directory with programs: itself, or all of the installation that it belongs to."""
    above = os.path.dirname(entry)
    if os.path.isfile(f"{above}/pyvenv.cfg"):
        yield above
        yield from _interpreter(above, home)
    elif _inside(entry, home):
        below = os.path.relpath(entry, home)
        known = _HOMES_OF_TOOLS.match(below)
        yield f"{home}/{known[0]}" if known else entry
    else:
        yield above if os.path.basename(entry) in ("bin", "sbin") and above.count("/") > 1 else entry


def _interpreter(venv: str, home: str) -> Iterator[str]:
    """The installation that a virtual environment's interpreter belongs to."""
    real = os.path.realpath(f"{venv}/bin/python3")
    if os.path.isfile(real):
        prefix = os.path.dirname(os.path.dirname(real))
        if not _inside(prefix, home) or _HOMES_OF_TOOLS.match(os.path.relpath(prefix, home)):
            yield prefix


def search_path(sandbox: Sandbox, environ: Mapping[str, str]) -> str:
    """PATH inside: our program first, then of the user's the entries that are seen there, and the system's."""
    readable = (*_readable(sandbox), "/usr", sandbox.workspace)
    kept: list[str] = []
    for entry in environ.get("PATH", "").split(os.pathsep):
        real = os.path.realpath(entry) if os.path.isabs(entry) else ""
        if real and any(_inside(real, top) for top in readable):
            kept.append(sandbox.inside(Path(real)))
    return os.pathsep.join(dict.fromkeys((REACH, *kept, *_default_path())))


def _default_path() -> Sequence[str]:
    return ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
