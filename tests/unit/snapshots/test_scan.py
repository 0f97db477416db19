"""What a scan sees: every change however small, nothing outside, and no failure for one odd file."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core.world import Change
from agentrewind.snapshots import reading, scan
from agentrewind.snapshots.clock import TICK_NS, Clock, Mounts, mounts_of
from agentrewind.snapshots.workspace import WorkspaceWorld

Open = Callable[..., WorkspaceWorld]


def test_same_size_edits_with_the_time_put_back_are_all_seen(root: Path, world: WorkspaceWorld) -> None:
    for round_ in range(30):
        (root / "a").write_text(f"{round_:04}")
        os.utime(root / "a", ns=(10**18, 10**18))
        found = world.snapshot()
        assert world.read(found.id, "a") == f"{round_:04}".encode()


def test_a_recent_file_is_read_again_and_an_old_one_is_not(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("a")
    read: list[int] = []
    real = scan.take_file
    monkeypatch.setattr(
        scan, "take_file", lambda fd, *rest, **options: (read.append(fd), real(fd, *rest, **options))[1]
    )
    written = (root / "a").stat().st_ctime_ns
    monkeypatch.setattr(Clock, "now_ns", lambda *_: written + TICK_NS)
    world.snapshot()
    world.snapshot()
    assert len(read) == 2
    monkeypatch.setattr(Clock, "now_ns", lambda *_: written + TICK_NS + 1)
    world.snapshot()
    world.snapshot()
    world.snapshot()
    assert len(read) == 3


def test_what_is_trusted_is_remembered_by_the_next_process(
    root: Path, open_world: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("a")
    threading.Event().wait(0.05)
    first = open_world().snapshot()
    monkeypatch.setattr(scan, "take_file", None)
    assert open_world().snapshot() == first


def test_a_clock_that_went_back_is_not_trusted(root: Path, world: WorkspaceWorld) -> None:
    (root / "a").write_text("a")
    threading.Event().wait(0.05)
    world.snapshot()
    known = world._site.known
    assert "a" not in known.racy
    ahead = scan.Seen(known.entries, known.signatures, set(), {}, [], known.clock_ns + 10**12, known.latest_ns)

    class Earlier:
        def now_ns(self, _: int) -> int:
            return known.clock_ns - 10**10

    sink = reading.HashingSink(world._store.keys)
    looked = scan.Scan(world._site.fd, world.rules, sink, ahead, Earlier(), tick_ns=1).run()
    assert "a" in looked.racy


def test_a_write_through_an_outside_link_is_seen(root: Path, world: WorkspaceWorld) -> None:
    outside = root.parent / "outside"
    outside.write_text("one")
    os.link(outside, root / "a")
    world.snapshot()
    outside.write_text("two")
    assert world.snapshot().changes.items == (Change("M", "a"),)


def test_nothing_is_read_through_a_link_to_a_directory(root: Path, world: WorkspaceWorld) -> None:
    (root.parent / "secret").mkdir()
    (root.parent / "secret" / "x").write_text("x")
    (root / "link").symlink_to("../secret")
    found = world.snapshot()
    assert world.entry(found.id, "link/x") is None
    assert world.entry(found.id, "link").target == b"../secret"


def test_a_fifo_is_never_opened_and_never_blocks(root: Path, world: WorkspaceWorld) -> None:
    os.mkfifo(root / "pipe", 0o640)
    found = world.snapshot()
    assert world.entry(found.id, "pipe").mode == 0o640


def test_files_that_vanish_while_we_look_are_absent(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "d/c"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name)
    real = os.open

    def vanishing(path: str, *rest: object, **options: object) -> int:
        if path == "a":
            (root / "a").unlink(missing_ok=True)
            shutil.rmtree(root / "d", ignore_errors=True)
        return real(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", vanishing)
    found = world.snapshot()
    monkeypatch.undo()
    assert [world.entry(found.id, name) is None for name in ("a", "b", "d/c")] == [True, False, True]
    assert found.coverage.complete


def test_a_file_that_turns_into_a_link_is_not_followed(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root.parent / "secret").write_text("secret")
    (root / "a").write_text("a")
    real = os.open

    def swapping(path: str, *rest: object, **options: object) -> int:
        if path == "a":
            (root / "a").unlink(missing_ok=True)
            (root / "a").symlink_to("../secret")
        return real(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", swapping)
    found = world.snapshot()
    assert world.entry(found.id, "a").kind == b"l"


def test_a_file_that_never_rests_is_kept_and_said_to_be_unstable(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "log").write_text("start\n")
    (root / "quiet").write_text("x")
    real = reading._contents

    def busy(fd: int, *rest: object, **options: object) -> object:
        found = real(fd, *rest, **options)  # type: ignore[arg-type]
        if os.readlink(f"/proc/self/fd/{fd}").endswith("log"):
            with (root / "log").open("a") as file:
                file.write("more\n")
        return found

    monkeypatch.setattr(reading, "_contents", busy)
    found = world.snapshot()
    assert [gap.path for gap in found.coverage.unstable] == ["log"]
    assert found.coverage.complete
    assert world.read(found.id, "log").startswith(b"start\nmore\nmore\n")


def test_a_database_and_its_log_are_read_as_one(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between reading the database and reading its log must not tear them apart."""
    db = sqlite3.connect(root / "data.db")
    db.execute("pragma journal_mode=wal")
    db.execute("create table t(x)")
    db.commit()
    real, done = reading._contents, []

    def commit_between(fd: int, *rest: object, **options: object) -> object:
        found = real(fd, *rest, **options)  # type: ignore[arg-type]
        if not done and os.readlink(f"/proc/self/fd/{fd}").endswith("data.db-wal"):
            done.append(fd)
            db.execute("insert into t values (1)")
            db.commit()
            db.execute("pragma wal_checkpoint(TRUNCATE)")
            db.execute("insert into t values (2)")
            db.commit()
        return found

    monkeypatch.setattr(reading, "_contents", commit_between)
    found = world.snapshot()
    assert done
    for name in ("data.db", "data.db-wal"):
        assert world.read(found.id, name) == (root / name).read_bytes()
    db.close()


