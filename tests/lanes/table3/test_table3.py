"""The paper's comparison of harnesses, by the command that docs/harnesses.md gives, with the simulated model."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from tests.e2e.test_bench import bench, suite  # noqa: F401 (a fixture)

HARNESSES = {"mini-swe-agent": "minisweagent", "qwen-agent": "qwen_agent", "smolagents": "smolagents"}
MISSING = [name for name, package in HARNESSES.items() if find_spec(package) is None]

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make test-table3 has them)"),
]


def test_three_harnesses_with_and_without_rewinds_by_one_command(suite, tmp_path) -> None:  # noqa: F811
    words = ("--paper", "--harness", ",".join(HARNESSES), "--strategies", "continue,rewind")
    out = bench(suite, tmp_path / "out", *words, "--tasks", "first", "--runs", "2", "--jobs", "2")
    assert (out["tally"]["made"], out["tally"]["abnormal"]) == (12, 0)
    assert {cell["harness"] for cell in out["cells"]} == set(HARNESSES)
    by = {(cell["harness"], cell["strategy"]): cell for cell in out["cells"]}
    for harness in HARNESSES:
        assert by[harness, "rewind"]["success"] >= by[harness, "continue"]["success"]
    made = [json.loads(path.read_text()) for path in (tmp_path / "out/runs").rglob("result.json")]
    went_back = {item["spec"]["harness"] for item in made if item.get("moves")}
    assert went_back == set(HARNESSES), "each went back by its own kind of call"
