"""The last recoverable point: by hand, by law, and on a little task that is really played."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.bench.bisection import last_true
from agentrewind.bench.one import Conditions, run_one
from agentrewind.bench.results import Spec, read
from tests.unit.bench.little import little_task


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_last_that_holds_is_found_in_few_tries(length, holding) -> None:
    tried: list[int] = []

    def holds(place: int) -> bool:
        tried.append(place)
        return place < holding

    assert last_true(length, holds) == min(length, holding) - 1
    assert len(tried) <= length.bit_length()


@pytest.mark.timeout(600)
def test_a_failed_run_says_how_long_it_went_on_in_vain(tmp_path) -> None:
    """The bin is emptied first, in every run: what comes after that is in vain."""
    knobs = "error_rate=1,premature=0,format_errors=0,persistence=1"
    little = little_task(tmp_path / "tasks")
    (little / "solution/policy.toml").write_text(
        (little / "solution/policy.toml").read_text().replace("0.6", "1").replace("0.3", "0.0001")
    )
    conditions = Conditions({"little": str(little)}, sandbox="none", regret=True)
    spec = Spec("little", "continue", "builtin", f"simulated:plain,{knobs}", 0)
    result = run_one(spec, conditions, tmp_path / "run")
    assert not result.success
    # the call that emptied the bin (the second of the model) is the last point; each call is two nodes
    assert result.in_vain == result.nodes - 2
    assert read(tmp_path / "run/result.json") == result


@pytest.mark.timeout(600)
def test_a_rewind_just_before_the_harm_throws_nothing_away_and_one_to_the_beginning_does(tmp_path) -> None:
    little = little_task(tmp_path / "tasks")
    (little / "solution/policy.toml").write_text(
        (little / "solution/policy.toml").read_text().replace("0.6", "1").replace("0.3", "0.0001")
    )
    conditions = Conditions({"little": str(little)}, sandbox="none", regret=True)
    knobs = "premature=0,format_errors=0,attribution=1,memory_right=1,memory_wrong=0,rewind_inclination=1"
    for arm, regret in (("rewind+selector=oracle", 0), ("restart", 2)):
        spec = Spec("little", arm, "builtin", f"simulated:plain,{knobs}", 0)
        result = run_one(spec, conditions, tmp_path / arm)
        assert result.success
        assert result.moves[0].regret == regret
        assert result.in_vain is None
