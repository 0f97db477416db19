"""Pairs of recoveries, counted by hand."""

from __future__ import annotations

import json

import pytest

from agentrewind.bench.recovering import RECOVERY, Pair, paired_test, pairs_in, recovered
from agentrewind.bench.results import Result, Spec
from agentrewind.core.codec import to_plain
from agentrewind.core.errors import UsageError


def result(task: str, arm: str, satisfied: int, nodes: int, **more) -> Result:
    spec = Spec(task, arm, "builtin", "m", 0)
    return Result(spec, success=satisfied == 4, satisfied=satisfied, total=4, ended="", nodes=nodes, **more)


def pair(task: str, forward: int, back: int, **more) -> Pair:
    ends = result(task, "continue", forward, 30), result(task, "rewind", back, 26, **more)
    return Pair(result(task, "continue", 2, 20), *ends)


def test_rates_changes_and_the_paired_test_by_hand() -> None:
    pairs = [pair("a", 2, 4), pair("a", 4, 4), pair("b", 1, 4), pair("c", 4, 3)]
    forward, back = recovered(pairs)
    assert (forward.recovered, forward.rate, back.recovered, back.rate) == (2, 0.5, 3, 0.75)
    assert forward.change == pytest.approx((0 + 0.5 - 0.25 + 0.5) / 4)
    assert back.change == pytest.approx((0.5 + 0.5 + 0.5 + 0.25) / 4)
    assert (forward.nodes, back.nodes) == (10, 6)
    found = paired_test(pairs)
    assert (found["won"], found["lost"], found["tasks_that_differ"]) == (2, 1, 3)
    assert found["progress_difference"]["value"] == pytest.approx((0.25 + 0.75 - 0.25) / 3)
    assert found["r"] == pytest.approx((2 + 3 - 1) / 6)


def test_pairs_are_read_and_those_of_which_an_arm_does_not_count_left_out(tmp_path) -> None:
    for number, item in enumerate([pair("a", 2, 4), pair("b", 2, 4, abnormal="transport")]):
        path = tmp_path / f"runs/t/continue/h/m/{number}"
        path.mkdir(parents=True)
        (path / RECOVERY).write_text(json.dumps(to_plain(item)))
    assert pairs_in(tmp_path) == [pair("a", 2, 4)]
    with pytest.raises(UsageError, match="no failed endpoint"):
        recovered([])
    (tmp_path / "runs/t/continue/h/m/0" / RECOVERY).write_text("{}")
    with pytest.raises(UsageError, match="not a pair"):
        pairs_in(tmp_path)
