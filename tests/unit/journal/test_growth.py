"""The journal of a run grows with what is new in it: measured with the real session, as the benchmark does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.unit.engine.worlds import MemoryWorld

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "journal_growth.py"


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("journal_growth", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["journal_growth"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    world = MemoryWorld()
    return module.grow(tmp_path_factory.mktemp("growth") / "run", world, world.files.__setitem__)


def test_a_thousand_calls_with_their_tool_calls_take_less_than_three_times_their_unique_content(grown):
    assert 490_000 < grown.context < 510_000
    assert grown.naive > 240_000_000
    assert grown.ratio < 3


def test_the_second_half_of_a_run_takes_as_much_room_as_the_first(grown):
    first, second = grown.halves
    assert 0.8 < second / first < 1.2
