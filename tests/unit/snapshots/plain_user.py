"""Running a piece of a test as a user without privileges."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401  # loaded while we may still read it
import pytest

NOBODY = 65534


@contextmanager
def place_for_all() -> Iterator[Path]:
    """A directory that belongs to the plain user (to us, where we are one)."""
    path = Path(tempfile.mkdtemp(prefix="agentrewind-plain-"))
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    try:
        yield path
    finally:
        for parent, below, _ in os.walk(path):
            for name in below:
                if not (Path(parent) / name).is_symlink():
                    (Path(parent) / name).chmod(0o700)
        shutil.rmtree(path)


def as_plain_user(act: Callable[[], None]) -> None:
    """Run `act` in a child without privileges; its failure is ours."""
    if os.geteuid() != 0:
        act()
        return
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            act()
            code = 0
        except BaseException:  # noqa: BLE001  # the parent raises it
            os.write(writing, traceback.format_exc().encode()[-60_000:])
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        pytest.fail(text)
