"""For the builders of tasks: a first state that is the same, byte for byte and time for time, wherever it is built.

The standard library alone. Bytes that stand for chance come from `Stream`, dates are fixed, modes are set.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class Stream:
    """Bytes from a counter and a hash: the same for the same name, for ever and everywhere."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._count = 0
        self._rest = b""

    def take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += hashlib.sha256(self._name + b"\0" + str(self._count).encode()).digest()
            self._count += 1
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def number(self, low: int, high: int) -> int:
        """From `low` to `high`, both included; the tiny bias of the remainder doesn't matter here."""
        return low + int.from_bytes(self.take(8), "big") % (high - low + 1)

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.number(0, len(items) - 1)]

    def word(self, size: int) -> str:
        """Hexadecimal digits."""
        return self.take((size + 1) // 2).hex()[:size]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        rest = list(items)
        return [rest.pop(self.number(0, len(rest) - 1)) for _ in items]


@dataclass
class Site:
    """The directory in which a first state is made."""

    root: Path
    date: int
    """Seconds since 1970 that paths have as their time, unless they are given their own."""
    _times: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, date: int) -> Site:
        """In the directory that the first argument of the program names."""
        root = Path(sys.argv[1])
        root.mkdir(parents=True, exist_ok=True)
        return cls(root, date)

    def file(self, path: str, content: str | bytes, *, mode: int = 0o644, date: int | None = None) -> None:
        whole = self.directory(os.path.dirname(path)) / os.path.basename(path)
        whole.write_bytes(content if isinstance(content, bytes) else content.encode())
        whole.chmod(mode)
        if date is not None:
            self._times[path] = date

    def directory(self, path: str, *, date: int | None = None) -> Path:
        """Make it, and what it lies in. Returns where it is."""
        whole = self.root / path
        whole.mkdir(parents=True, exist_ok=True)
        if date is not None:
            self._times[path] = date
        return whole

    def finish(self) -> None:
        """Set the times of everything, the directories after what is in them, and the modes of directories."""
        for top, directories, files in os.walk(self.root, topdown=False):
            for name in (*files, *directories):
                whole = os.path.join(top, name)
                date = self._times.get(os.path.relpath(whole, self.root), self.date)
                if name in directories and not os.path.islink(whole):
                    os.chmod(whole, 0o755)  # noqa: S103 (as a checkout has them)
                os.utime(whole, (date, date), follow_symlinks=False)
        os.chmod(self.root, 0o755)  # noqa: S103
        os.utime(self.root, (self.date, self.date))


# --- git --------------------------------------------------------------------------------------------------------------

Tree = Mapping[str, "bytes | Tree"]
"""Names with the bytes of files, or with trees of their own."""


@dataclass
class Repository:
    """A git repository, written object by object: no reflog, no index and no pack, and no git is needed for it."""

    site: Site
    path: str
    """Its `.git` directory, in the site."""

    def __post_init__(self) -> None:
        self.write("HEAD", "ref: refs/heads/main\n")
        self.write("config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
            self.site.directory(f"{self.path}/{name}")

    def write(self, name: str, text: str) -> None:
        self.site.file(f"{self.path}/{name}", text)

    def blob(self, data: bytes) -> str:
        return self._object(b"blob", data)

    def tree(self, entries: Tree) -> str:
        rows = []
        for name, value in entries.items():
            is_file = isinstance(value, bytes)
            key = self.blob(value) if isinstance(value, bytes) else self.tree(value)
            rows.append((name + ("" if is_file else "/"), b"100644" if is_file else b"40000", name, key))
        return self._object(
            b"tree", b"".join(b"%s %s\0%s" % (m, n.encode(), bytes.fromhex(k)) for _, m, n, k in sorted(rows))
        )

    def index(self, entries: Mapping[str, bytes]) -> None:
        """What is staged: these files, so that a checkout of them is clean. Format: gitformat-index(5), version 2."""
        parts = [b"DIRC" + struct.pack(">2I", 2, len(entries))]
        for name, data in sorted((name.encode(), data) for name, data in entries.items()):
            entry = struct.pack(">10I", 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0) + bytes.fromhex(self.blob(data))
            entry += struct.pack(">H", len(name)) + name
            parts.append(entry + bytes(8 - len(entry) % 8))
        whole = b"".join(parts)
        self.site.file(f"{self.path}/index", whole + hashlib.sha1(whole, usedforsecurity=False).digest())

    def commit(
        self, tree: str, parents: Sequence[str], message: str, who: str, date: int, *, headers: Sequence[str] = ()
    ) -> str:
        """`who` is `Name <mail>`; `headers` are lines that stand below the committer."""
        lines = [f"tree {tree}", *(f"parent {key}" for key in parents)]
        lines += [f"author {who} {date} +0000", f"committer {who} {date} +0000", *headers, "", message]
        return self._object(b"commit", ("\n".join(lines) + "\n").encode())

    def tag_object(self, data: bytes) -> str:
        """An annotated tag, whose whole contents are given; no ref names it yet."""
        return self._object(b"tag", data)

    def branch(self, name: str, commit: str) -> None:
        self.write(f"refs/heads/{name}", commit + "\n")

    def tag(self, name: str, commit: str) -> None:
        self.write(f"refs/tags/{name}", commit + "\n")

    def _object(self, kind: bytes, data: bytes) -> str:
        whole = b"%s %d\0%s" % (kind, len(data), data)
        key = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        name = f"{self.path}/objects/{key[:2]}/{key[2:]}"
        if not (self.site.root / name).exists():  # and may not be written then, as git has it
            self.site.file(name, zlib.compress(whole, 6), mode=0o444)
        return key
