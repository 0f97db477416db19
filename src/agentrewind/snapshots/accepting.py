"""Which directories may be a workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agentrewind.core.errors import WorkspaceRefused

if TYPE_CHECKING:
    from collections.abc import Sequence


def accepted(root: Path, store: Path, forbidden: Sequence[Path]) -> Path:
    """The real path of a directory that may be a workspace.

    Raises:
        WorkspaceRefused: with one sentence why not.
    """
    try:
        real = root.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise WorkspaceRefused(f"{root} does not exist, so it can't be a workspace.") from error
    if not real.is_dir():
        raise WorkspaceRefused(f"{root} is not a directory, so it can't be a workspace.")
    if real == Path(real.anchor):
        raise WorkspaceRefused("/ is the whole machine, so it is refused as a workspace.")
    for other in forbidden:
        if real == other.resolve() or real in other.resolve().parents:
            raise WorkspaceRefused(f"{real} is, or holds, a home directory or another that may not be a workspace.")
    place = store.resolve()
    if place == real or place in real.parents:
        raise WorkspaceRefused(f"{real} lies in the snapshot store {place}, so it can't be a workspace.")
    if real in place.parents:
        raise WorkspaceRefused(f"The snapshot store {place} lies inside the workspace {real}; it must lie outside.")
    if not os.access(real, os.R_OK | os.X_OK):
        raise WorkspaceRefused(f"{real} can't be read, so it can't be a workspace.")
    return real
