"""ATIF 1.8: what a reader of trajectories gets to see. The format's own models are those of the package `harbor`."""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.core.records import RunStarted
from agentrewind.integrations.formats.atif import export_atif
from agentrewind.journal.reader import RunLog, read_run
from agentrewind.journal.writer import JournalWriter

HARBOR = Path(os.environ.get("AGENTREWIND_HARBOR", Path.home() / ".cache/agentrewind/lanes/harbor-0.26.0"))
"""Where `make test-atif` unpacks the wheel. The package needs Python 3.12 and 300 MB more; its models only pydantic."""


@pytest.fixture
def trajectory_type(monkeypatch: pytest.MonkeyPatch) -> Any:
    models = HARBOR / "harbor" / "models"
    if not models.is_dir():
        pytest.skip("the models of harbor aren't there; `make test-atif` fetches them")
    for name, place in (("harbor", HARBOR / "harbor"), ("harbor.models", models)):
        package = types.ModuleType(name)
        package.__path__ = [str(place)]
        monkeypatch.setitem(sys.modules, name, package)
    return importlib.import_module("harbor.models.trajectories").Trajectory


def exported(log: RunLog, to: Path) -> dict[str, dict]:
    export_atif(log, to)
    return {path.name: json.loads(path.read_text()) for path in sorted(to.iterdir())}


def test_the_formats_own_models_accept_every_trajectory(log: RunLog, tmp_path: Path, trajectory_type: Any) -> None:
    for found in exported(log, tmp_path / "out").values():
        read = trajectory_type.model_validate(found)
        assert read.to_json_dict() == found


def test_they_accept_those_of_other_dialects(other_dialect: RunLog, tmp_path: Path, trajectory_type: Any) -> None:
    [found] = exported(other_dialect, tmp_path / "out").values()
    assert trajectory_type.model_validate(found).to_json_dict() == found


def test_they_refuse_what_is_not_the_format(log: RunLog, tmp_path: Path, trajectory_type: Any) -> None:
    found = exported(log, tmp_path / "out")["branch-b0.json"]
    found["steps"][1]["step_id"] = 7
    with pytest.raises(ValueError, match="step_id"):
        trajectory_type.model_validate(found)


def test_each_branch_is_a_trajectory_and_one_that_was_left_names_where_it_goes_on(log: RunLog, tmp_path: Path) -> None:
    found = exported(log, tmp_path / "out")
    assert list(found) == ["branch-b0.json", "branch-b1.json"]
    first, second = found.values()
    assert first["continued_trajectory_ref"] == "branch-b1.json"
    assert "continued_trajectory_ref" not in second
    assert second["extra"]["forked_at"] == "rec_000003"
    assert {item["schema_version"] for item in (first, second)} == {"ATIF-v1.8"}


def test_what_a_branch_kept_is_marked_as_copied_and_the_rest_is_not(log: RunLog, tmp_path: Path) -> None:
    found = exported(log, tmp_path / "out")
    assert not any(step.get("is_copied_context") for step in found["branch-b0.json"]["steps"])
    steps = found["branch-b1.json"]["steps"]
    copied = [step.get("is_copied_context", False) for step in steps]
    assert copied == sorted(copied, reverse=True)
    assert [
        step["extra"]["record_uid"] for step in steps if step["source"] == "agent" and "is_copied_context" in step
    ] == ["rec_000001"]
    memory = next(step for step in steps if "do otherwise" in step["message"])
    assert (memory["source"], "is_copied_context" in memory) == ("system", False)


def test_steps_hold_messages_calls_and_their_results_once(log: RunLog, tmp_path: Path) -> None:
    steps = exported(log, tmp_path / "out")["branch-b0.json"]["steps"]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent", "agent"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4, 5]
    first = steps[2]
    assert first["message"] == "thinking"
    assert first["tool_calls"][0] == {
        "tool_call_id": "c1",
        "function_name": "shell",
        "arguments": {"name": "a", "text": "1"},
    }
    assert first["observation"]["results"] == [{"content": "wrote a", "source_call_id": "c1"}]
    assert first["metrics"] == {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 0}


def test_a_sub_agent_is_a_trajectory_inside_and_its_failed_call_is_a_step_without_metrics(
    log: RunLog, tmp_path: Path
) -> None:
    [other] = exported(log, tmp_path / "out")["branch-b1.json"]["subagent_trajectories"]
    assert [step["message"] for step in other["steps"]][:2] == [
        "You are another agent.",
        "another task, of a sub-agent",
    ]
    failed = other["steps"][-1]
    assert failed["extra"]["error"].startswith("HTTP 500")
    assert "metrics" not in failed


def test_totals_are_left_out_where_a_call_is_unknown(log: RunLog, tmp_path: Path) -> None:
    found = exported(log, tmp_path / "out")
    assert found["branch-b0.json"]["final_metrics"]["total_prompt_tokens"] == 30
    totals = found["branch-b1.json"]["final_metrics"]
    assert "total_prompt_tokens" not in totals
    assert totals["extra"]["calls_without_tokens"] == 1


def test_the_other_dialects_are_read_too(other_dialect: RunLog, tmp_path: Path) -> None:
    [found] = exported(other_dialect, tmp_path / "out").values()
    system, user, agent, last = found["steps"]
    assert (system["source"], system["message"]) == ("system", "You are an agent.")
    assert user["message"] == "list the files"
    assert agent["reasoning_content"] == "I ponder"
    assert agent["tool_calls"][0]["arguments"] == {"command": "ls"}
    assert agent["observation"]["results"] == [{"content": "a.txt", "source_call_id": "c1"}]
    assert agent["metrics"]["prompt_tokens"] == 7
    assert agent["metrics"]["cached_tokens"] == 2
    assert last["message"] == "One."


def test_an_export_replaces_only_an_export_and_only_when_asked(log: RunLog, tmp_path: Path) -> None:
    to = tmp_path / "out"
    exported(log, to)
    with pytest.raises(UsageError, match="not empty"):
        export_atif(log, to)
    export_atif(log, to, force=True)
    (to / "mine.txt").write_text("precious")
    with pytest.raises(UsageError, match="other files"):
        export_atif(log, to, force=True)
    assert (to / "mine.txt").read_text() == "precious"


def test_a_run_without_a_call_has_no_trajectory(tmp_path: Path) -> None:
    with JournalWriter.create(tmp_path / "run", RunStarted("r", "/w", 1, "0")):
        pass
    with pytest.raises(UsageError, match="no model call"):
        export_atif(read_run(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
