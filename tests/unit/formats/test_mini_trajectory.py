"""Trajectories of mini-SWE-agent 1.1, both ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.compose.trajectories import import_trajectory
from agentrewind.core.errors import UsageError
from agentrewind.core.records import Usage
from agentrewind.integrations.formats.mini_trajectory import FORMAT, _usage, export_mini
from agentrewind.journal.check import check
from agentrewind.journal.reader import RunLog

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def call(number: int, command: str) -> dict:
    return {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": command})},
    }


def trajectory() -> dict:
    usage = {"prompt_tokens": 11, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}
    response = {"id": "r", "model": "gpt-x", "choices": [{"message": {"role": "assistant", "content": "Look."}}]}
    return {
        "info": {
            "model_stats": {"instance_cost": 0.5, "api_calls": 2},
            "config": {"model": {"model_name": "gpt-x"}},
            "mini_version": "2.4.6",
            "exit_status": "Submitted",
            "submission": "diff --git a b",
        },
        "messages": [
            {"role": "system", "content": "You can use bash."},
            {"role": "user", "content": f"Fix it with {TOKEN}"},
            {
                "role": "assistant",
                "content": "Look.",
                "tool_calls": [call(1, "ls")],
                "extra": {
                    "actions": [{"command": "ls", "tool_call_id": "c1"}],
                    "cost": 0.25,
                    "timestamp": 1_790_000_000.5,
                    "response": {**response, "usage": usage},
                },
            },
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": "<output>a.txt</output>",
                "extra": {"raw_output": "a.txt\n", "returncode": 0, "timestamp": 1_790_000_002.0},
            },
            {
                "role": "assistant",
                "content": "Done.",
                "tool_calls": [call(2, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")],
                "extra": {"actions": [], "cost": 0.25, "timestamp": 1_790_000_003.0, "response": {"choices": []}},
            },
            {"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": "diff --git a b"}},
        ],
        "trajectory_format": FORMAT,
    }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def imported(home: Home, tmp_path: Path, content: dict) -> Run:
    file = tmp_path / "run.traj.json"
    file.write_text(json.dumps(content))
    return Run(home, import_trajectory(home, file))


def test_an_imported_trajectory_is_a_readable_run(home: Home, tmp_path: Path) -> None:
    run = imported(home, tmp_path, trajectory())
    assert check(run.path) == []
    assert [node.began.kind for node in run.records()] == ["llm", "tool", "llm"]
    assert run.state == "done"
    assert run.tree.ended.answer == "diff --git a b"
    first, tool, last = run.records()
    assert [message["role"] for message in run.messages(first.uid)] == ["system", "user"]
    assert [message["role"] for message in run.messages(last.uid)] == ["system", "user", "assistant", "tool"]
    assert first.ended.calls == ("bash(ls)",)
    assert (first.ended.usage.input, first.ended.usage.cached, first.ended.usage.usd) == (11, 3, 0.25)
    assert tool.began.tool.arguments == {"command": "ls"}
    assert run.output(tool.uid) == {"output": "a.txt\n", "returncode": 0}
    cost = run.cost().total
    assert (cost.usd, cost.uncounted, cost.wall_ms) == (0.5, 1, pytest.approx(2500))


def test_secrets_of_a_trajectory_are_taken_out_as_in_any_run(home: Home, tmp_path: Path) -> None:
    run = imported(home, tmp_path, trajectory())
    assert all(TOKEN not in path.read_text() for path in run.path.iterdir() if path.is_file())
    assert run.started.task == "Fix it with [redacted github-token]"


def test_there_is_nothing_to_go_back_to_in_it(home: Home, tmp_path: Path) -> None:
    run = imported(home, tmp_path, trajectory())
    assert run.checkpoints() == []
    assert not run.resumable


def test_what_was_imported_is_written_out_as_it_was(home: Home, tmp_path: Path) -> None:
    run = imported(home, tmp_path, trajectory())
    export_mini(run._log, tmp_path / "again.json")
    again, before = json.loads((tmp_path / "again.json").read_text()), trajectory()
    assert again["trajectory_format"] == FORMAT
    assert again["info"]["model_stats"] == {"instance_cost": 0.5, "api_calls": 2}
    assert again["info"]["exit_status"] == "Submitted"
    roles = [message["role"] for message in before["messages"]]
    assert [message["role"] for message in again["messages"]] == roles
    for was, now in zip(before["messages"][2:4], again["messages"][2:4], strict=True):
        assert {key: now[key] for key in was if key != "extra"} == {key: was[key] for key in was if key != "extra"}
    assert again["messages"][2]["extra"]["actions"] == [{"command": "ls", "tool_call_id": "c1"}]
    assert again["messages"][3]["extra"] == {"raw_output": "a.txt\n", "returncode": 0}


def test_a_run_with_a_rewind_is_written_as_the_path_on_which_it_stands(log: RunLog, tmp_path: Path) -> None:
    export_mini(log, tmp_path / "t.json")
    messages = json.loads((tmp_path / "t.json").read_text())["messages"]
    roles = [message["role"] for message in messages]
    assert roles[:6] == ["system", "user", "assistant", "tool", "system", "assistant"]
    assert "do otherwise" in messages[4]["content"]
    assert roles[-1] == "exit"
    assert "backtrack" not in json.dumps([message for message in messages if message["role"] != "system"])


def test_both_ways_keep_calls_results_and_answers(log: RunLog, home: Home, tmp_path: Path) -> None:
    export_mini(log, tmp_path / "t.json")
    run = Run(home, import_trajectory(home, tmp_path / "t.json"))
    path = [node for node in log.tree.path() if node.began.thread == "main"]
    assert [node.began.kind for node in run.records()] == [node.began.kind for node in path]
    assert [node.ended.digest for node in run.records() if node.is_llm] == [
        node.ended.digest for node in path if node.is_llm
    ]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "isn't JSON"),
        ("[1]", "not a trajectory of the format"),
        ('{"trajectory_format": "mini-swe-agent-9"}', "mini-swe-agent-9"),
        (json.dumps({"trajectory_format": FORMAT, "messages": 3}), "no list of messages"),
        (json.dumps({"trajectory_format": FORMAT, "messages": [3]}), "no list of messages"),
        ("[" * 100_000, "isn't JSON"),
    ],
)
def test_what_is_no_trajectory_is_refused_and_there_is_no_run(
    home: Home, tmp_path: Path, content: str, what: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=what):
        import_trajectory(home, file)
    assert not home.runs.exists() or home.run_ids() == []


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, {"role": 5}, {"extra": "x", "role": "assistant"}])
def test_odd_messages_make_no_mess(home: Home, tmp_path: Path, odd: object) -> None:
    content = trajectory()
    if isinstance(odd, dict):
        content["messages"].insert(2, odd)
    else:
        content["messages"][2]["tool_calls"] = odd
        content["messages"][2]["extra"] = odd
        content["info"] = odd
    run = imported(home, tmp_path, content)
    assert check(run.path) == []


@pytest.mark.lane
def test_a_trajectory_of_the_real_agent_is_imported(home: Home, tmp_path: Path) -> None:
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

    outputs = [
        make_toolcall_output("Look.", [call(1, "echo hello")], [{"command": "echo hello", "tool_call_id": "c1"}]),
        make_toolcall_output(
            "Done.",
            [call(2, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo ok")],
            [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo ok", "tool_call_id": "c2"}],
        ),
    ]
    file = tmp_path / "real.traj.json"
    agent = DefaultAgent(
        DeterministicToolcallModel(outputs=outputs),
        LocalEnvironment(),
        system_template="You can use bash.",
        instance_template="Do: {{task}}",
        output_path=file,
    )
    agent.run("it")
    assert json.loads(file.read_text())["trajectory_format"] == FORMAT
    run = Run(home, import_trajectory(home, file))
    assert [node.began.kind for node in run.records()] == ["llm", "tool", "llm"]
    assert run.output("rec_000002")["output"] == "hello\n"
    assert run.started.task == "Do: it"
    assert run.state == "done"


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {
                "input_tokens": 11,
                "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(11, 4, 3, 2),
        ),
        (
            {
                "prompt_tokens": 11,
                "completion_tokens": 4,
                "cache_creation_input_tokens": 5,
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(11, 4, 0, 2, cache_write=5),
        ),
        ("many", Usage()),
    ],
)
def test_tokens_are_counted_as_the_dialect_of_the_answer_counts_them(usage: object, counted: Usage) -> None:
    assert _usage({"usage": usage}) == counted
