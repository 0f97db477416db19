"""On a machine as it is: other worktrees, other users, other mounts, a person's git, odd locales and limits."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.errors import Busy, RestoreInterrupted, RestoreRefused, StoreError
from agentrewind.snapshots.clock import Mounts
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots import hostile
from tests.unit.snapshots.plain_user import NOBODY, as_plain_user, place_for_all

Open = Callable[..., WorkspaceWorld]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# The directory itself


def test_a_root_that_was_removed_and_made_anew_is_refused(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    first = world.snapshot().id
    shutil.rmtree(root)
    root.mkdir()
    (root / "b").write_text("of somebody else")
    before = describe(root)
    with pytest.raises(RestoreRefused, match=r"is another directory.* by now.*nothing was touched"):
        world.restore(first)
    for act in (world.snapshot, lambda: world.restore(first, dry_run=True), lambda: world.diff_live(first)):
        with pytest.raises(StoreError, match="nothing is guessed"):
            act()
    assert not differences(before, describe(root))
    assert world.snapshots()[0].id == first


def test_opened_anew_it_can_be_restored(root: Path, open_world: Open) -> None:
    (root / "a").write_text("a")
    first = open_world().snapshot().id
    shutil.rmtree(root)
    root.mkdir()
    (root / "b").write_text("b")
    report = open_world().restore(first)
    assert [path.name for path in root.iterdir()] == ["a"]
    assert report.live is not None


def test_a_root_that_was_renamed_is_refused_and_said_where_it_is(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    first = world.snapshot().id
    moved = root.parent / "moved"
    root.rename(moved)
    (moved / "a").write_text("edited")
    with pytest.raises(RestoreRefused, match=f"What was there is now {moved}"):
        world.restore(first)
    with pytest.raises(StoreError, match="is gone"):
        world.snapshot()
    assert not root.exists()
    assert (moved / "a").read_text() == "edited"
    moved.rename(root)
    world.restore(first)
    assert (root / "a").read_text() == "a"


def test_a_link_in_place_of_the_root_is_refused(root: Path, world: WorkspaceWorld) -> None:
    first = world.snapshot().id
    root.rmdir()
    root.symlink_to(root.parent)
    with pytest.raises(RestoreRefused, match="something else, by now"):
        world.restore(first)


def test_inside_another_workspace_one_at_a_time(root: Path, world: WorkspaceWorld, tmp_path: Path) -> None:
    inner = root / "inner"
    inner.mkdir()
    (inner / "a").write_text("a")
    outer = world.snapshot().id
    with pytest.raises(Busy, match="overlaps"):
        WorkspaceWorld.open(inner, tmp_path / "inner store", lease_dir=tmp_path / "leases")
    world.close()
    with WorkspaceWorld.open(inner, tmp_path / "inner store", lease_dir=tmp_path / "leases") as other:
        first = other.snapshot().id
        (inner / "a").write_text("b")
        other.restore(first)
    with WorkspaceWorld.open(root, tmp_path / "store") as again:
        assert not again.diff_live(outer)


# Mounts


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small tmpfs; called again with `ro`, read-only."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"can't mount here: {done.stderr.decode().strip()}")
        return place

    yield mount
    subprocess.run(["umount", place], capture_output=True, check=False)


@as_root
def test_a_read_only_mount_is_saved_and_its_restore_refused(mounted: Callable[[str], Path], store: Path) -> None:
    root = mounted("size=1m")
    (root / "a").write_text("a")
    with WorkspaceWorld.open(root, store) as world:
        first = world.snapshot()
        (root / "a").write_text("b")
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        second = world.snapshot()
        assert second.changes.total == 1
        with pytest.raises(RestoreRefused, match=r"mounted read-only\. Nothing was touched"):
            world.restore(first.id)
        assert world.pending is None
        assert world.restore(second.id).acts == ()


@as_root
def test_a_file_system_without_free_inodes_refuses_first(mounted: Callable[[str], Path], store: Path) -> None:
    root = mounted("size=4m,nr_inodes=60")
    for number in range(40):
        (root / str(number)).write_text("x")
    with WorkspaceWorld.open(root, store) as world:
        first = world.snapshot()
        for path in root.iterdir():
            path.unlink()
        others = root / "others"
        others.mkdir()
        for number in range(50):
            (others / str(number)).write_text("y")
        assert os.statvfs(root).f_favail < 40
        with pytest.raises(RestoreRefused, match="has room for"):
            world.restore(first.id)
        assert len(list(others.iterdir())) == 50


def test_on_a_file_system_whose_clock_is_not_ours(
    root: Path, open_world: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network or FUSE file system: its clock is only known from what it stamps."""
    monkeypatch.setattr(Mounts, "local", property(lambda _: False))
    hostile.build(root)
    world = open_world()
    before = describe(root)
    first = world.snapshot().id
    hostile.damage(root)
    world.restore(first)
    assert not differences(before, describe(root))


