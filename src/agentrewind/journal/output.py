"""Files for others: each appears whole or not at all, and replaces something only where that was asked for."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from agentrewind.core import crashpoints
from agentrewind.core.errors import NO_ROOM, StorageFull, UsageError
from agentrewind.journal.files import sync_directory

ASIDE = crashpoints.named("export.older one moved aside")


@contextmanager
def new_file(to: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file that stands at `to`, durable and readable by its owner only, when the block is left without an error.

    Raises:
        UsageError: something is there, and no `force`; or it can't be written. StorageFull. Nothing of it is kept.
    """
    if os.path.lexists(to) and (not force or not to.is_file()):
        raise UsageError(f"{to} is there already. Name another file, or say --force; nothing was touched.")
    part = to.with_name(f".{to.name}.{secrets.token_hex(4)}.part")
    with _said(to):
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if force:
                part.rename(to)
            else:
                os.link(part, to)  # refuses where something came to be there meanwhile
            sync_directory(to.parent)
        finally:
            with suppress(OSError):
                part.unlink()


@contextmanager
def new_directory(to: Path, ours: re.Pattern[str], *, force: bool = False) -> Iterator[Path]:
    """A directory that stands at `to` when the block, which fills it, is left without an error.

    `force` replaces one that is there, if all that is in it are files with names that are `ours`. One that was being
    replaced when the process was killed is put back first.

    Raises:
        UsageError: `to` is there and isn't empty, or can't be made. StorageFull. Nothing of it is kept.
    """
    old = to.parent / f".export.{to.name}.old"
    with _said(to):
        _settle(to, old, ours)
    _check_free(to, ours if force else None)
    with _said(to):
        to.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".export.", dir=to.parent))
        try:
            yield part
            if force and to.is_dir():
                _replace(to, part, old)
            else:
                part.rename(to)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _replace(to: Path, part: Path, old: Path) -> None:
    """Put `part` in the place of what is at `to`, which is called `old` in between, if that name is free."""
    aside = part.with_name(part.name + ".old") if os.path.lexists(old) else old
    to.rename(aside)
    crashpoints.reach(ASIDE)
    part.rename(to)
    shutil.rmtree(aside, ignore_errors=True)


def _settle(to: Path, old: Path, ours: re.Pattern[str]) -> None:
    """Finish what a killed process has left of a replacement: there is the older one, or the newer one and a rest."""
    if not old.is_dir() or _others_in(old, ours):
        return
    if os.path.lexists(to):
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.rename(to)


@contextmanager
def _said(to: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{to} is there by now; nothing was touched.") from error
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(f"No room to export into {to}: {error.strerror}. Nothing was kept.") from error
        raise UsageError(f"{to} can't be written: {error.strerror}. Nothing was kept.") from error


def _check_free(to: Path, ours: re.Pattern[str] | None) -> None:
    if not os.path.lexists(to):
        return
    try:
        names = _others_in(to, ours)
        what = "is not empty" if names and ours is None else "holds other files than exported ones" if names else ""
    except NotADirectoryError:
        what = "is a file"
    except OSError as error:
        what = f"can't be looked into ({error.strerror})"
    if what:
        raise UsageError(f"{to} {what}. Name a directory that doesn't exist yet; nothing was touched.")


def _others_in(directory: Path, ours: re.Pattern[str] | None) -> list[Path]:
    """What is in it besides files with names that are `ours`. Raises: OSError."""
    return [item for item in directory.iterdir() if ours is None or item.is_dir() or not ours.fullmatch(item.name)]
