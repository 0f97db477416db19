"""The side directory of a run on the host: what its commands see as `/tmp` and as the home directory."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from agentrewind.integrations.sandbox.configuration import copy_configuration
from agentrewind.integrations.sandbox.spec import HOME, SIDES, USER, Sandbox
from agentrewind.integrations.sandbox.view import view
from agentrewind.integrations.tool_program import client


def prepare(sandbox: Sandbox) -> None:
    """Make what isn't there: called before the first state of a run is saved, so that no command adds to it.

    Raises:
        OSError: it can't be made.
    """
    for directory in (Path(sandbox.side), sandbox.etc, sandbox.sides):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in SIDES:
        made = sandbox.sides / name
        if not made.is_dir():
            made.mkdir()
            made.chmod(0o1777 if name == "tmp" else 0o755)
    sandbox.etc.chmod(0o755)
    _offer_program(sandbox.reach)
    copy_configuration(sandbox.etc)
    mount_points(sandbox)
    uid, gid = os.getuid(), os.getgid()
    _write(
        sandbox, "passwd", f"{USER}:x:{uid}:{gid}::{HOME}:/bin/sh\n" + ("" if uid == 0 else "root:x:0:0::/:/bin/sh\n")
    )
    _write(sandbox, "group", f"{USER}:x:{gid}:\n" + ("" if gid == 0 else "root:x:0:\n"))
    _write(sandbox, "hosts", "127.0.0.1 localhost\n::1 localhost\n")
    _write(sandbox, "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    _write(sandbox, "machine-id", "0" * 31 + "1\n")


def _offer_program(reach: Path) -> None:
    """`agentrewind tool`, for commands: a program of its own, which needs nothing of what isn't seen inside."""
    reach.mkdir(mode=0o755, exist_ok=True)
    path = reach / "agentrewind"
    path.write_bytes(b"#!/usr/bin/env python3\n" + Path(client.__file__).read_bytes())
    path.chmod(0o755)


def _write(sandbox: Sandbox, name: str, text: str) -> None:
    path = sandbox.etc / name
    if not path.exists():
        path.write_text(text)


def mount_points(sandbox: Sandbox) -> None:
    """Make the places at which something is seen below `/tmp`, the home directory or `/etc`, before every command anew.

    A command may have put a link where one was, and bubblewrap, which runs outside, would follow it: what is no
    directory there is removed.

    Raises:
        OSError: one can't be made.
    """
    tops = {"/etc": sandbox.etc, **{at: sandbox.sides / name for name, at in SIDES.items()}}
    for mount in view(sandbox):
        for at, top in tops.items():
            if mount.at.startswith(f"{at}/"):
                is_file = mount.how == "read" and not os.path.isdir(mount.source)
                _make(top, mount.at[len(at) + 1 :].split("/"), is_file=is_file)


def _make(top: Path, names: list[str], *, is_file: bool) -> None:
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in names[:-1] if is_file else names:
            below = _directory(fd, name)
            os.close(fd)
            fd = below
        if is_file:
            _file(fd, names[-1])
    finally:
        os.close(fd)


def _directory(fd: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=fd)
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
    except NotADirectoryError:
        os.unlink(name, dir_fd=fd)
        os.mkdir(name, dir_fd=fd)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)


def _file(fd: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            return
        os.unlink(name, dir_fd=fd)
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=fd))
