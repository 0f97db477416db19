"""Whether some bytes are anywhere in a directory: files, git objects, archives, free pages, names, times, links."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import lzma
import os
import re
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentrewind.tasks.fingerprint import walk
from agentrewind.tasks.rooms import environ

_LOOSE = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{38}$")
_DEEPEST = 3
_LARGEST = 256 << 20
_BAD = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


def found(root: Path, needles: Iterable[bytes]) -> dict[bytes, str]:
    """Those of the needles that are somewhere below `root`, each with the first place where it is."""
    left, places = set(needles), dict[bytes, str]()
    for place, data in streams(root):
        for needle in [needle for needle in left if needle in data]:
            places[needle] = place
            left.remove(needle)
        if not left:
            break
    return places


def streams(root: Path) -> Iterator[tuple[str, bytes]]:
    """All bytes that somebody could find there: each file, what is packed in it, what paths, times and links say."""
    names, times, linked = [], set[str](), dict[tuple[int, int], list[bytes]]()
    for path in walk(root):
        name, status = str(path.relative_to(root)), path.lstat()
        names.append(os.fsencode(name))
        moment = dt.datetime.fromtimestamp(status.st_mtime, dt.UTC)
        times |= {str(int(status.st_mtime)), str(status.st_mtime_ns), f"{moment:%Y-%m-%d %H:%M:%S}"}
        if path.is_symlink():
            names.append(os.fsencode(os.readlink(path)))
        elif path.is_file():
            linked.setdefault((status.st_dev, status.st_ino), []).append(names[-1])
            data = path.read_bytes()
            yield name, data
            yield from _unpacked(name, data, _DEEPEST)
            if name.endswith(".pack"):
                yield from _packed_objects(path)
    yield "the names", b"\n".join(names)
    yield "the times", "\n".join(sorted(times)).encode()
    yield "the links", b"\n".join(b" = ".join(group) for group in linked.values() if len(group) > 1)


def _unpacked(name: str, data: bytes, depth: int) -> Iterator[tuple[str, bytes]]:
    """What is inside of compressed data and archives, and inside of that."""
    if depth == 0:
        return
    for inner, content in _members(name, data):
        yield f"{name} > {inner}", content
        yield from _unpacked(f"{name} > {inner}", content, depth - 1)


def _members(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        if _LOOSE.search(name):
            yield "object", zlib.decompress(data)
        elif data.startswith(b"\x1f\x8b"):
            yield "gzip", gzip.decompress(data)
        elif data.startswith(b"BZh"):
            yield "bzip2", bz2.decompress(data)
        elif data.startswith(b"\xfd7zXZ"):
            yield "xz", lzma.decompress(data)
        elif data.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                yield from ((item.filename, archive.read(item)) for item in archive.infolist())
        elif data[257:262] == b"ustar":
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                for member in archive:
                    file = archive.extractfile(member)
                    if file is not None:
                        yield member.name, file.read(_LARGEST)
    except _BAD:  # damaged, or not what it looks like: its raw bytes are searched anyway
        return


def _packed_objects(pack: Path) -> Iterator[tuple[str, bytes]]:
    """All objects of the repository that a pack belongs to, of this pack and of the others."""
    repository = pack.parent.parent.parent
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "--git-dir",
        str(repository),
        "cat-file",
        "--batch-all-objects",
        "--batch",
    ]
    try:
        done = subprocess.run(command, env=environ(), capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return
    yield f"the objects of {repository.name}", done.stdout
