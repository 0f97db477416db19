"""What is removed with a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrewind.compose.collecting import remove_leftovers, remove_run
from agentrewind.compose.home import Home
from agentrewind.core.crashpoints import arm, disarm
from agentrewind.core.records import RunStarted
from agentrewind.journal.writer import JournalWriter

RUN = "20261201-003812-first-0001"


class Killed(BaseException): ...


def die() -> None:
    raise Killed


def test_a_removal_that_was_cut_off_is_finished_with_the_sandbox_of_the_run(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").made()
    JournalWriter.create(home.run_dir(RUN), RunStarted(RUN, str(tmp_path), 1, "0")).close()
    (home.sandbox_of(RUN) / "files" / "tmp").mkdir(parents=True)
    other = home.sandbox_of("20261201-003812-other-0002")
    other.mkdir()
    arm("store.gc-run-hidden", die)
    try:
        with pytest.raises(Killed):
            remove_run(home, RUN)
    finally:
        disarm()
    remove_leftovers(home)
    assert list((home.root / "sandboxes").iterdir()) == [other]
    assert list(home.runs.iterdir()) == []
