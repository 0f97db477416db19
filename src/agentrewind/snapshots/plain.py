"""Reading a file that must be a plain one of bounded size, whatever somebody put in its place; writing one whole."""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

from agentrewind.core.errors import StoreError
from agentrewind.snapshots.beneath import sync_directory

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class NotPlain(StoreError):
    """Something else than a plain file of a sane size stands there."""


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file; never waits for a pipe, never follows a link.

    Raises:
        FileNotFoundError. NotPlain: it is something else, or can't be opened.
    """
    try:
        fd = os.open(path, flags | FLAGS, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotPlain(f"{path} can't be opened as a plain file: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotPlain(f"{path} is not a plain file.")
    return fd


def read_plain(path: Path, limit: int) -> bytes:
    """All bytes of it.

    Raises:
        FileNotFoundError. NotPlain: it isn't a regular file, has more than `limit` bytes, or can't be read.
    """
    fd = open_plain(path)
    try:
        if (size := os.fstat(fd).st_size) > limit:
            raise NotPlain(f"{path} has {size:,} bytes, more than it can have.")
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read(limit)
    except OSError as error:
        raise NotPlain(f"{path} can't be read: {error.strerror}.") from error
    finally:
        os.close(fd)


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a small file so that it is there whole or as it was before; `durable` survives a power loss."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)
