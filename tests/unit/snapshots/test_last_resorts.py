"""What is left to do when something that the store itself needs is damaged or lost, or a restore can't be finished."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.errors import AgentRewindError, RestoreRefused, UsageError
from agentrewind.snapshots.rules import LONGEST_PATTERN, PathClass, PathRules
from agentrewind.snapshots.workspace import WorkspaceWorld


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "w"
    path.mkdir()
    return path


def opened(root: Path, **options: object) -> WorkspaceWorld:
    return WorkspaceWorld.open(root, root.parent / "store", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("byte", [0, 10, 27, 28])
def test_a_store_whose_first_line_is_damaged_is_known_by_its_packs(root: Path, byte: int) -> None:
    (root / "a").write_text("a")
    with opened(root) as world:
        target = world.snapshot()
    mark = root.parent / "store" / "format"
    data = bytearray(mark.read_bytes())
    data[byte] ^= 2
    mark.write_bytes(data)
    (root / "a").unlink()
    with opened(root) as world:
        world.restore(target.id)
    assert (root / "a").read_text() == "a"
    data[byte] ^= 2
    assert mark.read_bytes() == data


def test_what_holds_no_packs_of_ours_is_no_store(root: Path) -> None:
    store = root.parent / "store"
    (store / "packs").mkdir(parents=True)
    (store / "format").write_bytes(b"something else")
    (store / "packs" / "000001.pack").write_bytes(b"something else")
    with pytest.raises(UsageError, match="not a snapshot store"):
        opened(root)
    assert (store / "format").read_bytes() == b"something else"


def test_a_lost_key_is_told_and_private_files_are_saved_anew(root: Path) -> None:
    (root / ".env").write_text("TOKEN=1")
    time.sleep(0.1)  # its times prove from then on that it is unchanged
    with opened(root) as world:
        before = world.snapshot()
    (root.parent / "store" / "key").unlink()
    told: list[str] = []
    with opened(root, warn=told.append) as world:
        assert "can't be read" in told[0]
        assert world.warnings == tuple(told)
        assert not world.verify(before.id).ok
        now = world.snapshot()
        assert world.verify(now.id).ok
        (root / ".env").unlink()
        with pytest.raises(AgentRewindError, match=r"\.env"):
            world.restore(before.id)
        world.restore(now.id)
    assert (root / ".env").read_text() == "TOKEN=1"


def test_a_damaged_record_of_a_restore_locks_nothing(root: Path) -> None:
    (root / "a").write_text("a")
    with opened(root) as world:
        target = world.snapshot()
    (root.parent / "store" / "restore-intent").write_bytes(b"{")
    (root / "a").write_text("b")
    with opened(root) as world:
        world.snapshot()
        world.restore(target.id)
        assert world.pending is None


def test_a_cache_that_is_recognised_goes_unsaved_and_what_a_person_called_one_is_saved(root: Path) -> None:
    rules = PathRules(volatile=(*PathRules().volatile, "*.txt", "mine/"))
    (root / "keep").write_text("x")
    with opened(root, rules=rules) as world:
        target = world.snapshot()
        (root / "__pycache__").mkdir()
        (root / "__pycache__" / "a.pyc").write_text("cache")
        (root / "mine" / "deep").mkdir(parents=True)
        (root / "mine" / "deep" / "a").write_text("mine")
        (root / "new.txt").write_text("only copy")
        plan = world.restore(target.id, dry_run=True)
        report = world.restore(target.id)
        assert {act.path for act in plan.acts} == {act.path for act in report.acts}
        assert {path.name for path in root.iterdir()} == {"keep"}
        assert report.live is not None
        world.restore(report.live)
        assert (root / "new.txt").read_text() == "only copy"
        assert (root / "mine" / "deep" / "a").read_text() == "mine"
        assert not (root / "__pycache__" / "a.pyc").exists()


def test_nothing_is_touched_where_what_stands_there_never_gets_saved(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("old")
    with opened(root) as world:
        target = world.snapshot()
        (root / "a").write_text("new")
        monkeypatch.setattr(
            "agentrewind.snapshots.restoring.unreadable", lambda *_: dict.fromkeys(["a"], "can't be read back")
        )
        with pytest.raises(RestoreRefused, match="'a': can't be read back"):
            world.restore(target.id)
        assert world.pending is None
    assert (root / "a").read_text() == "new"


def test_what_a_process_has_open_is_replaced_and_not_written_to(root: Path) -> None:
    (root / "a").write_text("old")
    with opened(root) as world:
        target = world.snapshot()
        (root / "a").write_text("new")
        before = (root / "a").stat().st_ino
        with (root / "a").open("r+b"):
            world.restore(target.id)
        assert (root / "a").stat().st_ino != before
        assert (root / "a").read_text() == "old"


def test_what_is_stored_while_a_file_is_moved_aside_is_put_back(root: Path) -> None:
    (root / "keep").write_text("x")
    with opened(root) as world:
        target = world.snapshot()
        (root / "a").write_bytes(b"new")
        time.sleep(0.1)
        world.snapshot()
        with (root / "a").open("r+b") as file:

            def store_and_turn_back_the_clock() -> None:
                crashpoints.disarm()
                st = os.fstat(file.fileno())
                os.pwrite(file.fileno(), b"NEW", 0)
                os.utime(file.fileno(), ns=(st.st_atime_ns, st.st_mtime_ns))

            crashpoints.arm("snapshot.restore-displaced", store_and_turn_back_the_clock)
            world.restore(target.id)
        kept = [world.read(item.id, "a") for item in world.snapshots()]
    assert b"NEW" in kept


def test_an_entry_of_its_own(root: Path) -> None:
    (root / "a").write_text("a")
    with opened(root) as world:
        first = world.snapshot()
        assert world.snapshot("x").id == first.id
        second = world.snapshot("x", own=True)
        assert second.fingerprint == first.fingerprint
        assert not second.changes
        (root / "a").write_text("b")
        report = world.restore(first.id)
        assert report.live is not None
        assert world.find(report.live).automatic
        assert [world.by_hand(item.id) for item in world.snapshots()] == [True, True, False]
    with opened(root) as world:
        assert [item.label for item in world.snapshots()][:2] == ["", "x"]
        assert all(world.verify(item.id).ok for item in world.snapshots())


@pytest.mark.parametrize(
    "pattern",
    [
        "*" * 40 + "a",
        "*a" * 400,
        "**/" * 300 + "b",
        "a/" + "**/a*/" * 120 + "b",
        "[ab]*" * 190,
        "*?" * 400,
        "?**a*b/**x",
    ],
)
@pytest.mark.parametrize("path", ["a" * 255, "/".join(["aaa"] * 1000), "ab" * 127])
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    rules = PathRules(excluded=(pattern,))
    begin = time.process_time()
    rules.of(path, path.rpartition("/")[2], PathClass.TRACKED, is_directory=False)
    assert time.process_time() - begin < 2  # what goes back behind each star takes years


def test_a_pattern_of_a_book_is_refused() -> None:
    with pytest.raises(UsageError, match=f"more than {LONGEST_PATTERN}"):
        PathRules(excluded=("a" * (LONGEST_PATTERN + 1),))
    with pytest.raises(UsageError, match="more than 4 times"):
        PathRules(excluded=("x/" + "a**" * 5,))


def test_stars_across_directories_inside_of_a_name() -> None:
    rules = PathRules(excluded=("src/**.txt",))
    paths = {"src/a.txt": True, "src/a/b/c.txt": True, "src/a.txt/b": False, "a.txt": False}
    found = {
        path: rules.of(path, path.rpartition("/")[2], PathClass.TRACKED, is_directory=False) is PathClass.EXCLUDED
        for path in paths
    }
    assert found == paths
