"""Temporary names in a workspace, and what becomes of what stands under them."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def temporary_name() -> str:
    return f".agentrewind-{secrets.token_hex(8)}.tmp"


@contextlib.contextmanager
def discarding(directory: int, name: str, ours: int) -> Iterator[None]:
    """On failure remove `name`, if it still is the inode that we made: after an exchange it may be a user's file."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino == ours:
                os.unlink(name, dir_fd=directory)
        raise
