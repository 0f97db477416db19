"""Snapshots as commits: what git shows of them, what it can't hold, and nothing of the user's git in between."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core.errors import StoreError, UsageError
from agentrewind.snapshots.encryption import Encryption
from agentrewind.snapshots.git_export import Exported, export_git, note_of, quoted, refused
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.unit.snapshots import hostile
from tests.unit.snapshots.test_store import flip, forget_caches, records

Open = Callable[..., WorkspaceWorld]
CLEAN = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": "/x"}


def git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", f"--git-dir={repository}", *arguments], env=CLEAN, check=True, capture_output=True
    ).stdout


def exported(store: Path, to: Path, **options: object) -> Exported:
    opened = Store.open(store, writable=False, **options)
    try:
        return export_git(opened, opened.names(), to)
    finally:
        opened.close()


def test_each_snapshot_is_a_commit_whose_files_are_those_of_the_snapshot(
    root: Path, store: Path, open_world: Open, tmp_path: Path
) -> None:
    world = open_world()
    hostile.build(root)
    (root / ".env").write_text("TOKEN=secret")
    first = world.snapshot("as it was")
    hostile.damage(root)
    second = world.snapshot()
    world.close()
    done = exported(store, tmp_path / "out.git")
    assert (done.commits, done.left_out) == (2, ())
    git(tmp_path / "out.git", "fsck", "--strict")
    for snapshot in (first, second):
        want = tmp_path / f"want-{snapshot.id}"
        with WorkspaceWorld.open(root, store, lease=False) as reader:
            reader.export(snapshot.id, want)
        files = {
            os.fsencode(path.relative_to(want)): (
                os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            )
            for path in want.rglob("*")
            if (path.is_file() or path.is_symlink()) and ".git" not in path.relative_to(want).parts
        }
        tree = git(tmp_path / "out.git", "ls-tree", "-rz", snapshot.id and f"refs/snapshots/{snapshot.id}")
        found = {}
        for line in tree.split(b"\0")[:-1]:
            head, _, name = line.partition(b"\t")
            found[name] = git(tmp_path / "out.git", "cat-file", "blob", head.split()[2].decode())
        assert found == files
    assert b"TOKEN=secret" not in git(tmp_path / "out.git", "grep", "-I", "-h", "", "main")
    log = git(tmp_path / "out.git", "log", "--format=%s").decode().splitlines()
    assert log == [f"Snapshot {second.id[:12]}", "as it was"]


def test_what_git_can_not_hold_is_in_a_note(root: Path, store: Path, world: WorkspaceWorld, tmp_path: Path) -> None:
    (root / "empty").mkdir()
    (root / "nested/.git").mkdir(parents=True)
    (root / "nested/.git/HEAD").write_text("ref: refs/heads/main")
    (root / "nested/inner").write_text("kept")
    (root / "a").write_text("a")
    os.link(root / "a", root / "b")
    os.mkfifo(root / "pipe")
    (root / ".env").write_text("secret")
    (root / "tool").write_text("x")
    (root / "tool").chmod(0o4711)
    world.snapshot()
    world.close()
    exported(store, tmp_path / "out.git")
    note = git(tmp_path / "out.git", "notes", "show", "main").decode()
    for line in (
        "Not kept by git: times, owners.",
        "Empty directories: empty",
        "Repositories inside, whose history is left out: nested/.git",
        "Hard links, here files of their own: a, b",
        "Pipes: pipe",
        "Private files left out: 1",
        "Modes other than 644 and 755: tool",
    ):
        assert line in note
    assert ".env" not in note
    assert b"nested/inner" in git(tmp_path / "out.git", "ls-tree", "-r", "--name-only", "main")


def test_branches_of_the_history_stay_apart(root: Path, store: Path, world: WorkspaceWorld, tmp_path: Path) -> None:
    (root / "f").write_text("1")
    first = world.snapshot()
    (root / "f").write_text("2")
    second = world.snapshot()
    world.restore(first.id)
    (root / "f").write_text("3")
    third = world.snapshot()
    world.close()
    exported(store, tmp_path / "out.git")
    parents = git(tmp_path / "out.git", "log", "--all", "--format=%S %P %H", "--no-notes").decode()
    at = {name: git(tmp_path / "out.git", "rev-parse", f"refs/snapshots/{name}").decode().strip()
          for name in (first.id, second.id, third.id)}  # fmt: skip
    assert f"{at[first.id]} {at[second.id]}" in parents
    assert f"{at[first.id]} {at[third.id]}" in parents


def test_the_same_snapshots_give_the_same_commits(
    root: Path, store: Path, world: WorkspaceWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the user's git says, and wherever its variables point."""
    hostile.build(root)
    world.snapshot()
    (root / "big").write_bytes(os.urandom(5 << 20))
    world.snapshot()
    world.close()
    exported(store, tmp_path / "one")
    config = tmp_path / "config"
    config.write_text(
        "[user]\nname = Somebody\n[core]\nautocrlf = true\nhooksPath = /nowhere\n[commit]\ngpgsign = true\n"
    )
    theirs = tmp_path / "theirs"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(theirs))
    exported(store, tmp_path / "two")
    assert git(tmp_path / "one", "show-ref") == git(tmp_path / "two", "show-ref")
    assert not theirs.exists()
    assert not list((tmp_path / "one/hooks").glob("*")) if (tmp_path / "one/hooks").exists() else True


