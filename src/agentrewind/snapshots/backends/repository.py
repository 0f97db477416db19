"""A bare git repository used through its low-level commands, deaf to the user's environment and configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import IO, TYPE_CHECKING

from agentrewind.core.errors import StoreError, WorkspaceRefused
from agentrewind.snapshots.entry import encode_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_SETTINGS = {
    "core.bare": "true", "core.hooksPath": "/dev/null", "core.fsmonitor": "false", "core.autocrlf": "false",
    "core.attributesFile": "/dev/null", "core.excludesFile": "/dev/null", "core.protectNTFS": "false",
    "core.protectHFS": "false", "core.looseCompression": "1", "core.logAllRefUpdates": "false", "gc.auto": "0",
    "index.version": "4",
}  # fmt: skip
_BLOCK = 1 << 20
Item = tuple[str, str, bytes]
"""Mode, object and path of a file in a tree; mode `0` takes the path out of the index."""


def why_not() -> str:
    """Why git can't be used; empty where it can."""
    return "" if shutil.which("git") else "there is no `git` program in the PATH"


class Repository:
    """The repository in `directory`, which is made if it isn't there. Raises: WorkspaceRefused: no git."""

    def __init__(self, directory: Path) -> None:
        if why := why_not():
            raise WorkspaceRefused(f"Plain git can't be used: {why}.")
        self._directory = directory
        self._env = {
            "PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": "/nonexistent",
            "GIT_DIR": str(directory),
            "GIT_INDEX_FILE": str(directory / "index"), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_ATTR_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "agentrewind", "GIT_AUTHOR_EMAIL": "agentrewind@localhost",
            "GIT_COMMITTER_NAME": "agentrewind", "GIT_COMMITTER_EMAIL": "agentrewind@localhost",
        }  # fmt: skip
        self._hasher: subprocess.Popen[bytes] | None = None
        if not (directory / "HEAD").exists():
            self._make()

    def _make(self) -> None:
        self.run("init", "-q", "--bare", "--template=", "--initial-branch=snapshots", str(self._directory))
        for key, value in _SETTINGS.items():
            self.run("config", key, value)

    def run(self, *arguments: str, data: bytes = b"") -> bytes:
        """What the command prints.

        Raises:
            StoreError: it failed, with what it says.
        """
        done = subprocess.run(
            ["git", *arguments], env=self._env, input=data, capture_output=True, check=False, cwd=self._directory.parent
        )
        if done.returncode != 0:
            raise StoreError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def close(self) -> None:
        if self._hasher is not None:
            self._hasher.communicate()
            self._hasher = None

    # Writing

    def keep(self, fd: int) -> str:
        """Store the bytes of an open file just as they are; the object's name. Raises: StoreError."""
        if self._hasher is None or self._hasher.poll() is not None:
            self._hasher = subprocess.Popen(
                ["git", "hash-object", "-w", "--no-filters", "--stdin-paths"],
                env=self._env, cwd=self._directory.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )  # fmt: skip
        to, answers = _pipes(self._hasher)
        try:
            to.write(f"/proc/{os.getpid()}/fd/{fd}\n".encode())
            to.flush()
            name = answers.readline().decode().strip()
        except OSError:
            name = ""
        if not name:
            _, said = self._hasher.communicate()
            self._hasher = None
            raise StoreError(f"git could not store a file: {said.decode(errors='replace').strip()}")
        return name

    def commit(self, items: Iterable[Item], name: str, parent: str | None, message: bytes) -> None:
        """Move the index by `items` and commit it as `refs/snapshots/NAME`; the branch follows. Raises: StoreError."""
        lines = b"".join(f"{mode} {blob}\t".encode() + path + b"\0" for mode, blob, path in items)
        self.run("update-index", "-z", "--index-info", data=lines)
        tree = self.run("write-tree").decode().strip()
        above = ("-p", _ref(parent)) if parent else ()
        commit = self.run("commit-tree", tree, *above, data=message).decode().strip()
        updates = f"update {_ref(name)} {commit}\nupdate refs/heads/snapshots {commit}\n"
        self.run("update-ref", "--stdin", data=updates.encode())

    def read_index(self, name: str | None) -> None:
        """Make the private index that of a snapshot; empty for None."""
        self.run("read-tree", *((_ref(name),) if name else ("--empty",)))

    # Reading

    def has(self, name: str) -> bool:
        """Whether there is a commit of that snapshot, as far as its name goes: its objects aren't looked at."""
        return (self._directory / _ref(name)).exists() or bool(self.run("for-each-ref", _ref(name)))

    def files(self, name: str) -> dict[str, str]:
        """Path to object of all files and links of a snapshot. Raises: StoreError."""
        found = {}
        for line in self.run("ls-tree", "-r", "-z", "--full-tree", _ref(name)).split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            found[os.fsdecode(path)] = head.split()[2].decode()
        return found

    def read(self, blob: str) -> Iterator[bytes]:
        """The bytes of an object, block by block. Raises: StoreError: missing or damaged."""
        reader = subprocess.Popen(
            ["git", "cat-file", "blob", blob],
            env=self._env, cwd=self._directory.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        with reader:
            assert reader.stdout is not None
            assert reader.stderr is not None
            while block := reader.stdout.read(_BLOCK):
                yield block
            said = reader.stderr.read()
        if reader.returncode != 0:
            raise StoreError(f"git object {blob[:12]}: {said.decode(errors='replace').strip()}")


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _ref(name: str) -> str:
    return f"refs/snapshots/{name}"


def item(mode: str, blob: str, path: str) -> Item:
    return mode, blob, encode_text(path)


def removal(path: str) -> Item:
    """The item that takes a path out of the index."""
    return "0", "0" * 40, encode_text(path)
