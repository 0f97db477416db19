"""A restore of a workspace with a sandbox that was cut off is finished by whoever opens the workspace next, once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import settle
from agentrewind.compose.worlds import open_world
from agentrewind.core.crashpoints import arm, disarm
from agentrewind.core.errors import UsageError
from agentrewind.core.records import RunStarted
from agentrewind.journal.writer import JournalWriter

RUN = "20261201-003812-first-0001"


class Killed(BaseException): ...


def die() -> None:
    raise Killed


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").made()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "w"
    made.mkdir()
    (made / "a").write_text("one")
    return made


def cut_off(home: Home, root: Path, point: str, after: int) -> Path:
    """A run with a sandbox that was killed in a restore; what it had put into its `/tmp`."""
    JournalWriter.create(home.run_dir(RUN), RunStarted(RUN, str(root), 1, "0")).close()
    files = home.sandbox_of(RUN) / "files" / "tmp"
    files.mkdir(parents=True)
    with open_world(home, root, run_id=RUN) as world:
        first = world.snapshot()
        (root / "a").write_text("two")
        (files / "x").write_text("x")
        world.snapshot()
        arm(point, die, after=after)
        try:
            with pytest.raises(Killed):
                world.restore(first.id)
        finally:
            disarm()
    return files / "x"


@pytest.mark.parametrize(
    ("point", "after"),
    [
        ("snapshot.restore-intent-written", 0),
        ("snapshot.side restored", 0),
        ("snapshot.restore-applied", 1),
        ("snapshot.restore-intent-cleared", 1),
    ],
)
def test_work_that_came_after_it_is_not_taken_back_when_the_first_run_is_opened_again(
    home: Home, root: Path, point: str, after: int
) -> None:
    of_the_side = cut_off(home, root, point, after)
    with open_world(home, root) as world:
        assert settle(home, world, root)
        assert (root / "a").read_text() == "one"
        assert not of_the_side.exists()
        (root / "a").write_text("work of another run")
        world.snapshot()
    with open_world(home, root, run_id=RUN) as world:
        assert world.pending is None
        assert settle(home, world, root) == []
    assert (root / "a").read_text() == "work of another run"


def test_where_the_side_cannot_come_back_others_can_still_work_there_and_are_told(home: Home, root: Path) -> None:
    cut_off(home, root, "snapshot.restore-intent-written", 0)
    for pack in (home.sandbox_of(RUN) / "stores" / RUN / "packs").iterdir():
        pack.unlink()
    with open_world(home, root) as world:
        (said,) = settle(home, world, root)
    assert RUN in said
    assert "can't be finished" in said
    assert (root / "a").read_text() == "two"


def test_a_restore_in_another_workspace_is_left_to_those_who_work_there(home: Home, root: Path, tmp_path: Path) -> None:
    cut_off(home, root, "snapshot.side restored", 0)
    other = tmp_path / "other"
    other.mkdir()
    with open_world(home, other) as world:
        assert settle(home, world, other) == []
    assert (root / "a").read_text() == "two"


@pytest.mark.parametrize("there", ["gone", "a file"])
def test_a_sandbox_whose_files_are_gone_is_brought_back_or_refused_but_never_passed_over(
    home: Home, root: Path, there: str
) -> None:
    files = home.sandbox_of(RUN) / "files"
    (files / "tmp").mkdir(parents=True)
    (files / "tmp" / "x").write_text("x")
    with open_world(home, root, run_id=RUN) as world:
        first = world.snapshot()
        (root / "a").write_text("two")
        world.snapshot()
    shutil.rmtree(files)
    if there == "a file":
        files.write_text("of somebody")
        with pytest.raises(UsageError, match="files"), open_world(home, root, run_id=RUN):
            pass
        assert files.read_text() == "of somebody"
    else:
        with open_world(home, root, run_id=RUN) as world:
            world.restore(first.id)
        assert (files / "tmp" / "x").read_text() == "x"
