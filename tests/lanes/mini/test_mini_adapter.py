"""The adapter of the real mini-SWE-agent keeps the contract of harnesses; what it adds to it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from agentrewind.core.errors import AgentError, ProviderError, StorageFull
from agentrewind.core.strategy import GoOn, Stop
from agentrewind.core.tools import NAMES
from agentrewind.integrations.clients import install
from agentrewind.integrations.harnesses.contract import Job
from agentrewind.integrations.harnesses.mini import MiniSweAgent
from agentrewind.testing.harnesses import DEAD, HarnessContract, RewindContract
from agentrewind.testing.scripted import Turn, call, calls, fail, say
from tests.lanes import needs

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

pytestmark = needs("minisweagent", "mini")


class TestMini(HarnessContract):
    tool = "bash"

    def harness(self):
        return MiniSweAgent(retry_delays_s=(0.02, 0.02, 0.02))

    def job(self, **fields):
        return Job(**fields)

    def submission(self, answer):
        return call("bash", {"command": SUBMIT}, answer)


class TestRewinds(RewindContract):
    agent = "mini-swe-agent"
    place = "agentrewind.integrations.harnesses.mini:MiniSweAgent"
    tool = "bash"
    not_applicable = {  # noqa: RUF012
        "streamed": "mini-SWE-agent asks for whole answers only",
        "async": "mini-SWE-agent is synchronous",
    }

    def submission(self, answer):
        return call("bash", {"command": SUBMIT}, answer)


@pytest.fixture
def play(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    def run(script, *decisions, **fields):
        return TestMini().play(script, workspace, *decisions, **fields)

    return run


def bash(command):
    return call("bash", {"command": command})


def test_a_submission_is_recorded_as_the_command_that_it_is(play):
    run = play([bash(SUBMIT)])
    assert [item.arguments for item in run.notebook.calls] == [{"command": SUBMIT}]


def test_what_is_printed_after_the_marker_is_the_answer(play):
    run = play([call("bash", {"command": f"{SUBMIT}; echo The answer is 7"}, "text")])
    assert run.submissions == ["The answer is 7"]


def test_a_marker_of_a_failed_command_or_not_on_the_first_line_is_no_submission(play):
    run = play([bash(f"{SUBMIT}; exit 1"), bash(f"echo hello; {SUBMIT}"), bash(SUBMIT)])
    assert len(run.submissions) == 1
    assert len(run.model.requests) == 3


def test_after_a_rejection_every_call_of_the_batch_has_its_answer(play):
    batch = calls([("bash", {"command": "echo one"}), ("bash", {"command": SUBMIT}), ("bash", {"command": "touch x"})])
    run = play([batch, bash(SUBMIT)], GoOn("Not yet."), Stop(ok=True, reason="accepted"))
    *_, asked, one, submitted, skipped, told = run.last
    assert [item["id"] for item in asked["tool_calls"]] == [item["tool_call_id"] for item in (one, submitted, skipped)]
    assert "action was not executed" in skipped["content"]
    assert told["content"] == "Not yet."
    assert len(run.notebook.calls) == 3


def test_the_prompt_says_that_a_submission_is_checked(play):
    run = play([bash(SUBMIT)])
    prompt = run.last[1]["content"]
    assert "cannot continue working" not in prompt
    assert prompt.count("you are told what and go on") == 2


@pytest.mark.parametrize("offers", [True, False])
def test_going_back_is_mentioned_only_where_it_is_offered(play, offers):
    run = play([bash(SUBMIT)], offers_rewind=offers)
    assert any(name in run.last[1]["content"] for name in NAMES) == offers


def test_a_command_longer_than_upstreams_limit_is_not_cut_off(play):
    """Thirty seconds is upstream's; two show that none is in force without waiting for it."""
    run = play([bash("sleep 2; echo over"), bash(SUBMIT)])
    assert "over" in run.last[-1]["content"]


def test_the_setting_is_the_time_out_of_commands(play):
    run = play([bash("echo begun; sleep 60"), bash(SUBMIT)], settings={"command_timeout_s": 0.3})
    told = json.loads(run.last[-1]["content"])
    assert told["output"] == "begun\n"
    assert "time-out" in told["exception_info"]


