"""What plain git promises beyond the contract: deaf to the user's git, silent about nothing, and never destructive."""

from __future__ import annotations

import os
import random
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.errors import SnapshotDamaged, UsageError
from agentrewind.snapshots.backends.git import GitWorld
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.testing.snapshots import Facts, describe
from tests.unit.backends.histories import live
from tests.unit.snapshots.hostile import GIT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def once(point: str, act: Callable[[], object]) -> None:
    """Do it the first time that the point is reached."""

    def and_never_again() -> None:
        crashpoints.disarm()
        act()

    crashpoints.arm(point, and_never_again)


def ask(store: Path, *arguments: str) -> bytes:
    command = ["git", "--git-dir", str(store / "repository.git"), *arguments]
    return subprocess.run(command, env=GIT, check=True, capture_output=True).stdout


def test_the_user_s_git_has_no_influence(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, theirs = tmp_path / "home", tmp_path / "theirs"
    (home / "hooks").mkdir(parents=True)
    (home / "hooks" / "post-commit").write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
    (home / "hooks" / "post-commit").chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[commit]\ngpgSign = true\n[gpg]\nprogram = /bin/false\n[core]\nhooksPath = {home}/hooks\nautocrlf = true\n"
        f"fsmonitor = /bin/false\n[init]\ntemplateDir = {home}\n[user]\nname = someone\n"
    )
    subprocess.run(["git", "init", "-q", str(theirs)], env=GIT, check=True)
    monkeypatch.setenv("HOME", str(home))
    for name, value in {"GIT_DIR": theirs / ".git", "GIT_INDEX_FILE": theirs / "index", "GIT_WORK_TREE": theirs,
                        "GIT_OBJECT_DIRECTORY": theirs / "objects"}.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    before = sorted(theirs.rglob("*"))
    (root / ".gitattributes").write_text("* text=auto\n*.id ident\n*.enc filter=missing\n")
    (root / "a.id").write_bytes(b"$Id$\r\n")
    (root / "b.enc").write_bytes(b"\0\r\n")
    with GitWorld.open(root, tmp_path / "store") as world:
        target = world.snapshot()
        (root / "a.id").unlink()
        world.restore(target.id)
    assert (root / "a.id").read_bytes() == b"$Id$\r\n"
    assert ask(tmp_path / "store", "show", f"refs/snapshots/{target.id}:b.enc") == b"\0\r\n"
    assert sorted(theirs.rglob("*")) == before
    assert not (tmp_path / "hook-ran").exists()


def contents(root: Path) -> Facts:
    """What git keeps of a tree."""
    return {
        path: {name: facts.get(name) for name in ("kind", "sha256", "target")}
        for path, facts in describe(root).items()
        if facts["kind"] != stat.S_IFDIR
    }


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_come_back(root: Path, tmp_path: Path, seed: int) -> None:
    with GitWorld.open(root, tmp_path / "store") as world:
        live(root, world, random.Random(seed), 15, contents)


@pytest.mark.slow
def test_long_random_histories_come_back(root: Path, tmp_path: Path) -> None:
    for seed in range(100, 120):
        with GitWorld.open(root, tmp_path / "store") as world:
            live(root, world, random.Random(seed), 40, contents)


def test_any_git_can_read_the_snapshots(root: Path, tmp_path: Path) -> None:
    with GitWorld.open(root, tmp_path / "store") as world:
        for number in range(3):
            (root / "a").write_text(f"{number}\n")
            world.snapshot(f"step {number}")
    assert ask(tmp_path / "store", "log", "--format=%s").split(b"\n")[:3] == [b"step 2", b"step 1", b"step 0"]
    assert ask(tmp_path / "store", "fsck", "--strict") == b""


