"""Who plays. With Ray in the lane: make test-worlds."""

from __future__ import annotations

import sys

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.learn.evaluation import Plan, evaluate
from agentrewind.learn.workers import Workers, in_this_process, processes, ray_actors

PLAN = Plan(("minesweeper:5:4", "sokoban:6:2"), policies=("noisy:0.5",), seeds=(0, 1), instances=6, style="compact")


def test_one_process_is_this_one() -> None:
    assert processes(1) is in_this_process


@pytest.mark.parametrize("workers", [in_this_process, processes(2)])
def test_results_come_in_order_and_the_error_of_a_part_is_raised(workers: Workers) -> None:
    with workers() as each:
        assert list(each(len, ["a", "bc", "", "def"])) == [1, 2, 0, 3]
        with pytest.raises(TypeError):
            list(each(len, ["a", 1]))


def test_without_ray_it_says_so_and_nothing_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"agentrewind\[ray\]"):
        evaluate(PLAN, workers=ray_actors("local", 2))
