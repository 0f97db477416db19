"""The mount calls of Linux 5.2 and later, which `os` doesn't offer: mounts are made detached and then put in place."""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_libc = ctypes.CDLL(None, use_errno=True)
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
_CLOEXEC = 1
_SET_FLAG, _SET_STRING, _CREATE = 0, 1, 6
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_CLONE = 1 | os.O_CLOEXEC
_FROM_EMPTY_PATH, _BENEATH = 0x04, 0x200
_READ_ONLY, _PRIVATE = 1, 1 << 18
_DETACH, _EXPIRE, _NOFOLLOW = 2, 4, 8
_MESSAGE = 4096


def _call(number: int, *arguments: object) -> int:
    code: int = _libc.syscall(number, *arguments)
    if code < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return code


@dataclass(frozen=True, slots=True)
class Overlay:
    """An overlay to be mounted: the lower directories from the top down, and the upper one with its work directory."""

    source: str
    lower: Sequence[Path]
    upper: Path | None = None
    work: Path | None = None
    unprivileged: bool = False

    def options(self) -> Iterator[tuple[bytes, bytes]]:
        yield b"source", os.fsencode(self.source)
        for path in self.lower:
            yield b"lowerdir+", os.fsencode(path)
        if self.upper is not None and self.work is not None:
            yield b"upperdir", os.fsencode(self.upper)
            yield b"workdir", os.fsencode(self.work)
        if not self.unprivileged:  # there it can't be asked for, and is off
            yield b"redirect_dir", b"off"
        for name in (b"index", b"metacopy", b"xino"):
            yield name, b"off"


def detached(overlay: Overlay) -> int:
    """Mount it where nobody sees it; the descriptor (`O_PATH`) is all there is of it.

    Raises:
        OSError: with what the kernel says.
    """
    context = _call(_FSOPEN, b"overlay", _CLOEXEC)
    try:
        for name, value in overlay.options():
            _call(_FSCONFIG, context, _SET_STRING, name, value, 0)
        if overlay.unprivileged:
            _call(_FSCONFIG, context, _SET_FLAG, b"userxattr", None, 0)
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _CLOEXEC, 0)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: {_message(context)}") from error
    finally:
        os.close(context)


def _message(context: int) -> str:
    with contextlib.suppress(OSError):
        return os.read(context, _MESSAGE).decode(errors="replace").strip()
    return "the kernel doesn't say why"


def attach(mount: int, to: Path, *, beneath: bool = False) -> None:
    """Put a detached mount in place; `beneath`: under the mount that is there, so that it shows once that is gone."""
    flags = _FROM_EMPTY_PATH | (_BENEATH if beneath else 0)
    _call(_MOVE_MOUNT, mount, b"", _AT_FDCWD, os.fsencode(to), flags)


def bind_read_only(source: Path, to: Path) -> None:
    """Show `source` at `to` too, not to be written there, and without what is later mounted on it. Raises: OSError."""
    mount = _call(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _CLONE)
    try:
        attributes = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, _PRIVATE, 0)
        _call(_MOUNT_SETATTR, mount, b"", _AT_EMPTY_PATH, attributes, ctypes.sizeof(attributes))
        attach(mount, to)
    finally:
        os.close(mount)


def is_busy(path: Path) -> bool:
    """Whether somebody uses the mount at `path`. Raises: OSError: it can't be told."""
    if _libc.umount2(os.fsencode(path), _EXPIRE | _NOFOLLOW) == 0:
        raise OSError(f"{path} was unmounted by somebody else's request to expire it")
    return ctypes.get_errno() != _EAGAIN


_EAGAIN = 11


def unmount(path: Path, *, even_if_busy: bool = False) -> None:
    """Take away the topmost mount at `path`. Raises: OSError."""
    if _libc.umount2(os.fsencode(path), (_DETACH if even_if_busy else 0) | _NOFOLLOW) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))


def mounted_at(path: Path) -> list[tuple[str, str]]:
    """File system type and source of each mount at exactly `path`, the topmost last."""
    wanted = os.fsencode(path)
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = line.split()
            if fields[4].replace(b"\\040", b" ") == wanted:
                at = fields.index(b"-")
                found.append((os.fsdecode(fields[at + 1]), os.fsdecode(fields[at + 2])))
    return found
