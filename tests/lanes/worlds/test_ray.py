"""Whoever plays, the scores are the same."""

from __future__ import annotations

import pytest

from agentrewind.learn.evaluation import Plan, evaluate
from agentrewind.learn.workers import ray_actors

PLAN = Plan(("minesweeper:5:4", "sokoban:6:2"), policies=("noisy:0.5",), seeds=(0, 1), instances=6, style="compact")


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
def test_actors_of_ray_find_the_same_scores() -> None:
    ray = pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    assert evaluate(PLAN, workers=ray_actors("local", 2)) == evaluate(PLAN)
    assert not ray.is_initialized()