def test_what_is_not_stored_is_never_removed(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("before")
    with GitWorld.open(root, tmp_path / "store") as world:
        target = world.snapshot()
        for name in ("empty", "new/empty", "nested/.git"):
            (root / name).mkdir(parents=True)
        (root / "nested" / ".git" / "HEAD").write_text("ref")
        (root / "nested" / "file").write_text("x")
        (root / ".env").write_text("TOKEN=1")
        os.mkfifo(root / "new" / "pipe")
        (root / "new" / "file").write_text("x")
        report = world.restore(target.id)
    assert {"empty", "new/empty", "nested/.git", ".env", "new/pipe"} <= {gap.path for gap in report.kept}
    left = {str(path.relative_to(root)) for path in root.rglob("*")}
    assert left == {
        "a", "empty", "new", "new/empty", "new/pipe", "nested", "nested/.git", "nested/.git/HEAD", ".env",
    }  # fmt: skip


def test_a_secret_is_not_in_the_repository(root: Path, tmp_path: Path) -> None:
    (root / ".env").write_text("TOKEN=1")
    (root / "a").write_text("a")
    with GitWorld.open(root, tmp_path / "store") as world:
        target = world.snapshot()
    assert ask(tmp_path / "store", "ls-tree", "-r", "--name-only", "HEAD") == b"a\n"
    assert [gap.path for gap in target.coverage.excluded] == [".env"]


def test_a_directory_empty_at_the_target_stays_and_what_was_put_into_it_goes(root: Path, tmp_path: Path) -> None:
    (root / "d").mkdir()
    with GitWorld.open(root, tmp_path / "store") as world:
        target = world.snapshot()
        (root / "d" / "new").write_text("x")
        world.restore(target.id)
    assert [path.name for path in root.rglob("*")] == ["d"]


def test_a_file_changed_between_look_and_storing_is_stored_as_one_state(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("seen")
    os.utime(root / "a", ns=(1, 1))
    with GitWorld.open(root, tmp_path / "store") as world:
        scan = world._scan

        def scan_then_edit():
            seen = scan()
            (root / "a").write_text("edited a moment later")
            return seen

        world._scan = scan_then_edit
        target = world.snapshot()
        world._scan = scan
        assert [gap.path for gap in target.coverage.unstable] == ["a"]
        assert world.verify(target.id).ok
        assert ask(tmp_path / "store", "show", f"refs/snapshots/{target.id}:a") == b"edited a moment later"


def test_a_file_that_goes_between_look_and_storing_fails_nothing(root: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (root / name).write_text(name)
    with GitWorld.open(root, tmp_path / "store") as world:
        scan = world._scan

        def scan_then_remove():
            seen = scan()
            (root / "a").unlink()
            return seen

        world._scan = scan_then_remove
        target = world.snapshot()
        world._scan = scan
        assert world.verify(target.id).ok
        (root / "b").unlink()
        world.restore(target.id)
    assert [path.name for path in root.iterdir()] == ["b"]
    assert ask(tmp_path / "store", "ls-tree", "--name-only", f"refs/snapshots/{target.id}") == b"b\n"


def test_what_somebody_writes_during_a_restore_is_saved_before_it_is_overwritten(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("before")
    with GitWorld.open(root, tmp_path / "store") as world:
        target = world.snapshot()
        (root / "a").write_text("after")
        once("snapshot.restore-intent-written", lambda: (root / "a").write_text("a person's edit"))
        try:
            report = world.restore(target.id)
        finally:
            crashpoints.disarm()
        assert [gap.path for gap in report.drift] == ["a"]
        assert (root / "a").read_text() == "before"
        found = [ask(tmp_path / "store", "show", f"refs/snapshots/{snap.id}:a") for snap in world.snapshots()]
    assert b"a person's edit" in found


def test_a_lost_commit_is_damage_and_nothing_is_touched(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("before")
    with GitWorld.open(root, tmp_path / "store") as world:
        target = world.snapshot()
        (root / "a").write_text("after")
        ask(tmp_path / "store", "update-ref", "-d", f"refs/snapshots/{target.id}")
        assert not world.verify(target.id).ok
        with pytest.raises(SnapshotDamaged):
            world.restore(target.id)
        assert (root / "a").read_text() == "after"
        assert world.verify(world.snapshot().id).ok, "what follows doesn't build on what is lost"


def test_an_unchanged_world_is_the_same_snapshot(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("a")
    with GitWorld.open(root, tmp_path / "store") as world:
        first = world.snapshot()
        assert world.snapshot() == first
        (root / "a").chmod(0o600)
        assert [gap.path for gap in world.snapshot().coverage.lossy] == ["", "a"]


def test_another_backend_s_store_is_refused(root: Path, tmp_path: Path) -> None:
    WorkspaceWorld.open(root, tmp_path / "main").close()
    with pytest.raises(UsageError, match="main snapshot store"):
        GitWorld.open(root, tmp_path / "main")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "backend").write_text("agentrewind btrfs 1\n")
    with pytest.raises(UsageError, match="is not a store of git"):
        GitWorld.open(root, tmp_path / "other")
