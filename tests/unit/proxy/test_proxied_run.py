"""A run behind a proxy, put together without the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.proxying import ProxiedSettings, around_proxies, begun
from agentrewind.compose.runs import Run
from agentrewind.core.errors import Busy, UsageError
from agentrewind.testing.scripted import ScriptedModel, call, say
from tests.unit.proxy.servers import dead_port, until

SETTINGS = ProxiedSettings(base_url="http://127.0.0.1:9/v1")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "a.txt").write_text("a")
    return made


def only(home: Home) -> Run:
    (run_id,) = home.run_ids()
    return Run(home, run_id)


@pytest.mark.parametrize(("error", "state"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
def test_a_block_that_is_left_by_an_error_leaves_a_run_that_says_so_and_a_free_workspace(
    home: Home, workspace: Path, error: type[BaseException], state: str
):
    seen = []

    def interrupted() -> None:
        with begun(home, SETTINGS, workspace, environ={}) as run:
            seen.append(run.addresses["OPENAI_BASE_URL"])
            raise error

    with pytest.raises(error):
        interrupted()
    assert only(home).state == state
    with pytest.raises(httpx.ConnectError):
        httpx.get(seen[0])
    with begun(home, SETTINGS, workspace, environ={}) as again:
        assert again.end("over", ok=True)


def test_what_cannot_be_begun_leaves_nothing(home: Home, workspace: Path):
    for settings in (ProxiedSettings(base_url="nowhere"), ProxiedSettings(strategy="hope")):
        with pytest.raises(UsageError), begun(home, settings, workspace, environ={}):
            pass
    assert home.run_ids() == []


def test_a_second_run_in_the_workspace_is_refused(home: Home, workspace: Path):
    with (
        begun(home, SETTINGS, workspace, environ={}),
        pytest.raises(Busy),
        begun(home, SETTINGS, workspace, environ={}),
    ):
        pass
    assert len(home.run_ids()) == 1


def test_without_the_package_for_it_the_sentence_says_which(
    home: Home, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(UsageError, match=r"agentrewind\[proxy\]"), begun(home, SETTINGS, workspace, environ={}):
        pass


def test_it_is_the_same_session_that_records(home: Home, workspace: Path):
    with ScriptedModel([say("hello")], api_key="sk-of-the-environment") as model:
        settings = ProxiedSettings(base_url=model.base_url)
        with begun(home, settings, workspace, environ={"OPENAI_API_KEY": "sk-of-the-environment"}) as run:
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            answer = httpx.post(run.addresses["OPENAI_BASE_URL"] + "/chat/completions", json=body)
            assert answer.json()["choices"][0]["message"]["content"] == "hello"
            run.end("over", ok=True)
    kept = only(home)
    assert kept.state == "done"
    assert [node.ended.digest for node in kept.records()] == ["hello"]
    assert kept.messages("rec_000001") == [{"role": "user", "content": "hi"}]


def test_a_call_after_the_end_finds_nobody(home: Home, workspace: Path):
    settings = ProxiedSettings(base_url=f"http://127.0.0.1:{dead_port()}/v1")
    with begun(home, settings, workspace, environ={}) as run:
        run.end("over", ok=True)
        with pytest.raises(httpx.ConnectError):
            httpx.post(run.addresses["OPENAI_BASE_URL"] + "/chat/completions", json={})


@pytest.mark.parametrize(
    ("environ", "hosts"),
    [
        ({}, None),
        ({"NO_PROXY": "a"}, None),
        ({"HTTP_PROXY": "p"}, "127.0.0.1,localhost"),
        ({"all_proxy": "p", "no_proxy": "a, b,"}, "a,b,127.0.0.1,localhost"),
    ],
)
def test_a_program_behind_an_http_proxy_reaches_ours_without_it(environ: dict[str, str], hosts: str | None):
    assert around_proxies(environ).get("no_proxy") == hosts
    assert around_proxies(environ).get("NO_PROXY") == hosts


KEEPS_ASKING = """
import http.client, json, sys, urllib.parse
at = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(at.hostname, at.port)
messages = [{"role": "user", "content": "the first"}]
tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}
for _ in range(2):
    body = json.dumps({"model": "m", "messages": messages, "tools": [tool]})
    connection.request("POST", at.path + "/chat/completions", body, {"content-type": "application/json"})
    message = json.loads(connection.getresponse().read())["choices"][0]["message"]
    messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "done"}]
print("works now", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_program_was_about_to_run_holds_up_no_rewind_of_another(home: Home, workspace: Path):
    steps = [
        *(call("shell", {"command": str(number)}) for number in range(3)),
        call("backtrack_commit", {"record_uid": "rec_000003", "memory_summary": "another way"}),
        say("done"),
    ]
    with ScriptedModel(steps, api_key="k") as model:
        settings = ProxiedSettings(base_url=model.base_url)
        with begun(home, settings, workspace, environ={"OPENAI_API_KEY": "k"}) as run:
            url = run.addresses["OPENAI_BASE_URL"]
            with subprocess.Popen(
                [sys.executable, "-c", KEEPS_ASKING, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as first:
                assert first.stdout
                assert first.stdout.readline() == "works now\n"
                known = run._session.departed.__self__._of
                until(lambda: "main" in known and known["main"].calls == 2)
                first.kill()
            tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}
            messages = [{"role": "user", "content": "the second"}]
            for _ in range(2):
                body = {"model": "m", "messages": messages, "tools": [tool]}
                message = httpx.post(f"{url}/chat/completions", json=body, timeout=30).json()["choices"][0]["message"]
                results = [
                    {"role": "tool", "tool_call_id": item["id"], "content": "done"}
                    for item in message.get("tool_calls") or ()
                ]
                messages += [message, *results]
            assert message["content"] == "done"
            assert run.tree.rewinds == 1
            assert any("has ended" in text for text in run.tree.warnings)
            run.end("over", ok=True)
