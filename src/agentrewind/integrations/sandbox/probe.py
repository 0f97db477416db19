"""What can confine commands on this machine: tried, not looked up."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from agentrewind.integrations.sandbox.bwrap import PROGRAM
from agentrewind.integrations.sandbox.filter import program

_TRY_S = 20.0
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_DEBIAN = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MOST = Path("/proc/sys/user/max_user_namespaces")

INSTALL = (
    "Install bubblewrap: `apt install bubblewrap` (Debian, Ubuntu), `dnf install bubblewrap` (Fedora),"
    " `pacman -S bubblewrap` (Arch)."
)
APPARMOR_REMEDY = (
    "AppArmor keeps programs from making user namespaces (the default from Ubuntu 24.04 on). Allow it for bubblewrap"
    " alone: put `abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap flags=(unconfined)"
    " { userns, include if exists <local/bwrap> }` into /etc/apparmor.d/bwrap and run"
    " `sudo apparmor_parser -r /etc/apparmor.d/bwrap`. Until then, `--sandbox docker` and `--sandbox podman` confine"
    " too, where there is such an engine."
)


@dataclass(frozen=True, slots=True)
class Found:
    """Whether something works here; where not, why, and what to do."""

    works: bool
    what: str
    remedy: str = ""


@functools.cache
def bubblewrap() -> Found:
    """Whether a sandbox of bubblewrap can be made by this user, now."""
    if not os.path.isdir("/proc/self") or platform.system() != "Linux":
        return Found(works=False, what="there is no bubblewrap but on Linux")
    path = shutil.which(PROGRAM)
    if path is None:
        return Found(works=False, what="bubblewrap isn't installed", remedy=INSTALL)
    options = ["--unshare-all", "--unshare-user", "--new-session", "--cap-drop", "ALL", "--die-with-parent"]
    view = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/proc"]
    done = _tried([path, *options, *view, "--", "/bin/sh", "-c", ":"])
    if done.returncode == 0:
        return Found(works=True, what=f"bubblewrap {'.'.join(map(str, version()))} ({path})")
    said = " ".join(done.stderr.split())[:200] or f"exit code {done.returncode}"
    return Found(works=False, what=f"bubblewrap can't make a sandbox: {said}", remedy=_remedy(said))


def _tried(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_TRY_S,
            check=False,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _remedy(said: str) -> str:
    """What to do where bubblewrap is there and doesn't work."""
    if _number(_APPARMOR) == 1:
        return APPARMOR_REMEDY
    if _number(_DEBIAN) == 0:
        return "User namespaces are switched off: `sudo sysctl kernel.unprivileged_userns_clone=1` switches them on."
    if _number(_MOST) == 0:
        return "User namespaces are switched off: `sudo sysctl user.max_user_namespaces=15000` switches them on."
    if "proc" in said.lower() or os.path.exists("/.dockerenv"):
        return (
            "This looks like a container that may not make namespaces: start it with `--security-opt seccomp=unconfined"
            " --security-opt systempaths=unconfined`, or run agentrewind outside of it. With `--sandbox none` the"
            " container itself is what confines the agent."
        )
    return "User namespaces seem to be forbidden here; `--sandbox docker` or `--sandbox podman` confine too."


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@functools.cache
def version() -> tuple[int, ...]:
    """Of bubblewrap; (0,) where it doesn't say."""
    found = re.search(r"\d+(?:\.\d+)+", _tried([PROGRAM, "--version"]).stdout)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)


def refuses_namespaces() -> bool:
    """Whether it can keep what is inside from making user namespaces (the filter does so too, where there is one)."""
    return version() >= (0, 8)


def filtered() -> Found:
    """Whether system calls are filtered on this machine."""
    machine = platform.machine()
    if program() is not None:
        return Found(works=True, what=f"system calls are filtered ({machine})")
    return Found(works=False, what=f"system calls aren't filtered: the numbers of {machine} aren't known to us")


@functools.cache
def engine(name: str) -> Found:
    """Whether `docker` or `podman` can start a container for this user."""
    path = shutil.which(name)
    if path is None:
        return Found(works=False, what=f"{name} isn't installed")
    done = _tried([path, "info", "--format", "{{.ServerVersion}}" if name == "docker" else "{{.Version.Version}}"])
    if done.returncode == 0 and done.stdout.strip():
        return Found(works=True, what=f"{name} {done.stdout.strip()} ({path})")
    said = " ".join((done.stderr or done.stdout).split())[:200]
    return Found(
        works=False, what=f"{name} is installed and doesn't work: {said}", remedy=f"Start the service of {name}."
    )
