"""One digest of everything in a directory, to say that two are the same, or that nothing has touched one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def fingerprint(root: Path) -> str:
    """SHA-256 over paths, kinds, modes, times (ns), which names are one file, link texts and bytes below `root`.

    Not over owners, inode numbers and the root itself. Raises: OSError: something can't be read.
    """
    digest = hashlib.sha256()
    first_names: dict[tuple[int, int], str] = {}
    for path in walk(root):
        name = os.fsencode(path.relative_to(root))
        status = path.lstat()
        inode = (status.st_dev, status.st_ino)
        leader = first_names.setdefault(inode, os.fsdecode(name)) if stat.S_ISREG(status.st_mode) else ""
        for part in (
            name,
            f"{status.st_mode:o} {status.st_mtime_ns}".encode(),
            os.fsencode(leader),
            _content(path, status),
        ):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def walk(root: Path) -> Iterator[Path]:
    """Every path below `root`, sorted, directories before what is in them; links aren't followed."""
    for name in sorted(os.listdir(root)):
        path = root / name
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from walk(path)


def _content(path: Path, status: os.stat_result) -> bytes:
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(os.readlink(path))
    if not stat.S_ISREG(status.st_mode):
        return b""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
