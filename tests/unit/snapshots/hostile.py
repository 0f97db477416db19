"""A workspace that holds every feature a snapshot must keep, and damage all over it. Our own code: the shared cases
that the tests also run may be absent on a user's machine."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
from pathlib import Path

GIT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org", "HOME": "/nonexistent",
}  # fmt: skip
ODD_NAMES = (
    b"bad\xff\xfename", b"line\nbreak", b" spaces ", b"-rf", b"*", b"caf\xc3\xa9", b"cafe\xcc\x81", b"0" * 255,
    b"\\", b'"',
)  # fmt: skip


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(directory), *arguments], env=GIT, check=True, capture_output=True)


def build(root: Path, *, sockets: bool = False) -> None:
    root.mkdir(exist_ok=True)
    _repositories(root)
    _files(root)
    _links(root)
    _database(root)
    for name in ODD_NAMES:
        (root / os.fsdecode(name)).write_bytes(name)
    if sockets:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(root / "server.sock"))
    _modes_and_times(root)


def _repositories(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    (root / "notes.txt").write_text("one\ntwo\nthree\n")
    (root / ".gitignore").write_text("*.log\nnode_modules/\n")
    (root / ".gitattributes").write_text("* text=auto\n*.id ident\n")
    (root / "stamp.id").write_text("$Id$\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "notes.txt").write_text("ONE\ntwo\nthree\n")
    git(root, "add", "notes.txt")
    (root / "notes.txt").write_text("ONE\ntwo\nTHREE\n")
    nested = root / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "n.txt").write_text("n\n")
    git(nested, "add", "n.txt")
    git(nested, "commit", "-qm", "n")
    (nested / "n.txt").write_text("dirty\n")
    (root / "nested-empty").mkdir()
    git(root / "nested-empty", "init", "-q")
    git(root, "worktree", "add", "-q", "side", "-b", "side")


def _files(root: Path) -> None:
    (root / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (root / "binary.bin").write_bytes(os.urandom(100_000))
    (root / "empty.file").touch()
    (root / "empty dir").mkdir()
    (root / "deep/a/b/c/d").mkdir(parents=True)
    (root / "node_modules/left-pad").mkdir(parents=True)
    (root / "node_modules/left-pad/index.js").write_text("x\n")
    (root / "debug.log").write_text("ignored\n")
    (root / ".env").write_text("TOKEN=abc\n")
    (root / "vault").mkdir()
    (root / "vault/private.dat").write_text("key\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    with (root / "sparse.img").open("wb") as file:
        file.seek(8_388_000)
        file.write(b"end")
    (root / "large.bin").write_bytes(os.urandom(1 << 20) * 5 + b"tail")
    os.setxattr(root / "notes.txt", "user.note", b"kept")
    os.setxattr(root / "empty dir", "user.dir", b"\0\xff")
    os.mkfifo(root / "pipe")


def _links(root: Path) -> None:
    for name, target in {
        "link-rel": "notes.txt", "link-dangling": "/nonexistent/x", "link-dir": "deep", "deep/a/up": "../..",
        "__pycache__": "deep",
    }.items():  # fmt: skip
        (root / name).symlink_to(target)
    (root / "hard-a").write_text("shared\n")
    os.link(root / "hard-a", root / "hard-b")
    os.link(root / "hard-a", root / "deep/hard-c")
    outside = root.parent / f"{root.name}-outside.txt"
    outside.write_text("outside\n")
    os.link(outside, root / "linked-from-outside.txt")


def _database(root: Path) -> None:
    db = sqlite3.connect(root / "data.db")
    db.execute("pragma journal_mode=wal")
    db.execute("create table t(x)")
    db.executemany("insert into t values (?)", [(i,) for i in range(500)])
    db.commit()
    for side in ("-wal", "-shm"):
        shutil.copy(root / f"data.db{side}", root / f"keep{side}")
    db.close()
    for side in ("-wal", "-shm"):
        (root / f"keep{side}").replace(root / f"data.db{side}")


def _modes_and_times(root: Path) -> None:
    (root / "vault/private.dat").chmod(0o600)
    (root / "vault").chmod(0o700)
    (root / "empty dir").chmod(0o750)
    (root / "run.sh").chmod(0o4755)
    (root / "deep").chmod(0o1777)
    for number, path in enumerate(sorted(root.rglob("*"), reverse=True)):
        if not path.name.startswith("data.db"):
            when = 1_614_830_767_000_000_000 + number * 7_919_123
            os.utime(path, ns=(when, when), follow_symlinks=False)


def damage(root: Path) -> None:
    (root / "notes.txt").write_text("2\n")
    git(root, "add", "notes.txt")
    git(root, "commit", "-qm", "damage")
    (root / ".gitignore").write_text("everything/\n.env\n")
    shutil.rmtree(root / "empty dir")
    shutil.rmtree(root / "deep/a")
    (root / "deep/a").write_text("a file now")
    shutil.rmtree(root / "node_modules")
    (root / "link-dir").unlink()
    (root / "link-dir").mkdir()
    (root / "link-dir/f").write_text("in it")
    (root / "pipe").unlink()
    (root / "pipe").write_text("a file now")
    (root / "crlf.txt").unlink()
    (root / "crlf.txt").mkdir()
    (root / "hard-b").unlink()
    (root / "hard-b").write_text("on its own")
    with (root / "deep/hard-c").open("ab") as file:
        file.write(b"through a link")
    with (root / "binary.bin").open("ab") as file:
        file.write(b"grew")
    with (root / "large.bin").open("r+b") as file:
        file.seek(3_000_000)
        file.write(b"in the middle")
    (root / "sparse.img").write_bytes(b"x" * 10_000_000)
    (root / "empty.file").write_text("full")
    (root / "vault/private.dat").chmod(0o644)
    (root / "vault").chmod(0o755)
    (root / "run.sh").chmod(0o644)
    (root / "link-rel").unlink()
    (root / "link-rel").symlink_to("/etc")
    shutil.rmtree(root / "nested/.git")
    shutil.rmtree(root / "nested-empty")
    for side in ("-wal", "-shm"):
        (root / f"data.db{side}").unlink()
    (root / "new/tree").mkdir(parents=True)
    (root / "new/tree/file").write_text("new")
    os.removexattr(root / "notes.txt", "user.note")
    (root / ".env").unlink()
    with (root / "linked-from-outside.txt").open("ab") as file:
        file.write(b"written through\n")
    for name in ODD_NAMES[::2]:
        (root / os.fsdecode(name)).unlink()
    for name in ODD_NAMES[1::2]:
        (root / os.fsdecode(name)).write_bytes(b"other")
    (root / "stamp.id").touch()