@pytest.fixture
def fused(tmp_path: Path) -> Iterator[Path]:
    """A directory on a FUSE file system, which asks for each attribute anew."""
    if not shutil.which("bindfs"):
        pytest.skip("the program bindfs, which shows a directory through FUSE, is not here")
    real, place = tmp_path / "real", tmp_path / "fused"
    real.mkdir()
    place.mkdir()
    options = "attr_timeout=0,entry_timeout=0,negative_timeout=0"
    done = subprocess.run(["bindfs", "-o", options, real, place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"can't mount here: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["fusermount", "-u", place], capture_output=True, check=False)


def test_on_fuse_it_scans_and_everything_comes_back(fused: Path, store: Path) -> None:
    """That file system punches no holes, either."""
    root = fused / "ws"
    root.mkdir()
    hostile.build(root)
    before = describe(root)
    with WorkspaceWorld.open(root, store) as world:
        first = world.snapshot()
        assert (first.coverage.found_by, first.coverage.complete) == ("scan", True)
        assert "others may change" in first.coverage.why_scanned
        hostile.damage(root)
        damaged = describe(root)
        report = world.restore(first.id)
        assert not differences(before, describe(root))
        assert report.live is not None
        world.restore(report.live)
        assert not differences(damaged, describe(root))


# Git


def test_the_users_git_is_neither_asked_nor_touched(
    root: Path, open_world: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worktree of a repository with hooks, signing, templates, filters and fsmonitor; `GIT_*` point elsewhere."""
    main = root.parent / "main"
    ran = root.parent / "ran"
    main.mkdir()
    trap = root.parent / "trap"
    trap.write_text(f"#!/bin/sh\necho \"$0\" >> '{ran}'\nexit 1\n")
    trap.chmod(0o755)
    hostile.git(main, "init", "-q")
    (main / "a").write_text("a")
    (main / ".gitattributes").write_text("* text eol=crlf filter=trap\n")
    (main / ".gitignore").write_text("ignored\n")
    hostile.git(main, "add", "a")
    hostile.git(main, "commit", "-q", "-m", "a")
    root.rmdir()
    hostile.git(main, "worktree", "add", "-q", root)
    for key in ("core.fsmonitor", "gpg.program", "filter.trap.clean", "filter.trap.smudge", "core.sshCommand"):
        hostile.git(main, "config", key, str(trap))
    hostile.git(main, "config", "commit.gpgsign", "true")
    hooks = root.parent / "hooks"
    hooks.mkdir()
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        shutil.copy(trap, hooks / hook)
    hostile.git(main, "config", "core.hooksPath", str(hooks))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TEMPLATE_DIR"):
        monkeypatch.setenv(name, str(root.parent / "nowhere"))
    monkeypatch.setenv("PATH", str(root.parent))  # where `git` would be a trap as well
    shutil.copy(trap, root.parent / "git")
    repository = describe(main)
    (root / "ignored").write_bytes(b"line\nline\n")
    before = describe(root)
    world = open_world()
    first = world.snapshot().id
    (root / "ignored").unlink()
    (root / "a").write_text("changed")
    world.restore(first)
    assert not differences(before, describe(root))
    assert not differences(repository, describe(main))
    assert not ran.exists()
    assert not (root.parent / "nowhere").exists()


# The process


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_in_any_locale_names_are_bytes(root: Path, store: Path, locale: str) -> None:
    names = [b"caf\xc3\xa9", b"bad\xff\xfe", b"line\nbreak", b"n" * 255]
    for name in names:
        (root / os.fsdecode(name)).write_bytes(name)
    script = (
        "import sys; from pathlib import Path; from agentrewind.snapshots.workspace import WorkspaceWorld\n"
        "with WorkspaceWorld.open(Path(sys.argv[1]), Path(sys.argv[2])) as world:\n"
        "    target = world.snapshot()\n"
        "    for path in world.root.iterdir(): path.unlink()\n"
        "    print(len(world.restore(target.id).acts))\n"
    )
    environ = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, root, store], env=environ, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) >= len(names)
    assert sorted(os.listdir(os.fsencode(root))) == sorted(names)
    with WorkspaceWorld.open(root, store) as world:  # what one locale wrote another one reads
        assert not world.diff_live(world.snapshots()[0].id)


@pytest.mark.parametrize("mask", [0o077, 0o000, 0o777])
def test_the_umask_has_no_influence(root: Path, store: Path, mask: int) -> None:
    for name, mode in (("open", 0o666), ("shut", 0o600), ("tool", 0o755)):
        (root / name).write_text("x")
        (root / name).chmod(mode)
    (root / "d").mkdir(mode=0o751)
    os.mkfifo(root / "pipe")
    (root / "pipe").chmod(0o622)
    before = describe(root)
    old = os.umask(mask)
    try:
        with WorkspaceWorld.open(root, store) as world:
            target = world.snapshot().id
            for name in ("open", "shut", "tool", "pipe"):
                (root / name).unlink()
            (root / "d").rmdir()
            world.restore(target)
    finally:
        os.umask(old)
    assert not differences(before, describe(root))
    assert all(not path.stat().st_mode & 0o077 for path in [store, *store.rglob("*")])


@as_root
def test_roots_restore_gives_files_of_others_back_to_them(root: Path, world: WorkspaceWorld) -> None:
    (root / "theirs").write_text("x")
    os.chown(root / "theirs", NOBODY, NOBODY)
    (root / "theirs").chmod(0o400)
    before = describe(root)
    target = world.snapshot().id
    (root / "theirs").unlink()
    world.restore(target)
    assert not differences(before, describe(root))


@as_root
def test_a_plain_users_snapshot_names_what_others_keep_from_him() -> None:
    with place_for_all() as place:
        root = place / "ws"
        root.mkdir()
        os.chown(root, NOBODY, NOBODY)
        (root / "theirs").write_text("secret")
        (root / "theirs").chmod(0o600)
        (root / "their directory").mkdir(mode=0o700)

        def act() -> None:
            (root / "mine").write_text("mine")
            with WorkspaceWorld.open(root, place / "store") as world:
                target = world.snapshot()
                assert {gap.path for gap in target.coverage.unreadable} == {"theirs", "their directory"}
                (root / "mine").write_text("changed")
                report = world.restore(target.id, accept_incomplete=True)
                assert (root / "mine").read_text() == "mine"
                assert [act.path for act in report.acts] == ["mine"]

        as_plain_user(act)
        assert (root / "theirs").read_text() == "secret"


def test_a_file_size_limit_is_seen_before_anything_is_touched(root: Path, world: WorkspaceWorld) -> None:
    with (root / "large").open("wb") as file:
        file.truncate(10 << 20)
    (root / "a").write_text("a")
    target = world.snapshot().id
    (root / "large").write_bytes(b"small")
    (root / "a").write_text("b")
    before = describe(root)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(RestoreRefused, match=r"more than a file may have here.*Nothing was touched"):
            world.restore(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not differences(before, describe(root))
    assert world.pending is None


def test_a_path_longer_than_the_system_takes_comes_back(root: Path, world: WorkspaceWorld) -> None:
    name = "n" * 255
    fd = os.open(root, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    target = world.snapshot().id
    os.unlink(name, dir_fd=fd)
    world.restore(target)
    assert os.stat(name, dir_fd=fd).st_size == 0
    os.unlink(name, dir_fd=fd)
    os.close(fd)
    shutil.rmtree(root)


# Interrupted, and in the way


def test_an_interrupted_restore_is_pending_and_resume_finishes_it(root: Path, world: WorkspaceWorld) -> None:
    for number in range(20):
        (root / str(number)).write_text("before")
    before = describe(root)
    target = world.snapshot().id
    for path in root.iterdir():
        path.write_text("after")

    def ctrl_c() -> None:
        raise KeyboardInterrupt

    crashpoints.arm("snapshot.restore-file-written", ctrl_c, after=7)
    with pytest.raises(KeyboardInterrupt):
        world.restore(target)
    crashpoints.disarm()
    assert world.pending is not None
    assert {path.read_text() for path in root.iterdir()} == {"before", "after"}
    world.resume()
    assert world.pending is None
    assert not differences(before, describe(root))


def test_a_large_restore_tells_how_far_it_is(root: Path, open_world: Open) -> None:
    told: list[tuple[int, int | None]] = []
    world = open_world(progress=lambda done, total: told.append((done, total)))
    for number in range(300):
        (root / str(number)).write_text("before")
    target = world.snapshot().id
    for path in root.iterdir():
        path.write_text("after")
    told.clear()
    world.restore(target)
    counted = [done for done, total in told if total is not None]
    assert counted == sorted(counted)
    assert len(counted) >= 4
    assert all(total is None or done <= total for done, total in told)


def test_somebody_who_opens_a_file_that_is_being_written_waits_for_the_whole(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can write between our last look at a file and our writing it, unless he had it open before."""
    (root / "a").write_text("before")
    target = world.snapshot().id
    (root / "a").write_text("after, and longer")
    refused: list[int] = []

    def open_it() -> None:
        try:
            os.close(os.open(root / "a", os.O_RDWR | os.O_NONBLOCK))
        except OSError as error:
            refused.append(error.errno)

    crashpoints.arm("snapshot.restore-file-opened", open_it)
    world.restore(target)
    assert refused == [errno.EWOULDBLOCK]
    os.close(os.open(root / "a", os.O_RDWR | os.O_NONBLOCK))
    assert (root / "a").read_text() == "before"


def test_a_file_that_somebody_holds_open_is_brought_back_and_what_he_writes_is_not_in_it(
    root: Path, world: WorkspaceWorld
) -> None:
    (root / "a").write_text("before")
    target = world.snapshot().id
    (root / "a").write_text("after")
    with (root / "a").open("r+") as held:
        report = world.restore(target)
        held.write("too late")
    assert (root / "a").read_text() == "before"
    assert report.verified


def test_what_stands_in_the_way_three_times_is_said_in_one_sentence(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("before")
    target = world.snapshot().id
    (root / "a").write_text("after")
    (root / "b").write_text("b")
    edits = iter(range(100))

    def edit() -> None:
        (root / "a").write_text(f"edit {next(edits)}")
        crashpoints.arm("snapshot.restore-intent-written", edit)

    crashpoints.arm("snapshot.restore-intent-written", edit)
    with pytest.raises(RestoreInterrupted, match="'a'"):
        world.restore(target)
    crashpoints.disarm()
    assert world.pending is not None
    world.resume()
    assert (root / "a").read_text() == "before"
