"""`agentrewind mcp` and the real client of the package `mcp`, over both transports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from agentrewind.core.tools import TOOLS
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say
from tests.e2e.test_exec import PROGRAM, Place, here, in_workspace, python  # noqa: F401 (a fixture)
from tests.lanes import needs

pytestmark = needs("mcp", "mcp")

PREFIX = "mcp__agentrewind__"


class Back:
    """A model that spoils the workspace, and goes back by the tools of the MCP server."""

    def __init__(self, place: Place) -> None:
        self.workspace = place.workspace
        self.requests: list[Request] = []
        self.listing = ""

    def __call__(self, request: Request) -> Step:
        self.requests.append(request)
        steps = len(request.results)
        if request.says("the note"):
            return say("In order.")
        if steps == 0:
            return in_workspace(self.workspace, "echo 1 > one")
        if steps == 1:
            return in_workspace(self.workspace, "rm -r original; echo 2 > two")
        if steps == 2:
            return call(f"{PREFIX}backtrack_candidates", {"reason": "lost"})
        self.listing = request.results[2]
        if steps == 3:
            return call(f"{PREFIX}backtrack_commit", {"record_uid": "rec_000099", "memory_summary": "m"})
        return call(f"{PREFIX}backtrack_commit", {"record_uid": "rec_000002", "memory_summary": "the note: keep it"})


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_rewind_by_its_tools_brings_back_files_and_conversation(here: Place, transport: str):  # noqa: F811
    back = Back(here)
    with ScriptedModel(back) as model:
        done = here.exec(model.base_url, *python("mcp_agent.py", transport), options=("--no-inject",))
    assert done.returncode == 0, done.stderr
    declared = {tool["function"]["name"]: tool["function"] for tool in back.requests[0].body["tools"]}
    assert set(declared) == {"shell", *(PREFIX + spec.name for spec in TOOLS)}
    for spec in TOOLS:
        same_schema(declared[PREFIX + spec.name]["parameters"], spec.parameters)
        assert declared[PREFIX + spec.name]["description"] == spec.description
    assert "rec_000002" in back.listing
    refused = back.requests[4].results[3]
    assert refused.startswith("error: ")
    assert "no record rec_000099" in refused
    assert (here.workspace / "original/sub/file").read_text() == "precious\n"
    assert not (here.workspace / "two").exists()
    assert [item.role for item in back.requests[-1].said] == ["user", "assistant", "tool", "system"]
    assert not back.requests[-1].says("Accepted")
    told(json.loads(done.stdout))


def same_schema(made: dict, wanted: dict) -> None:
    """The package adds titles, and a default where a parameter may be left out."""
    assert set(made["properties"]) == set(wanted["properties"])
    assert made["required"] == wanted["required"]
    for name, schema in wanted["properties"].items():
        assert schema.items() <= made["properties"][name].items()


def told(printed: dict) -> None:
    assert printed["said"] == "In order."
    resources = printed["resources"]
    assert "back to before rec_000002: the note: keep it" in resources["agentrewind://tree"]
    assert "1 note, oldest first" in resources["agentrewind://memory"]
    assert "the note: keep it" in resources["agentrewind://memory"]
    assert "added: one" in resources["agentrewind://diff/rec_000001"]
    assert "rec_000099" in resources["agentrewind://diff/rec_000099"]
    assert "root:" not in resources["agentrewind://diff/..%2F..%2Fetc%2Fpasswd"]


def test_without_the_run_the_history_is_there_and_the_tools_say_why_not(here: Place):  # noqa: F811
    here.exec("http://127.0.0.1:9/v1", "true")
    with ScriptedModel([call(f"{PREFIX}backtrack_candidates", {"reason": "x"}), say("done")]) as model:
        done = here.cli("log", "last")
        environ = {**here.environ, "OPENAI_BASE_URL": model.base_url}
        asked = subprocess.run(
            python("mcp_agent.py", "stdio"), env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert asked.returncode == 0, asked.stderr
        assert "isn't alive" in json.dumps(model.last)
    assert json.loads(asked.stdout)["resources"]["agentrewind://tree"].splitlines()[0] == done.stdout.splitlines()[0]


# --- hostile input ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all of them: it must bear with each."""
    base = tmp_path_factory.mktemp("serving")
    (base / "work").mkdir()
    environ = {**os.environ, "AGENTREWIND_HOME": str(base / "home")}
    nowhere = ("--base-url", "http://127.0.0.1:9/v1", "--workspace", str(base / "work"))
    subprocess.run([PROGRAM, "exec", *nowhere, "--", "true"], env=environ, check=True, timeout=100)
    running = subprocess.Popen([PROGRAM, "mcp", "--http"], env=environ, stdout=subprocess.PIPE, text=True)
    yield running.stdout.readline().strip()
    running.terminate()
    running.communicate()
    assert running.returncode == -signal.SIGTERM


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def post(url: str | httpx.URL, content: bytes = json.dumps(HELLO).encode(), **headers: str) -> httpx.Response:
    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    return httpx.post(url, content=content, headers=sent, timeout=60)


