"""Where everything is kept, and how changes are found there."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentrewind.compose.doctor.finding import Finding
from agentrewind.compose.home import HOME_VARIABLE, Home
from agentrewind.core.errors import UsageError
from agentrewind.snapshots.backends.probe import probe
from agentrewind.snapshots.beneath import DIRECTORY, has_openat2
from agentrewind.snapshots.watch import refusal

GROUP = "Storage"

_LITTLE, _LESS = 200 << 20, 2 << 30
_WATCHES = 65_536
_INSTANCES = 32


def findings(home: Home, workspace: Path) -> Iterator[Finding]:
    """The home of agentrewind first, then what the workspace and this kernel allow."""
    yield _kept(home)
    yield _room(home)
    yield _watching(workspace)
    yield _limit("watches", "max_user_watches", _WATCHES, "directories")
    yield _limit("watching runs", "max_user_instances", _INSTANCES, "runs and editors together")
    yield _leases(home)
    yield _openat2()
    yield from _backends(home, workspace)


def _kept(home: Home) -> Finding:
    try:
        home.made()
    except UsageError as error:
        return Finding(GROUP, "home", "wrong", str(error), "nothing can be recorded", f"Set {HOME_VARIABLE}.")
    mode, owner = home.root.stat().st_mode & 0o777, home.root.stat().st_uid
    if not os.access(home.root, os.R_OK | os.W_OK | os.X_OK):
        return Finding(GROUP, "home", "wrong", f"{home.root} can't be written by you", "nothing can be recorded")
    if mode & 0o077 or owner != os.geteuid():
        return Finding(
            GROUP,
            "home",
            "wrong",
            f"{home.root} is open to others (mode {mode:o}, owner {owner})",
            "other users of this machine may read conversations and files, or change them",
            f"`chmod 700 {home.root}`" + ("" if owner == os.geteuid() else f" and `chown {os.geteuid()} {home.root}`"),
        )
    return Finding(GROUP, "home", "works", f"{home.root}, readable by you alone")


def _room(home: Home) -> Finding:
    free = shutil.disk_usage(_there(home.root)).free
    what = f"{free / 1e9:.1f} GB free below {home.root}"
    if free >= _LESS:
        return Finding(GROUP, "room", "works", what)
    remedy = "`agentrewind store` shows what may go; `[store] max_size` in agentrewind.toml sets a limit."
    state = "wrong" if free < _LITTLE else "less"
    return Finding(GROUP, "room", state, what, "a step that finds no room is a hole in the history", remedy)  # type: ignore[arg-type]


def _there(path: Path) -> Path:
    return next(item for item in (path, *path.parents) if item.exists())


def _watching(workspace: Path) -> Finding:
    fd = os.open(workspace, DIRECTORY)
    try:
        why = refusal(fd)
    finally:
        os.close(fd)
    if not why:
        return Finding(GROUP, "watching", "works", f"the kernel tells what changes in {workspace}")
    return Finding(GROUP, "watching", "less", why, "every step looks at every path: slower, and no less sure")


def _limit(name: str, file: str, enough: int, of: str) -> Finding:
    try:
        limit = int(Path("/proc/sys/fs/inotify", file).read_text())
    except (OSError, ValueError):
        return Finding(GROUP, name, "less", "this system doesn't say", "perhaps every step looks at every path")
    what = f"{limit:,} {of} may be watched"
    if limit >= enough:
        return Finding(GROUP, name, "works", what)
    remedy = f"`sudo sysctl fs.inotify.{file}={enough}`"
    return Finding(GROUP, name, "less", what, "beyond that, every step looks at every path", remedy)


def _leases(home: Home) -> Finding:
    """Whether the kernel says that somebody has a file open for writing."""
    name = "leases on files"
    try:
        with tempfile.NamedTemporaryFile(dir=_there(home.root)) as file:
            fcntl.fcntl(file.fileno(), fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(file.fileno(), fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        lost = "a file that is written while it is saved is noticed by its times alone"
        return Finding(GROUP, name, "less", f"not here ({error.strerror})", lost, "`sudo sysctl fs.leases-enable=1`")
    return Finding(GROUP, name, "works", "a file that somebody is writing is recognised")


def _openat2() -> Finding:
    if has_openat2():
        return Finding(GROUP, "openat2", "works", "paths are resolved beneath the workspace by the kernel")
    lost = "paths are walked component by component: slower, and no less sure"
    return Finding(GROUP, "openat2", "less", "this kernel (or sandbox) hasn't got it", lost)


def _backends(home: Home, workspace: Path) -> Iterator[Finding]:
    for found in probe(workspace, home.store_of(workspace)):
        if found.available:
            yield Finding(GROUP, f"backend {found.backend}", "works", found.cost)
        else:
            yield Finding(GROUP, f"backend {found.backend}", "less", found.why_not)
