"""Names opened strictly beneath a root directory, and the few Linux calls that `os` doesn't offer.

A component that is a symbolic link is never followed, so nothing here reads or writes outside the root, whatever
another process swaps in between two calls. Paths may be longer than `PATH_MAX`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_OPENAT2 = 437


def has_openat2() -> bool:
    """Whether the kernel resolves paths beneath a directory for us."""
    return _OPENAT2


_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x04, 0x08
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_FALLOC_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_SIZE = 256
_STATX_ATTRIBUTES = slice(8, 16)
_IMMUTABLE_OR_APPEND_ONLY = 0x10 | 0x20
_LONG = 3500
"""Paths above this many characters are walked in parts (`PATH_MAX` counts 4096 bytes)."""

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW_BYTES = ctypes.sizeof(_OpenHow)
_syscall = _libc.syscall


@functools.cache
def _how(flags: int) -> ctypes.Array[ctypes.c_char]:
    """What the kernel is asked to open, and not to follow; it only reads it."""
    how = _OpenHow(flags, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
    return ctypes.create_string_buffer(bytes(how), _HOW_BYTES)


def _openat2(root: int, path: str, flags: int) -> int:
    how, name = _how(flags), os.fsencode(path)
    while True:
        fd: int = _syscall(_SYS_OPENAT2, root, name, how, _HOW_BYTES)
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):  # a rename raced with the walk: the kernel asks to try again
            raise OSError(code, os.strerror(code), path)


def _probe() -> bool:
    root = os.open("/", DIRECTORY)
    try:
        os.close(_openat2(root, ".", DIRECTORY))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


_OPENAT2 = _probe()


def _step_by_step(root: int, path: str, flags: int) -> int:
    *parents, last = path.split("/")
    if ".." in (*parents, last):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    at = os.dup(root)
    try:
        for name in parents:
            below = os.open(name, HANDLE | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, flags, dir_fd=at)
    finally:
        os.close(at)


def open_beneath(root: int, path: str, flags: int = DIRECTORY) -> int:
    """Open the relative `path` below the directory `root` without following any link; `""` is the root itself.

    `flags` must contain `O_NOFOLLOW`.
    """
    if not path:
        return os.open(".", flags, dir_fd=root)
    if len(path) > _LONG:
        cut = path.rindex("/", 0, _LONG)
        upper = open_beneath(root, path[:cut], HANDLE | os.O_DIRECTORY)
        try:
            return open_beneath(upper, path[cut + 1 :], flags)
        finally:
            os.close(upper)
    return _openat2(root, path, flags) if _OPENAT2 else _step_by_step(root, path, flags)


@contextlib.contextmanager
def opened(root: int, path: str, flags: int = DIRECTORY) -> Iterator[int]:
    """`open_beneath`, closed at the end."""
    fd = open_beneath(root, path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def split(path: str) -> tuple[str, str]:
    """Parent (`""` for the root) and name."""
    parent, _, name = path.rpartition("/")
    return parent, name


def _renameat2(directory: int, old: str, new: str, flags: int) -> None:
    if _libc.renameat2(directory, os.fsencode(old), directory, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), old)


def exchange(directory: int, one: str, other: str) -> bool:
    """Swap two names in one step; False where the kernel or the file system can't."""
    try:
        _renameat2(directory, one, other, _RENAME_EXCHANGE)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            return False
        raise
    return True


def rename_to_free_name(directory: int, old: str, new: str) -> None:
    """Rename, but never over something.

    Raises:
        FileExistsError: `new` is taken; nothing was done.
    """
    try:
        _renameat2(directory, old, new, _RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            raise
        os.link(old, new, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(old, dir_fd=directory)


def punch_hole(fd: int, offset: int, length: int) -> bool:
    """Free the blocks of a range, which then reads as zeros; False where that isn't supported."""
    code: int = _libc.fallocate(fd, _FALLOC_KEEP_SIZE_PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(length))
    return code == 0


@contextlib.contextmanager
def alone(fd: int) -> Iterator[None]:
    """Have whoever opens the file wait until the end of this; where the system has no such thing, nobody waits.

    Raises:
        BlockingIOError: somebody else has it open (or mapped).
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # told when somebody waits: by a signal that nobody dies of
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        raise
    except OSError:  # a file system without leases, or a file of somebody else
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # somebody has waited for too long, and the kernel took it back
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def sync_file_system(fd: int) -> None:
    """Return once everything written to the file system of `fd` would survive a power loss."""
    if _libc.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def sync_directory(directory: Path) -> None:
    """Return once the names in it would survive a power loss."""
    fd = os.open(directory, DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_immutable(directory: int, name: str) -> bool:
    """Whether `name` carries the immutable or the append-only attribute (False where it can't be told)."""
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if _libc.statx(directory, os.fsencode(name or "."), _AT_SYMLINK_NOFOLLOW, 0, buffer) != 0:
        return False
    return bool(int.from_bytes(buffer.raw[_STATX_ATTRIBUTES], "little") & _IMMUTABLE_OR_APPEND_ONLY)


def handle_path(fd: int) -> str:
    """A name for the very inode that `fd` (perhaps `O_PATH`) stands for."""
    return f"/proc/self/fd/{fd}"