def test_only_bash_is_declared_by_the_harness(play):
    run = play([bash(SUBMIT)])
    assert [tool["function"]["name"] for tool in run.model.last["tools"]] == ["bash"]


def test_answers_that_never_hold_a_tool_call_end_the_run_with_a_reason(play):
    run = play([say("Let me think.")] * 9)
    assert not run.ended.ok
    assert "without a usable tool call" in run.ended.reason


def test_an_answer_cut_off_at_the_token_limit_is_told_as_such(play):
    run = play([Turn("I will", finish="length"), bash(SUBMIT)])
    assert "output token limit" in run.last[-1]["content"]


def test_no_trajectory_is_written_but_where_it_is_asked_for(play, tmp_path):
    play([bash(SUBMIT)])
    assert [path.name for path in tmp_path.rglob("*")] == ["workspace"]
    play([bash(SUBMIT)], settings={"trajectory": str(tmp_path / "trajectory.json")})
    written = json.loads((tmp_path / "trajectory.json").read_text())
    assert written["trajectory_format"].startswith("mini-swe-agent-")
    assert written["info"]["exit_status"] == "Submitted"


def test_a_trajectory_holds_no_key(play, tmp_path):
    environ = {"PATH": "/usr/bin:/bin", "SERVICE_API_KEY": "hidden-in-the-environment"}
    play([bash(SUBMIT)], settings={"trajectory": str(tmp_path / "trajectory.json")}, environ=environ)
    text = (tmp_path / "trajectory.json").read_text()
    assert "hidden-in-the-environment" not in text
    assert "sk-of-the-contract" not in text


def test_a_mini_yaml_in_the_current_directory_changes_nothing(play, tmp_path, monkeypatch):
    (tmp_path / "mini.yaml").write_text("agent: {system_template: hijacked, instance_template: hijacked}\nmodel: {}\n")
    monkeypatch.chdir(tmp_path)
    assert "hijacked" not in str(play([bash(SUBMIT)]).last)


def test_a_failure_of_the_package_itself_is_an_error_of_the_agent(play, monkeypatch):
    from minisweagent.agents.default import DefaultAgent

    def step(_self):
        raise ValueError("a bug of theirs")

    monkeypatch.setattr(DefaultAgent, "step", step)
    with pytest.raises(AgentError, match="mini-SWE-agent failed: ValueError: a bug of theirs"):
        play([])


class Interposer:
    """On the wire: `error` instead of an answer."""

    def __init__(self, error):
        self.error = error
        self.calls = 0

    def undelivered(self, reply):
        pass

    def wants(self, method, host, path):
        return path.endswith("/chat/completions")

    def call(self, path, body, send):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return send(body)


@pytest.mark.parametrize("error", [StorageFull("There is no room."), KeyboardInterrupt(), SystemExit(3)])
def test_what_is_raised_on_the_wire_leaves_at_once_as_it_is(play, error):
    interposer = Interposer(error)
    with install(interposer), pytest.raises(type(error)) as caught:
        play([])
    assert caught.value is error
    assert interposer.calls == 1


def test_every_call_is_seen_on_the_wire_once(play):
    interposer = Interposer(None)
    with install(interposer):
        run = play([bash("true"), fail(503, "not now"), bash(SUBMIT)])
    assert interposer.calls == len(run.model.requests) == 3


def test_no_proxy_stands_between_us_and_loopback(play, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, DEAD)
    assert play([bash(SUBMIT)]).ended.ok


@pytest.mark.parametrize("url", ["nonsense", "http://[", "ftp://127.0.0.1/v1"])
def test_what_is_no_url_is_said_at_once(play, url):
    begun = time.monotonic()
    with pytest.raises(ProviderError, match="could not be reached"):
        play([], base_url=url)
    assert time.monotonic() - begun < 10


def test_nothing_of_it_is_imported_before_it_runs():
    code = (
        "import sys; from agentrewind.integrations.harnesses.mini import MiniSweAgent; MiniSweAgent();"
        "print({'minisweagent', 'litellm', 'openai'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