def test_a_damaged_snapshot_is_left_out_and_named(root: Path, store: Path, open_world: Open, tmp_path: Path) -> None:
    world = open_world()
    (root / "a").write_bytes(os.urandom(500))
    first = world.snapshot()
    (root / "a").unlink()
    (root / "b").write_bytes(os.urandom(500))
    world.snapshot()
    world.close()
    forget_caches(store)
    path, record = records(store)[0]
    flip(path, record.body_at + 9)
    done = exported(store, tmp_path / "out.git")
    assert done.commits == 1
    assert [gap.path for gap in done.left_out] == [first.id]
    assert git(tmp_path / "out.git", "ls-tree", "--name-only", "main") == b"b\n"


def test_an_encrypted_store_is_exported_with_its_key(root: Path, store: Path, tmp_path: Path) -> None:
    key = Encryption(b"0123456789abcdef")
    (root / "a").write_text("hello")
    with WorkspaceWorld.open(root, store, encryption=key) as world:
        world.snapshot()
    assert exported(store, tmp_path / "out.git", encryption=key).commits == 1
    assert git(tmp_path / "out.git", "show", "main:a") == b"hello"


@pytest.mark.parametrize("what", ["file", "full", "link"])
def test_only_to_a_new_or_empty_place(
    root: Path, store: Path, world: WorkspaceWorld, tmp_path: Path, what: str
) -> None:
    world.snapshot()
    to = tmp_path / "to"
    if what == "file":
        to.write_text("x")
    elif what == "full":
        to.mkdir()
        (to / "x").write_text("x")
    else:
        to.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="there already"):
        exported(store, to)
    assert not list(tmp_path.glob(".*.partial"))


def test_without_git_it_says_so(
    root: Path, store: Path, world: WorkspaceWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.snapshot()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="program git"):
        exported(store, tmp_path / "out")
    (tmp_path / "git").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(StoreError, match="broken"):
        exported(store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_empty_store_is_an_empty_repository(store: Path, world: WorkspaceWorld, tmp_path: Path) -> None:
    world.close()
    assert exported(store, tmp_path / "out").commits == 0
    assert git(tmp_path / "out", "for-each-ref") == b""


@pytest.mark.parametrize(
    "path", [".git", "a/.GIT/b", ".git.", ".git ", "git~1", ".git::$INDEX_ALLOCATION", ".g\u200cit", "x/.Git"]
)
def test_names_that_git_takes_for_its_own(path: str) -> None:
    assert refused(path)


@pytest.mark.parametrize("path", [".gitignore", "a.git", "x/.gitmodules", "git", "..git", ".git-x"])
def test_names_that_git_takes(path: str) -> None:
    assert not refused(path)


def test_quoting() -> None:
    assert quoted('a"b\\c\n\udcff') == b'"a\\"b\\\\c\\012\\377"'
    assert note_of({}) == "Not kept by git: times, owners.\n"