def test_ten_changes_are_named(root: Path, world: WorkspaceWorld) -> None:
    for number in range(6):
        (root / f"f{number}").write_text("x")
    (root / "d").mkdir()
    (root / "kind").write_text("file")
    os.utime(root / "d", ns=(1, 1))
    world.snapshot()
    (root / "f0").write_text("y")
    (root / "f1").unlink()
    (root / "f2").chmod(0o600)
    (root / "kind").unlink()
    (root / "kind").mkdir()
    (root / "new").write_text("n")
    os.utime(root / "d", ns=(2, 2))
    found = world.snapshot()
    assert {(change.status, change.path) for change in found.changes.items} == {
        ("M", "f0"), ("D", "f1"), ("P", "f2"), ("T", "kind"), ("A", "new"), ("P", "d"),
    }  # fmt: skip


def test_more_changes_than_are_named_are_counted(root: Path, world: WorkspaceWorld) -> None:
    for number in range(300):
        (root / f"f{number}").write_text("x")
    found = world.snapshot()
    assert found.changes.total == 301
    assert len(found.changes.items) == 200


def test_a_cache_that_runs_is_no_change(root: Path, world: WorkspaceWorld) -> None:
    (root / "__pycache__").mkdir()
    first = world.snapshot()
    (root / "__pycache__" / "x.pyc").write_bytes(b"x")
    second = world.snapshot()
    assert second.changes.total == 0
    assert world.diff(first.id, second.id).total == 0


def test_directories_that_change_while_listed_are_listed_again(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (root / f"f{number}").write_text("x")
    real, left = scan.Scan._look, [3]

    def adding(self: scan.Scan, *rest: object) -> None:
        real(self, *rest)  # type: ignore[arg-type]
        if left[0]:
            left[0] -= 1
            (root / f"added {random.random()}").write_text("y")

    monkeypatch.setattr(scan.Scan, "_look", adding)
    found = world.snapshot()
    assert found.coverage.entries == 24
    assert not found.coverage.unstable


def test_mounts_are_read_from_the_kernel() -> None:
    found = mounts_of(Path("/"))
    assert "proc" in found.inside
    assert Mounts("vfat", frozenset()).tick_ns == 2_000_000_000
    assert not Mounts("nfs4", frozenset()).local


def test_an_unknown_file_system_has_only_its_own_clock(
    root: Path, open_world: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mounts, "local", property(lambda _: False))
    world = open_world()
    (root / "a").write_text("a")
    threading.Event().wait(0.05)
    world.snapshot()
    assert "a" in world._site.known.racy
    (root / "b").write_text("b")
    world.snapshot()
    world.snapshot()
    assert "a" not in world._site.known.racy
    assert "b" in world._site.known.racy


def test_progress_is_told(root: Path, open_world: Open) -> None:
    told: list[tuple[int, int | None]] = []
    (root / "a").write_text("a")
    open_world(progress=lambda done, total: told.append((done, total))).snapshot()
    assert told[-1][0] >= 1