def test_who_has_the_address_is_let_in(serving: str):
    assert post(serving).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/mcp", {}),
        ("/wrong/mcp", {}),
        ("//mcp", {}),
        ("", {"origin": "https://evil.example"}),
        ("", {"origin": "null"}),
        ("", {"host": "evil.example"}),
        ("", {"host": "127.0.0.1:1"}),
    ],
)
def test_nobody_else_is_let_in(serving: str, path: str, headers: dict[str, str]):
    url = httpx.URL(serving)
    url = url.copy_with(raw_path=path.encode()) if path else url
    answer = post(url, **headers)
    assert (answer.status_code, answer.content) == (403, b"")


def test_a_page_of_this_machine_needs_the_token_all_the_same(serving: str):
    url = httpx.URL(serving)
    own = {"origin": f"http://127.0.0.1:{url.port}"}
    assert post(serving, **own).status_code == 200
    assert post(url.copy_with(raw_path=b"/mcp"), **own).status_code == 403


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[" * 50_000, b"\xff", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}']
)
def test_what_is_no_message_is_refused_and_the_next_one_is_answered(serving: str, content: bytes):
    assert post(serving, content).status_code in (400, 500), "500 is what version 1 of the package says to some"
    assert post(serving).status_code == 200


def test_hostile_lines_at_standard_input_end_nothing(here: Place):  # noqa: F811
    here.exec("http://127.0.0.1:9/v1", "true")
    call_tool = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
    lines = [
        b"not json",
        b"[" * 50_000,
        json.dumps(HELLO).encode(),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(),
        json.dumps(call_tool | {"params": {"name": "undo", "arguments": {}}}).encode(),
        json.dumps(
            call_tool | {"id": 3, "params": {"name": "backtrack_commit", "arguments": {"record_uid": 7}}}
        ).encode(),
        json.dumps(call_tool | {"id": 4, "params": {"name": "backtrack_commit", "arguments": []}}).encode(),
        json.dumps(
            {"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}
        ).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 6, "method": "ping"}).encode(),
    ]
    with subprocess.Popen(
        [PROGRAM, "mcp"], env=here.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        running.stdin.write(b"\n".join(lines) + b"\n")
        running.stdin.flush()
        answers: dict[int, dict] = {}
        while 6 not in answers:
            answer = json.loads(running.stdout.readline())
            answers[answer.get("id")] = answer
        running.stdin.close()
        assert running.wait(60) == 0
    for number in (2, 3, 4, 5):
        answer = answers[number]
        assert "error" in answer or answer["result"]["isError"], answer
    assert "root:" not in json.dumps(answers)
    assert "result" in answers[6]


def test_it_says_what_it_needs(here: Place):  # noqa: F811
    code = "import sys; sys.modules['mcp'] = None; from agentrewind.cli import main; sys.argv[1:] = ['mcp']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=here.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "agentrewind[mcp]" in done.stderr
