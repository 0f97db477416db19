"""What stays of a fork that can't be finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrewind.compose.forking import _with_its_sandbox
from agentrewind.compose.home import Home
from agentrewind.core.errors import StoreError

RUN = "20261201-003812-second-0001"


@pytest.mark.parametrize("named", [True, False])
def test_the_sandbox_stays_with_a_fork_that_is_there_and_goes_with_one_that_is_not(tmp_path: Path, named: bool) -> None:
    home = Home(tmp_path / "home").made()
    mine = home.sandbox_of(RUN) / "files" / "tmp" / "x"

    def fails() -> None:
        mine.parent.mkdir(parents=True)
        mine.write_text("x")
        if named:
            home.run_dir(RUN).mkdir()
        raise StoreError("its directory could not be made")

    with pytest.raises(StoreError), _with_its_sandbox(home, RUN):
        fails()
    assert mine.exists() == named
