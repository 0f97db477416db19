"""Limits of all processes of a run together, where control groups may be made; there are two kinds of them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentrewind.integrations.sandbox.spec import Limits

_ROOT = Path("/sys/fs/cgroup")
_FILES: dict[int, dict[str, tuple[str, ...]]] = {
    1: {"memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "pids": ("pids.max",)},
    2: {"memory": ("memory.max",), "pids": ("pids.max",)},
}


@dataclass(frozen=True, slots=True)
class Place:
    """A control group of ours, below which more can be made, with the controllers that work there."""

    path: Path
    version: int
    controllers: tuple[str, ...]


def places() -> list[Place]:
    """Where control groups can be made by this user."""
    return [place for place in _own() if place.controllers and os.access(place.path, os.W_OK)]


def _own() -> Iterator[Place]:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, names, path = line.split(":", 2)
        if number == "0":
            yield from _unified(path)
            continue
        for name in names.split(","):
            if name in _FILES[1]:
                yield Place(_ROOT / name / path.lstrip("/"), 1, (name,))


def _unified(path: str) -> Iterator[Place]:
    """Below the group that we are in: a group with processes can't hand controllers on, so its parent has to."""
    for root in (_ROOT, _ROOT / "unified"):
        own = root / path.lstrip("/")
        for place in (own, own.parent):
            with contextlib.suppress(OSError):
                handed = (place / "cgroup.subtree_control").read_text().split()
                yield Place(place, 2, tuple(name for name in _FILES[2] if name in handed))
                break


def made(name: str, limits: Limits) -> tuple[str, ...]:
    """Groups of that name with these limits; those that can be made. Given back by `removed`."""
    wanted = {"memory": limits.memory, "pids": limits.processes}
    found: list[str] = []
    for place in places():
        path = place.path / f"agentrewind-{re.sub(r'[^a-z0-9-]', '_', name.lower())}"
        set_any = False
        with contextlib.suppress(OSError):
            path.mkdir(exist_ok=True)
            for controller in place.controllers:
                limit = wanted[controller]
                for file in _FILES[place.version][controller] if limit is not None else ():
                    set_any |= _set(path / file, str(limit))
            if set_any and os.access(path / "cgroup.procs", os.W_OK):
                found.append(str(path))
            else:
                path.rmdir()
    return tuple(found)


def _set(path: Path, value: str) -> bool:
    try:
        path.write_text(value)
    except OSError:
        return False
    return True


def removed(groups: Sequence[str]) -> None:
    """Remove the groups; one that still has processes stays."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)


def joining(groups: Sequence[str]) -> list[str]:
    """The words that make what follows join the groups: from its first moment, so that it can start nothing outside."""
    if not groups:
        return []
    script = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 126; shift; n=$((n-1)); done'
    return ["/bin/sh", "-c", f'{script}; exec "$@"', "join", str(len(groups)), *groups]


def out_of_memory(groups: Sequence[str]) -> bool:
    """Whether a process of these groups was ever killed because the memory was used up."""
    for group in groups:
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                text = Path(group, name).read_text()
                if re.search(r"^oom_kill [1-9]", text, re.MULTILINE):
                    return True
    return False
