"""The built-in agent keeps the contract of harnesses; what it adds to it."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx
import pytest

from agentrewind.core.errors import AgentError, ProviderError, StorageFull
from agentrewind.core.strategy import GoOn, Stop
from agentrewind.core.tools import NAMES
from agentrewind.integrations.clients import install
from agentrewind.integrations.harnesses import builtin
from agentrewind.integrations.harnesses.builtin import CUT_OFF, UNPARSED, BuiltinAgent
from agentrewind.integrations.harnesses.contract import Job
from agentrewind.testing.harnesses import DEAD, KEY, HarnessContract, Notebook
from agentrewind.testing.scripted import Turn, call, drop, fail, say


class TestBuiltin(HarnessContract):
    tool = "shell"

    def harness(self):
        return BuiltinAgent(retry_delays_s=(0.02, 0.02, 0.02))

    def job(self, **fields):
        return Job(**fields)

    def submission(self, answer):
        return say(answer)


@pytest.fixture
def play(tmp_path):
    def run(script, *decisions, **fields):
        return TestBuiltin().play(script, tmp_path, *decisions, **fields)

    return run


def shell(command, **more):
    return call("shell", {"command": command, **more})


def test_the_model_sees_output_and_exit_code(play):
    run = play([shell("echo out; echo err >&2; exit 3"), say("Done.")])
    assert run.last[-1]["content"] == "out\nerr\n[exit code 3]"


def test_a_long_output_is_cut_in_the_middle(play):
    run = play([shell("seq 1 20000"), say("Done.")])
    content = run.last[-1]["content"]
    assert content.startswith("1\n2\n")
    assert content.endswith("20000\n[exit code 0]")
    assert "left out here" in content
    assert len(content) < 17_000


def test_the_models_time_out_ends_the_command_and_is_recorded(play):
    run = play([shell("echo begun; sleep 60", timeout=0.2), say("Done.")])
    assert run.last[-1]["content"].startswith("begun\n[timed out after ")
    assert run.notebook.calls[0].arguments == {"command": "echo begun; sleep 60", "timeout": 0.2}


def test_the_setting_is_the_time_out_where_the_model_names_none(play):
    run = play([shell("sleep 60"), say("Done.")], settings={"command_timeout_s": 0.2})
    assert "timed out" in run.last[-1]["content"]


@pytest.mark.parametrize("timeout", ["soon", 0, -1, True, "1e999", "NaN"])
def test_a_time_out_that_is_none_runs_nothing(play, timeout):
    raw = timeout if timeout in ("1e999", "NaN") else json.dumps(timeout)
    run = play([call("shell", f'{{"command": "touch a", "timeout": {raw}}}'), say("Done.")])
    assert run.notebook.calls == []
    assert "timeout" in run.last[-1]["content"]


def test_arguments_that_are_not_an_object_go_back_as_one(play):
    """Servers with chat templates parse the history, and refuse one that doesn't parse."""
    run = play([call("shell", "{"), call("shell", "[1]"), say("Done.")])
    sent = [item["tool_calls"][0]["function"]["arguments"] for item in run.last if item.get("tool_calls")]
    assert [json.loads(item) for item in sent] == [{UNPARSED: "{"}, {UNPARSED: "[1]"}]


def test_text_with_half_a_surrogate_pair_is_sent(play):
    script = [shell("echo '\ud83d'"), say("\ud83d is half"), say("Done.")]
    run = play(script, GoOn("\udcff is a byte of a file name"), Stop(ok=True, reason="accepted"))
    assert run.submissions == ["\ud83d is half", "Done."]


def test_an_answer_cut_off_at_the_token_limit_is_no_submission(play):
    run = play([Turn("I am going to", finish="length"), say("Done.")])
    assert run.submissions == ["Done."]
    assert run.last[-1] == {"role": "user", "content": CUT_OFF}


