"""The benchmark with the real mini-SWE-agent."""

from __future__ import annotations

import pytest

from tests.e2e.test_bench import bench, suite  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.lane, pytest.mark.timeout(300)]


def test_the_four_strategies_with_the_real_harness(suite, tmp_path) -> None:  # noqa: F811
    out = bench(suite, tmp_path / "out", "--harness", "mini-swe-agent", "--tasks", "first", "--jobs", "2")
    assert (out["tally"]["made"], out["tally"]["abnormal"]) == (4, 0)
    by = {cell["strategy"]: cell for cell in out["cells"]}
    assert by["rewind"]["success"] >= by["continue"]["success"]
    assert by["restart"]["runs"] == by["review"]["runs"] == 1
