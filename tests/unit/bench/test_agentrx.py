"""How annotated failures become trees, and how rules are scored on them: by hand, and on the public data."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared/data/agentrx"


@pytest.fixture(scope="module")
def agentrx():
    spec = importlib.util.spec_from_file_location("agentrx", ROOT / "benchmarks/agentrx.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["agentrx"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def says(*calls: tuple[str, str]) -> dict:
    listed = [{"id": f"c{name}{text}", "function": {"name": name, "arguments": text}} for name, text in calls]
    return {"role": "assistant", "content": "", "tool_calls": listed or None}


def result(name: str, text: str, content: str) -> dict:
    return {"role": "tool", "tool_call_id": f"c{name}{text}", "content": content}


LOG = [
    {"role": "system", "content": "policy"},
    {"role": "user", "content": "hello"},
    says(("get", "1")),
    result("get", "1", "{}"),
    says(("get", "2")),
    result("get", "2", "Error: order not found"),
    says(("cancel_order", "1")),
    result("cancel_order", "1", "done"),
    says(("get", "3")),
    result("get", "3", "{}"),
    says(),
    {"role": "user", "content": "bye"},
]
"""Five steps of the model: the second fails, the third changes the world."""


def run_of(agentrx, tmp_path: Path, step: int, agent: str = "Assistant"):
    failures = [{"failure_id": 1, "step_number": step, "failed_agent": agent}]
    truth = [{"trajectory_id": 7, "failures": failures, "root_cause": {"failure_id": 1}}]
    (tmp_path / "tau_dataset_failed.json").write_text(json.dumps([{"task_id": 7, "traj": LOG}]))
    (tmp_path / "tau_ground_truth.json").write_text(json.dumps(truth))
    (found,) = agentrx.failed_runs(tmp_path)
    return found


def test_the_annotated_step_is_the_model_s_own_or_the_last_one_before_it(agentrx, tmp_path) -> None:
    assert run_of(agentrx, tmp_path, 7).decisive == 2, "messages are counted from 1"
    user = run_of(agentrx, tmp_path, 12, "User")
    assert (user.decisive, user.by_agent) == (4, False)


def test_each_rule_chooses_as_it_would_in_a_run(agentrx, tmp_path) -> None:
    run = run_of(agentrx, tmp_path, 7)
    tree = agentrx.RunTree.fold(run.events)
    chosen = {name: rule(tree) for name, rule in agentrx.rules(run).items()}
    assert chosen["previous"] == 4
    assert chosen["first-error"] == 1
    assert chosen["last-change"] == chosen["first change"] == 2
    assert chosen["loop"] is chosen["the same error twice"] is None


def test_scores_by_hand(agentrx, tmp_path) -> None:
    run = run_of(agentrx, tmp_path, 7)
    found = {item.rule: item for item in agentrx.scored([run])}
    assert [found["last-change"].within[k].value for k in (0, 1)] == [1, 1]
    assert (found["first-error"].within[0].value, found["first-error"].within[1].value) == (0, 1)
    assert (found["first-error"].early.value, found["first-error"].wasted) == (1, 1)
    assert (found["previous"].early.value, found["previous"].distance) == (0, 2)
    assert found["random"].within[0].value == pytest.approx(1 / 5)
    assert found["random"].early.value == pytest.approx(3 / 5)
    assert (found["loop"].chose, found["loop"].within[5].value) == (0, 0)


@pytest.mark.skipif(not DATA.exists(), reason="the annotated runs aren't there (shared/data beside the checkout)")
def test_the_public_runs_are_all_read(agentrx) -> None:
    runs = agentrx.failed_runs(DATA)
    assert (len(runs), sum(run.by_agent for run in runs)) == (29, 21)
    assert all(0 <= run.decisive < len(run.steps) for run in runs)
    for item in agentrx.scored(runs):
        shares = [item.within[k].value for k in agentrx.WITHIN]
        assert shares == sorted(shares)
        assert item.early.low <= item.early.value <= item.early.high
