"""Access that we give ourselves to what is our own, for as long as a restore needs it."""

from __future__ import annotations

import contextlib
import os
import stat

from agentrewind.snapshots.beneath import HANDLE, handle_path, opened

OWNER_ALL = 0o700


def loosen(root: int, path: str, *, write: bool = True) -> int | None:
    """Give ourselves all access to something that we own; its mode before, None if that changes nothing."""
    with opened(root, path, HANDLE) as fd:
        st = os.fstat(fd)
        mode = stat.S_IMODE(st.st_mode)
        needed = OWNER_ALL if stat.S_ISDIR(st.st_mode) else stat.S_IRUSR | (stat.S_IWUSR if write else 0)
        if st.st_uid != os.geteuid() or mode & needed == needed or stat.S_ISLNK(st.st_mode):
            return None
        os.chmod(handle_path(fd), mode | needed)
        return mode


def set_mode(root: int, path: str, mode: int) -> None:
    """Give a mode back, where the path still can be reached."""
    with contextlib.suppress(OSError), opened(root, path, HANDLE) as fd:
        os.chmod(handle_path(fd), mode)


def set_modes(root: int, modes: dict[str, int]) -> None:
    """`set_mode` of each, the deepest first."""
    for path in sorted(modes, key=lambda path: -path.count("/")):
        set_mode(root, path, modes[path])
