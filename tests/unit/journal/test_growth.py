"""The journal of a run grows with what is new in it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "journal_growth.py"


def grow(*args, **options):
    spec = importlib.util.spec_from_file_location("journal_growth", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["journal_growth"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.grow(*args, **options)


def test_a_thousand_calls_over_half_a_megabyte_take_less_than_three_times_their_content(tmp_path):
    grown = grow(tmp_path / "run")
    assert grown.messages > 490_000
    assert grown.naive > 240_000_000
    assert grown.ratio < 3
    assert grown.disk < 2_500_000


def test_with_tool_records_it_stays_within_four_times_the_content(tmp_path):
    assert grow(tmp_path / "run", tools=True).ratio < 4


def test_twice_the_calls_take_twice_the_room(tmp_path):
    one, two = (grow(tmp_path / str(calls), calls, calls * 500).disk for calls in (200, 400))
    assert 1.9 < two / one < 2.1
