"""The features of a hostile tree, one by one: which of them a way to keep a workspace brings back.

The eyes are the conformance kit's. `PlainGit` is what many tools do: `git add -A` and `commit` into a repository of
their own, then `read-tree --reset -u` and `clean`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentrewind.testing.snapshots import Facts, describe
from tests.unit.snapshots.hostile import GIT, git

WHEN = 1_614_830_767_123_456_789
ODD = b"line\nbreak *"
RAW = b"bad\xff\xfename"


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    paths: tuple[str, ...]
    facts: tuple[str, ...] = ("kind", "sha256", "target")


FEATURES = (
    Feature("text with CRLF under `text=auto`", ("crlf.txt",)),
    Feature("binary content", ("binary.bin",)),
    Feature("a file with an `ident` filter", ("stamp.id",)),
    Feature("ignored files", ("debug.log", "node_modules/x.js")),
    Feature("what was made since is gone", ("new", "new/file")),
    Feature("a file that became a directory", ("notes.txt",)),
    Feature("a directory that became a file", ("deep/a", "deep/a/f")),
    Feature("symbolic links, dangling and to directories", ("link-dangling", "link-dir")),
    Feature("the executable bit", ("run.sh",), ("mode",)),
    Feature("mode 0600", ("vault/private.dat",), ("mode",)),
    Feature("set-uid", ("setuid",), ("mode",)),
    Feature("directory modes, sticky", ("vault", "sticky"), ("mode",)),
    Feature("empty directories", ("empty",)),
    Feature("hard links", ("hard-a", "hard-b"), ("links", "sha256")),
    Feature("times of files, to the nanosecond", ("timed",), ("mtime",)),
    Feature("times of directories", ("deep",), ("mtime",)),
    Feature("times of symbolic links", ("link-dir",), ("mtime",)),
    Feature("extended attributes", ("noted",), ("xattrs",)),
    Feature("holes", ("sparse.img",), ("sparse", "sha256")),
    Feature("FIFOs", ("pipe",)),
    Feature("names that aren't UTF-8", (os.fsdecode(RAW),)),
    Feature("names with newlines", (os.fsdecode(ODD),)),
    Feature("files of a nested repository", ("nested/n.txt", "nested/u.txt")),
    Feature("a nested repository's history", ("nested/.git/HEAD", "nested/.git/index")),
    Feature("the workspace's own repository", (".git/HEAD", ".git/index", ".git/refs/heads/main")),
)


def build(root: Path) -> None:
    """A tree with all of them in the empty directory `root`."""
    git(root, "init", "-q", "-b", "main")
    (root / ".gitignore").write_text("*.log\nnode_modules/\n")
    (root / ".gitattributes").write_text("* text=auto\n*.id ident\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    for name in ("empty", "vault", "sticky", "deep/a", "node_modules", "nested"):
        (root / name).mkdir(parents=True)
    files = {
        "crlf.txt": b"a\r\nb\r\n", "binary.bin": bytes(range(256)) * 40, "stamp.id": b"$Id$\n", "debug.log": b"y\n",
        "node_modules/x.js": b"x\n", "notes.txt": b"notes\n", "deep/a/f": b"f\n", "run.sh": b"#!/bin/sh\n",
        "vault/private.dat": b"key\n", "setuid": b"x\n", "hard-a": b"shared\n", "timed": b"t\n", "noted": b"n\n",
        os.fsdecode(RAW): b"raw\n", os.fsdecode(ODD): b"odd\n",
    }  # fmt: skip
    for name, data in files.items():
        (root / name).write_bytes(data)
    os.link(root / "hard-a", root / "hard-b")
    (root / "link-dangling").symlink_to("/nonexistent")
    (root / "link-dir").symlink_to("deep")
    os.mkfifo(root / "pipe")
    with (root / "sparse.img").open("wb") as file:
        file.seek(8 << 20)
        file.write(b"end")
    os.setxattr(root / "noted", "user.note", b"kept")
    _nested(root / "nested")
    for name, mode in {"run.sh": 0o755, "vault/private.dat": 0o600, "setuid": 0o4755, "vault": 0o700,
                       "sticky": 0o1777}.items():  # fmt: skip
        (root / name).chmod(mode)
    for name in ("timed", "link-dir", "deep"):
        os.utime(root / name, ns=(WHEN, WHEN), follow_symlinks=False)


def _nested(nested: Path) -> None:
    git(nested, "init", "-q")
    (nested / "n.txt").write_text("n\n")
    git(nested, "add", "n.txt")
    git(nested, "commit", "-qm", "n")
    (nested / "n.txt").write_text("dirty\n")
    (nested / "u.txt").write_text("untracked\n")


def damage(root: Path) -> None:
    """Harm every one of them."""
    for name in ("notes.txt", "crlf.txt", "debug.log", "link-dangling", "link-dir", "pipe", "hard-b", "setuid"):
        (root / name).unlink()
    for name in ("notes.txt", "new"):
        (root / name).mkdir()
    (root / "new" / "file").write_text("new")
    for name in ("deep/a", "node_modules", "nested/.git", ".git"):
        shutil.rmtree(root / name)
    for name in ("deep/a", "binary.bin", "stamp.id", "timed", "sparse.img", "hard-b", os.fsdecode(RAW),
                 os.fsdecode(ODD), "nested/n.txt", "vault/private.dat"):  # fmt: skip
        (root / name).write_text("damaged")
    (root / "nested" / "u.txt").unlink()
    (root / "link-dir").symlink_to("/etc")
    for name, mode in {"run.sh": 0o644, "vault/private.dat": 0o644, "vault": 0o755, "sticky": 0o755}.items():
        (root / name).chmod(mode)
    (root / "empty").rmdir()
    os.removexattr(root / "noted", "user.note")


def kept(before: Facts, after: Facts) -> dict[str, bool]:
    """Feature to whether it is as it was."""
    return {feature.name: all(_same(feature, path, before, after) for path in feature.paths) for feature in FEATURES}


def _same(feature: Feature, path: str, before: Facts, after: Facts) -> bool:
    if path not in before or path not in after:
        return path not in before and path not in after
    return all(before[path].get(fact) == after[path].get(fact) for fact in feature.facts)


def measured(root: Path, keep: Callable[[], Callable[[], object]]) -> dict[str, bool]:
    """Build, let `keep` save the tree and return what brings it back, damage, bring back, compare."""
    build(root)
    bring_back = keep()
    before = describe(root)
    damage(root)
    bring_back()
    return kept(before, describe(root))


class PlainGit:
    """`git add -A` and `commit` into a repository outside."""

    def __init__(self, root: Path, store: Path) -> None:
        self._env = {**GIT, "GIT_DIR": str(store), "GIT_WORK_TREE": str(root)}
        self._root = root
        self._run("init", "-q")

    def _run(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], env=self._env, cwd=self._root, check=True, capture_output=True)

    def snapshot(self) -> None:
        self._run("add", "-A")
        self._run("commit", "-q", "--allow-empty", "-m", "snapshot")

    def restore(self) -> None:
        self._run("read-tree", "--reset", "-u", "HEAD")
        self._run("clean", "-qfd")