def test_answers_that_are_always_cut_off_end_the_run(play):
    with pytest.raises(AgentError, match="3 times in a row"):
        play([Turn("I am going to", finish="length")] * 9)


def test_an_empty_answer_is_a_submission_and_can_be_sent_back(play):
    run = play([say(""), say("Done.")], GoOn("Nothing is there."), Stop(ok=True, reason="accepted"))
    assert run.submissions == ["", "Done."]


def test_a_dropped_connection_is_tried_again(play):
    run = play([shell("true"), drop(), say("Done.")])
    assert run.ended.ok


def test_a_provider_that_asks_for_a_pause_gets_it(monkeypatch):
    waits = []
    monkeypatch.setattr("agentrewind.integrations.harnesses.builtin.time.sleep", waits.append)
    answers = iter(
        [
            httpx.Response(429, headers={"retry-after": "7"}, json={"error": {"message": "slow"}}),
            httpx.Response(200, json={"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]}),
        ]
    )
    monkeypatch.setattr(httpx.Client, "post", lambda *_, **__: next(answers))
    assert BuiltinAgent().run(a_job()).ok
    assert waits == [7.0]


@pytest.mark.parametrize(
    "body",
    [b"<html>login</html>", b"[]", b'{"choices": []}', b'{"choices": [{"message": {"tool_calls": [{"id": "x"}]}}]}'],
)
def test_an_answer_that_is_no_completion_is_quoted(monkeypatch, body):
    monkeypatch.setattr(httpx.Client, "post", lambda *_, **__: httpx.Response(200, content=body))
    with pytest.raises(ProviderError, match="no chat completion") as caught:
        BuiltinAgent().run(a_job())
    assert body.decode() in str(caught.value)


@pytest.mark.parametrize("url", ["nonsense", "http://[", "ftp://127.0.0.1/v1"])
def test_what_is_no_url_is_said_at_once(url):
    with pytest.raises(ProviderError):
        BuiltinAgent(retry_delays_s=(60.0,)).run(a_job(base_url=url))


def test_the_key_is_never_quoted(play):
    with pytest.raises(ProviderError) as caught:
        play([fail(400, f"your key {KEY} is tired")])
    assert KEY not in str(caught.value)
    assert "[key]" in str(caught.value)


def test_without_a_key_none_is_sent(play):
    with pytest.raises(ProviderError, match="HTTP 401"):
        play([], api_key=None)


def test_a_model_that_takes_no_temperature_is_asked_without(play):
    def script(request):
        if "temperature" in request.body:
            return fail(400, "Unsupported value: 'temperature' does not support 0 with this model.")
        return say("Done.")

    run = play(script)
    assert run.ended.ok
    assert len(run.model.requests) == 2


def test_settings_reach_the_request(play):
    run = play([say("Done.")], settings={"temperature": None, "request": {"max_tokens": 50, "seed": 7}})
    assert "temperature" not in run.model.last
    assert (run.model.last["max_tokens"], run.model.last["seed"]) == (50, 7)


@pytest.mark.parametrize("offers", [True, False])
def test_going_back_is_mentioned_only_where_it_is_offered(play, offers):
    run = play([say("Done.")], offers_rewind=offers)
    assert any(name in run.last[0]["content"] for name in NAMES) == offers


def test_progress_is_shown_a_line_a_command(play):
    said = []
    play([shell("echo one\necho two"), fail(500, "hiccup"), say("Done.")], say=said.append)
    assert said[0] == "$ echo one ..."
    assert "hiccup" in said[1]


def test_no_proxy_stands_between_us_and_loopback(play, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, DEAD)
    assert play([say("Done.")]).ended.ok


def a_job(**fields):
    given = {"task": "t", "model": "m", "recorder": Notebook(), "submit": lambda _: Stop(ok=True, reason="accepted")}
    return Job(**{**given, "workspace": None, "base_url": DEAD, **fields})


# --- on the wire ------------------------------------------------------------------------------------------------------


class Full:
    """An interposer of a run that can't be recorded any more."""

    def undelivered(self, reply):
        pass

    def wants(self, method, host, path):
        return True

    def call(self, path, body, send):
        raise StorageFull("There is no room for the next record.")


def test_an_error_of_the_interposer_travels_through_untried(play):
    said = []
    with install(Full()), pytest.raises(StorageFull, match="no room for the next record"):
        play([], say=said.append)
    assert said == []


# --- broken harnesses, each caught by the check that is meant for it --------------------------------------------------


def feedback_kept_to_itself(job):
    def submit(answer):
        decision = job.submit(answer)
        return GoOn("Try again.") if isinstance(decision, GoOn) else decision

    return replace(job, submit=submit)


def stops_at_a_rejection(job):
    def submit(answer):
        decision = job.submit(answer)
        return Stop(ok=False, reason="rejected") if isinstance(decision, GoOn) else decision

    return replace(job, submit=submit)


def submits_twice(job):
    return replace(job, submit=lambda answer: job.submit(answer) and job.submit(answer))


def tools_not_recorded(job):
    return replace(job, recorder=Notebook())


def call_ids_lost(job):
    class Losing(Notebook):
        def tool(self, name, arguments, run, *, call_id=None):
            return job.recorder.tool(name, arguments, run)

    return replace(job, recorder=Losing())


def runs_where_it_stands(job):
    return replace(job, workspace=job.workspace.parent)


def keys_in_the_environment(job):
    return replace(job, settings={"pass_keys": ["OPENAI_API_KEY"]})


def seed_dropped(job):
    return replace(job, seed=())


def swallows_errors(job):
    class Swallowing(Notebook):
        def tool(self, name, arguments, run, *, call_id=None):
            try:
                return job.recorder.tool(name, arguments, run, call_id=call_id)
            except StorageFull as error:
                return str(error)

    return replace(job, recorder=Swallowing())


MUTANTS = [
    (feedback_kept_to_itself, "test_after_a_rejection_the_agent_is_told_why_and_goes_on"),
    (stops_at_a_rejection, "test_after_a_rejection_the_agent_is_told_why_and_goes_on"),
    (submits_twice, "test_a_submission_is_judged_once_and_its_acceptance_ends_the_run"),
    (tools_not_recorded, "test_a_command_runs_in_the_workspace_and_is_recorded_with_its_arguments"),
    (call_ids_lost, "test_record_call_and_result_have_one_id"),
    (runs_where_it_stands, "test_a_command_runs_in_the_workspace_and_is_recorded_with_its_arguments"),
    (keys_in_the_environment, "test_commands_do_not_see_the_key_of_the_model"),
    (seed_dropped, "test_a_seed_is_gone_on_with_as_it_is"),
    (swallows_errors, "test_an_error_of_the_recorder_travels_through"),
]


@pytest.mark.parametrize(("broken", "check"), MUTANTS, ids=[broken.__name__ for broken, _ in MUTANTS])
def test_a_broken_harness_is_caught(broken, check, tmp_path):
    class Kit(TestBuiltin):
        __test__ = False

        def job(self, **fields):
            return broken(Job(**fields))

    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with pytest.raises((AssertionError, OSError, ProviderError)):
        getattr(Kit(), check)(workspace)


def test_a_harness_that_gives_up_at_once_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(builtin, "_IN_PASSING", frozenset())
    with pytest.raises(ProviderError):
        TestBuiltin().test_a_failure_in_passing_is_tried_again(tmp_path, 503)


def test_a_harness_that_forgets_is_caught(tmp_path, monkeypatch):
    post = builtin._Endpoint._post
    monkeypatch.setattr(builtin._Endpoint, "_post", lambda self, messages: post(self, messages[-2:]))
    with pytest.raises((AssertionError, ProviderError)):
        TestBuiltin().test_every_request_extends_the_one_before(tmp_path)
