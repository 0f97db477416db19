"""Which processes stand in a workspace: it can't be swapped under them without their working on in the old one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PROC = Path("/proc")
NAMED = 5


def standing_inside(root: Path) -> list[str]:
    """`1234 (vim)` for each process whose working directory, root, program or open file lies on the device of `root`.

    Ours too, for its working directory; processes that we may not look into aren't seen.
    """
    device = os.stat(root).st_dev
    found = []
    for process in _PROC.iterdir():
        if process.name.isdigit() and _stands_on(process, device):
            with contextlib.suppress(OSError):
                found.append(f"{process.name} ({(process / 'comm').read_text().strip()})")
    return found


def _stands_on(process: Path, device: int) -> bool:
    links = [process / name for name in ("cwd", "root", "exe")]
    with contextlib.suppress(OSError):
        links += (process / "fd").iterdir()
    for link in links:
        with contextlib.suppress(OSError):
            if os.stat(link).st_dev == device:
                return True
    return False


def named(processes: list[str]) -> str:
    """The first few in words."""
    more = len(processes) - NAMED
    return ", ".join(processes[:NAMED]) + (f" and {more} more" if more > 0 else "")
