"""What an independent tester found with models and endpoints that answer badly."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agentrewind.cli.entry import run as agentrewind
from agentrewind.testing.scripted import ScriptedModel, say

KEY = "zq81-of-no-known-shape-77"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    root = tmp_path / "w"
    root.mkdir()
    (root / "a").write_text("a")
    return root


@pytest.fixture
def endpoint():
    """A server that answers each request with its `answer`: a status and a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            status, body = self.server.answer
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run_in(workspace, server, task="task") -> int:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    return agentrewind(["run", "--model", "m", "--base-url", url, "--workspace", str(workspace), task])


def test_a_journal_can_be_read_after_an_answer_whose_content_is_a_number(workspace, endpoint):
    endpoint.answer = 200, b'{"choices": [{"message": {"role": "assistant", "content": 5}}]}'
    run_in(workspace, endpoint)
    assert agentrewind(["check", "last"]) == 0
    assert agentrewind(["log", "last"]) == 0


def test_a_key_that_the_provider_quotes_back_is_not_printed(workspace, endpoint, capfd):
    endpoint.answer = 401, json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    run_in(workspace, endpoint)
    said = capfd.readouterr()
    assert KEY not in said.out + said.err


@pytest.mark.parametrize("number", ["NaN", "1e999"])
def test_a_number_that_is_none_is_a_bad_answer_not_bad_use(workspace, endpoint, number):
    choices = '[{"message": {"role": "assistant", "content": "x"}}]'
    endpoint.answer = 200, f'{{"choices": {choices}, "usage": {{"total_tokens": {number}}}}}'.encode()
    assert run_in(workspace, endpoint) in (0, 1)


def test_an_answer_nested_too_deep_is_a_bad_answer(workspace, endpoint, capfd):
    endpoint.answer = 200, b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    run_in(workspace, endpoint)
    assert "RecursionError" not in capfd.readouterr().err


def test_a_secret_in_the_task_does_not_become_part_of_the_runs_name(workspace, monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "hunter2hunter2")
    with ScriptedModel([say("done")]) as model:
        task = "hunter2hunter2 is the password; log in"
        agentrewind(["run", "--model", "m", "--base-url", model.base_url, "--workspace", str(workspace), task])
    names = [path.name for path in (workspace.parent / "home/runs").iterdir()]
    assert names
    assert not any("hunter2hunter2" in name for name in names)
