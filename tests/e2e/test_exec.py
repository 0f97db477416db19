"""`agentrewind exec` and `agentrewind proxy`: programs that know nothing of us, real processes, real files."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, fail, hang, say
from agentrewind.testing.scripted.api import Said
from tests.trees import describe, differences

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
PROGRAMS = Path(__file__).with_name("programs")
KEY = "sk-very-secret-0123456789abcdef"


@dataclass(frozen=True)
class Place:
    """A workspace and a home of their own."""

    base: Path
    workspace: Path
    environ: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def cli(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            env={**self.environ, **more},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=self.workspace,
            timeout=300,
            check=False,
        )

    def json(self, *arguments: str) -> dict:
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def exec(self, base_url: str, *words: str, options: tuple[str, ...] = (), **more: str):
        return self.cli(
            "exec", "--base-url", base_url, "--workspace", str(self.workspace), *options, "--", *words, **more
        )

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """The program in the background; it is ended with the test."""
        running = subprocess.Popen(
            [PROGRAM, *arguments],
            env={**self.environ, **more},
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(running)
        return running

    def end(self) -> None:
        for running in self.started:
            running.kill()
            running.communicate()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    workspace = tmp_path / "site"
    (workspace / "original" / "sub").mkdir(parents=True)
    (workspace / "original" / "sub" / "file").write_text("precious\n")
    (workspace / "a.txt").write_text("broken\n")
    (workspace / "tool.sh").write_text("#!/bin/sh\n")
    (workspace / "link").symlink_to("a.txt")
    os.link(workspace / "a.txt", workspace / "hard")
    (workspace / ".git").mkdir()
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("user", "scratch"):
        (tmp_path / name).mkdir()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AGENTREWIND", "OPENAI", "ANTHROPIC", "COLUMNS"))
    }
    environ = {
        **kept,
        "HOME": str(tmp_path / "user"),
        "AGENTREWIND_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
        "SCRATCH": str(tmp_path / "scratch"),
        "PYTHONWARNINGS": "error",
        "PWD": str(workspace),  # as a shell has it there; a launcher that is a shell script sets it
    }
    made = Place(tmp_path, workspace, environ)
    yield made
    made.end()


def until(what: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it didn't come to that"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("agentrewind: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def in_workspace(workspace: Path, command: str) -> Step:
    """A call of the shell tool: wherever the program was started, only this directory is touched."""
    return call("shell", {"command": f"cd '{workspace}' || exit; {command}"})


def python(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(PROGRAMS / name), *arguments)


# --- two nested rewinds, whatever the program is written in -----------------------------------------------------------

SECOND, THIRD = "rec_000002", "rec_000003"


@dataclass
class Nested:
    """A model that goes wrong twice, the second time from within what the first rewind had opened.

    It looks at the workspace whenever it is asked: before a step, and after the rewind to before that step.
    """

    workspace: Path
    before: dict[str, dict] = field(default_factory=dict)
    after: dict[str, dict] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)
    """The conversation at the last call."""

    def __call__(self, request: Request) -> Step:
        self.said = request.said
        steps = len(request.results)
        if request.says("note two"):
            return self._at_last(steps)
        if request.says("note one"):
            return self._wrong_again(steps)
        return self._wrong(steps)

    def _wrong(self, steps: int) -> Step:
        if steps == 0:
            return in_workspace(self.workspace, "mkdir kept && echo 1 > kept/one && ln -s one kept/link && sleep 0.02")
        if steps == 1:
            self.before.setdefault("second", describe(self.workspace))
            spoils = "rm -r original; echo 2 > two; chmod 700 tool.sh; mkfifo pipe; rm .git/HEAD; rmdir .git"
            return in_workspace(self.workspace, spoils)
        if steps == 2:
            self.before.setdefault("third", describe(self.workspace))
            return in_workspace(self.workspace, "echo 3 >> hard; mv kept gone; touch -d 2001-01-01 two")
        return call("backtrack_commit", {"record_uid": THIRD, "memory_summary": "note one: three was wrong"})

    def _wrong_again(self, steps: int) -> Step:
        if steps == 2:
            self.after.setdefault("third", describe(self.workspace))
            return in_workspace(self.workspace, "echo 4 > four; rm -f a.txt")
        return call("backtrack_commit", {"record_uid": SECOND, "memory_summary": "note two: two was wrong as well"})

    def _at_last(self, steps: int) -> Step:
        if steps == 1:
            self.after.setdefault("second", describe(self.workspace))
            return in_workspace(self.workspace, "echo 5 > five; cat five")
        return say("In order.")

    def came_back(self) -> None:
        """Both rewinds brought back every file, and every attribute of it."""
        assert differences(self.before["third"], self.after["third"]) == []
        assert differences(self.before["second"], self.after["second"]) == []

    def holds_what_was_kept(self) -> None:
        """The model saw at last: the task, the first step, both notes once, and the step after them."""
        text = "\n".join(item.text for item in self.said)
        assert text.count("note one") == text.count("note two") == 1
        calls = [call.arguments for item in self.said for call in item.calls]
        assert [("kept/one" in str(call), "five" in str(call)) for call in calls] == [(True, False), (False, True)]
        assert [item.text.strip() for item in self.said if item.role == "tool"] == ["(nothing)", "5"]
        assert self.said[0].text == "Put the workspace in order."


LOOPS = {
    "sdk": python("sdk_loop.py", "plain"),
    "sdk streamed": python("sdk_loop.py", "streamed"),
    "sdk async": python("sdk_loop.py", "async"),
    "httpx": python("httpx_loop.py"),
    **({"curl": ("bash", str(PROGRAMS / "curl_loop.sh"))} if shutil.which("curl") else {}),
}
"""Every other dialect and form: test_matrix.py."""


@pytest.mark.parametrize("words", LOOPS.values(), ids=LOOPS)
def test_two_nested_rewinds_bring_back_files_and_conversation(here: Place, words: tuple[str, ...]):
    nested = Nested(here.workspace)
    with ScriptedModel(nested, api_key=KEY) as model:
        done = here.exec(model.base_url, *words, ANTHROPIC_BASE_URL=model.root_url)
        assert done.returncode == 0, done.stderr
        assert model.refused == []
    assert done.stdout == "In order.\n"
    nested.came_back()
    assert (here.workspace / "five").read_text() == "5\n"
    assert not {"two", "three", "four", "gone", "pipe"} & set(os.listdir(here.workspace))
    nested.holds_what_was_kept()
    facts = here.json("log", "last")
    assert (facts["state"], facts["rewinds"], facts["llm_calls"]) == ("done", 2, 8)
    assert {node["thread"] for node in facts["nodes"]} == {"main"}
    assert here.json("check", "last")["ok"] is True


def test_the_summary_looks_like_that_of_run_and_stands_on_standard_error(here: Place):
    with ScriptedModel(Nested(here.workspace)) as model:
        done = here.exec(model.base_url, *LOOPS["httpx"])
    assert re.search(r"^run \d{8}-\d{6}-python\S*-[0-9a-f]{4}$", done.stderr, re.MULTILINE)
    assert "done: The command ended with exit code 0." in done.stderr
    assert "8 model calls, 0 tool calls, 2 rewinds" in done.stderr
    assert "next:   `agentrewind log last`, `agentrewind undo last`" in done.stderr


def last_line(home: Path) -> str:
    """Of the only journal below a home."""
    (journal,) = (home / "runs").glob("*/journal.jsonl")
    return journal.read_text().splitlines()[-1]


def test_the_workspace_is_compared_whole_at_the_end(here: Place):
    with ScriptedModel(Nested(here.workspace)) as model:
        assert here.exec(model.base_url, *LOOPS["httpx"]).returncode == 0
    assert '"audits":1' in last_line(here.base / "home")


def test_the_last_line_is_json_for_programs(here: Place):
    done = here.exec("http://127.0.0.1:9/v1", "printf", "no end of line", options=("--json",))
    assert done.returncode == 0
    facts = json.loads(done.stdout.splitlines()[-1])
    assert (facts["state"], facts["agent"], facts["task"]) == ("done", "program", "printf 'no end of line'")


# --- processes --------------------------------------------------------------------------------------------------------


def server_in_background(scratch: Path, name: str) -> str:
    """A command that leaves a server running, which writes to the workspace for ever."""
    loop = f"while :; do date >> {name}.log; sleep 0.05; done"
    return f"nohup sh -c '{loop}' >/dev/null 2>&1 & echo $! > {scratch}/{name}; sleep 0.2"


@pytest.mark.parametrize("name", sorted({"sdk", "curl", "httpx"} & LOOPS.keys()))
def test_a_server_of_the_abandoned_branch_is_gone_and_the_program_goes_on(here: Place, name: str):
    words = LOOPS[name]
    scratch = here.base / "scratch"
    alive_after: list[tuple[bool, bool]] = []

    def pid(name: str) -> int:
        return int((scratch / name).read_text())

    def script(request: Request) -> Step:
        steps = len(request.results)
        if request.says("the server was wrong"):
            if steps == 1:
                alive_after.append((alive(pid("kept")), alive(pid("abandoned"))))
                return call("shell", {"command": "sleep 0.3; ls"})
            return say("In order.")
        if steps == 0:
            return call("shell", {"command": server_in_background(scratch, "kept")})
        if steps == 1:
            return call("shell", {"command": server_in_background(scratch, "abandoned")})
        return call("backtrack_commit", {"record_uid": SECOND, "memory_summary": "the server was wrong"})

    with ScriptedModel(script) as model:
        done = here.exec(model.base_url, *words)
        results = [message["content"] for message in model.last["messages"] if message["role"] == "tool"]
    try:
        assert done.returncode == 0, done.stderr
        assert done.stdout == "In order.\n"
        assert alive_after == [(True, False)]
        assert "abandoned.log" not in results[-1]
        assert "kept.log" in results[-1]
        (move,) = here.json("log", "last")["moves"]
        assert any(str(pid("abandoned")) in ended for ended in move["ended_processes"])
        assert not any(
            word in " ".join(move["ended_processes"]) for word in ("curl", "sdk_loop", "httpx_loop", "json.load")
        )
    finally:
        os.kill(pid("kept"), signal.SIGKILL)


def test_a_program_that_sends_itself_signals_and_leaves_children_is_waited_for_as_by_a_shell(here: Place):
    assert here.exec("http://127.0.0.1:9/v1", "sh", "-c", "sleep 3 >/dev/null 2>&1 & exit 3").returncode == 3
    assert here.exec("http://127.0.0.1:9/v1", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM
    assert "ended by SIGTERM" in here.cli("log", "last").stdout


def test_the_program_has_our_streams_and_the_usual_signals(here: Place):
    code = (
        "import signal, sys, json; ignored = signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN;"
        " blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []));"
        " print(json.dumps([sys.stdin.read(), ignored, blocked])); print('to stderr', file=sys.stderr)"
    )
    plain = subprocess.run([sys.executable, "-c", code], input="typed", capture_output=True, text=True, check=True)
    done = subprocess.run(
        [PROGRAM, "exec", "--workspace", str(here.workspace), "--", sys.executable, "-c", code],
        input="typed",
        env=here.environ,
        cwd=here.workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == plain.stdout
    assert "to stderr\n" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_us_reaches_the_program_once_and_its_exit_code_is_ours(here: Place, number: signal.Signals):
    flag = here.base / "flag"
    code = (
        f"import signal, sys, time\ngot = []\nsignal.signal({int(number)}, lambda *_: got.append(1))\n"
        f"open({str(flag)!r}, 'w').close()\n"
        "while not got: time.sleep(0.01)\ntime.sleep(0.3)\nsys.exit(40 + len(got))\n"
    )
    running = here.start("exec", "--", sys.executable, "-c", code)
    until(flag.exists)
    running.send_signal(number)
    _, told = running.communicate(timeout=90)
    assert running.returncode == 41, told
    assert "exit code 41" in told


class Terminal:
    """`agentrewind exec` as the foreground program of a terminal."""

    def __init__(self, here: Place, code: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(here.workspace)
            words = [PROGRAM, "exec", "--workspace", str(here.workspace), "--", sys.executable, "-u", "-c", code]
            os.execve(PROGRAM, words, here.environ)
        self.seen = ""
        """What was shown, without colours."""

    def read_until(self, text: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))
            assert ready, self.seen
            try:
                self.seen = re.sub(r"\x1b\[[0-9;]*m", "", self.seen + os.read(self.fd, 4096).decode())
            except OSError as error:
                raise AssertionError(self.seen) from error

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_ctrl_c_on_the_terminal_reaches_the_program_once_and_the_run_ends_properly(here: Place):
    code = (
        "import signal, sys, time\ngot = []\nsignal.signal(2, lambda *_: got.append(1))\nprint('ready')\n"
        "while not got: time.sleep(0.01)\ntime.sleep(0.3)\nprint('interrupted', len(got))\nsys.exit(7)\n"
    )
    terminal = Terminal(here, code)
    terminal.read_until("ready")
    terminal.type("\x03")
    terminal.read_until("interrupted 1")
    terminal.read_until("next:")
    assert terminal.wait() == 7
    assert "failed: The command ended with exit code 7." in terminal.seen


def test_a_program_may_read_from_the_terminal_and_has_it_for_itself(here: Place):
    code = "import os\nprint('foreground', os.tcgetpgrp(0) == os.getpgrp())\nprint('hello', input('name? '))\n"
    terminal = Terminal(here, code)
    terminal.read_until("name? ")
    terminal.type("Ada\n")
    terminal.read_until("hello Ada")
    terminal.read_until("next:")
    assert terminal.wait() == 0
    assert "foreground True" in terminal.seen


# --- the environment and the wire -------------------------------------------------------------------------------------


def test_the_program_is_told_where_to_go_and_nothing_else_changes(here: Place):
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    more = {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "internal.example", "OWN": "value"}
    with ScriptedModel([]) as model:
        done = here.exec(model.base_url, sys.executable, "-c", code, **more)
    found = json.loads(done.stdout)
    token = re.fullmatch(r"http://127\.0\.0\.1:\d+/([\w-]{32,})/v1", found["OPENAI_BASE_URL"])
    assert token
    assert found["OPENAI_API_BASE"] == found["OPENAI_BASE_URL"]
    assert found["ANTHROPIC_BASE_URL"] == found["OPENAI_BASE_URL"].removesuffix("/v1") + "/anthropic"
    assert found["AGENTREWIND_RUN"] == here.json("runs")[0]["run"]
    assert found["OPENAI_API_KEY"] == KEY
    assert found["OWN"] == "value"
    assert found["NO_PROXY"] == found["no_proxy"] == "internal.example,127.0.0.1,localhost"
    ours = {
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_BASE",
        "AGENTREWIND_RUN",
        "NO_PROXY",
        "no_proxy",
    }
    before = {**here.environ, **more}
    assert {name: value for name, value in found.items() if name not in ours} == {
        name: value for name, value in before.items() if name not in ours
    } | {name: found[name] for name in found if name.startswith(("LC_", "__CF")) and name not in before}


def test_a_program_whose_calls_do_not_come_through_is_told_what_to_check(here: Place):
    done = here.exec("http://127.0.0.1:9/v1", "true", options=("--check", "true"))
    (told,) = [line for line in done.stderr.splitlines() if "No call of a model came through" in line]
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "doctor"):
        assert name in told
    again = here.exec("http://127.0.0.1:9/v1", "true", options=("--json",))
    assert "No call of a model" in again.stderr
    json.loads(again.stdout.splitlines()[-1])
    with ScriptedModel([say("Done.")]) as model:
        heard = here.exec(model.base_url, *LOOPS["httpx"])
    assert "No call of a model" not in heard.stderr


def test_a_program_without_a_key_gets_a_placeholder_so_that_its_sdk_starts(here: Place):
    code = "import os; print(os.environ['OPENAI_API_KEY'])"
    done = here.exec("http://127.0.0.1:9/v1", sys.executable, "-c", code, OPENAI_API_KEY="")
    assert done.stdout == "agentrewind\n"


def test_the_upstream_is_that_of_the_environment(here: Place):
    with ScriptedModel(lambda _: say("In order.")) as model:
        done = here.cli("exec", "--", *LOOPS["sdk"], OPENAI_BASE_URL=model.base_url)
    assert done.stdout == "In order.\n"
    assert here.json("log", "last")["workspace"] == str(here.workspace)


def test_no_byte_that_is_kept_holds_the_key_or_the_token(here: Place):
    def script(request: Request) -> Step:
        if not request.results:
            return call("shell", {"command": "env; echo $OPENAI_API_KEY $OPENAI_BASE_URL"})
        return say(f"The environment was: {request.results[-1]}")

    with ScriptedModel(script, api_key=KEY) as model:
        done = here.exec(model.base_url, *LOOPS["sdk"])
    token = re.search(r"OPENAI_BASE_URL=http://127\.0\.0\.1:\d+/([\w-]{32,})/v1", done.stdout)
    assert token
    assert KEY in done.stdout
    files = [path for path in (here.base / "home").rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        kept = path.read_bytes()
        assert KEY.encode() not in kept, path
        assert token[1].encode() not in kept, path
    assert KEY not in done.stderr
    assert token[1] not in done.stderr
    shown = here.cli("show", "last", "rec_000002", "--all").stdout
    assert "[redacted" in shown


def test_fifty_conversations_at_once_are_kept_apart(here: Place):
    people, turns = 50, 4

    def script(request: Request) -> Step:
        who = re.search(r"I am number (\d+)\.", request.messages[0]["content"])
        assert who
        return say(f"number {who[1]}, turn {request.turn}")

    with ScriptedModel(script) as model:
        done = here.exec(model.base_url, *python("crowd.py", str(people), str(turns)))
    assert done.stdout == "0 wrong\n", done.stderr
    facts = here.json("log", "last")
    assert facts["llm_calls"] == people * turns
    threads: dict[str, list[str]] = {}
    for node in facts["nodes"]:
        threads.setdefault(node["thread"], []).append(node["digest"])
    assert len(threads) == people
    for said in threads.values():
        who = said[0].split(",")[0]
        assert said == [f"{who}, turn {turn}" for turn in range(turns)]
    assert here.json("check", "last")["ok"] is True


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--workspace", "/"), "whole machine"),
        (("--workspace", "{user}"), "home directory"),
        (("--workspace", "{missing}"), "no directory"),
        (("--strategy", "hope"), "hope"),
        (("--base-url", "localhost:8000"), "not the URL"),
        (("--base-url", ""), "not the URL"),
        (("--resume", "nothing"), "no run"),
    ],
)
def test_bad_use_is_one_sentence_and_nothing_is_started(here: Place, options: tuple[str, ...], said: str):
    values = {"user": here.base / "user", "missing": here.workspace / "missing"}
    flag = here.base / "flag"
    done = here.cli("exec", *(option.format(**values) for option in options), "--", "touch", str(flag))
    assert done.returncode == 2, done.stderr
    assert said in one_sentence(done)
    assert not flag.exists()
    assert here.json("runs") == []


def test_a_command_that_is_not_there_is_one_sentence(here: Place):
    done = here.cli("exec", "--", "no-such-command")
    assert done.returncode == 2
    assert "no command 'no-such-command'" in one_sentence(done)
    assert here.json("runs") == []


def test_a_workspace_in_use_is_refused(here: Place):
    flag = here.base / "flag"
    running = here.start("exec", "--", "sh", "-c", f"touch {flag}; exec sleep 60")
    until(flag.exists)
    second = here.exec("http://127.0.0.1:9/v1", "true")
    running.terminate()
    running.communicate(timeout=90)
    assert second.returncode == 1
    assert "in use" in one_sentence(second) or "uses" in one_sentence(second)


@pytest.mark.parametrize("room", [0, 3000])
def test_a_full_disk_is_one_sentence(here: Place, room: int):
    with ScriptedModel(Nested(here.workspace)) as model:
        full = subprocess.run(
            [PROGRAM, "exec", "--base-url", model.base_url, "--workspace", str(here.workspace), "--", *LOOPS["sdk"]],
            env=here.environ,
            cwd=here.workspace,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        )
    assert full.returncode == 1, full.stderr
    lines = [line for line in full.stderr.splitlines() if line.startswith("agentrewind: ")]
    assert len(lines) == 1
    assert "No room" in lines[0]
    runs = here.json("runs")
    assert all(run["state"] == "interrupted" for run in runs)


@pytest.mark.parametrize(
    ("step", "said"),
    [(fail(401, "Incorrect API key"), "AuthenticationError"), (fail(500, "boom"), "InternalServerError")],
)
def test_an_error_of_the_provider_reaches_the_program_as_it_is(here: Place, step: Step, said: str):
    with ScriptedModel(lambda _: step) as model:
        done = here.exec(model.base_url, *LOOPS["sdk"])
    assert done.returncode == 1
    assert said in done.stderr
    assert "failed: The command ended with exit code 1." in done.stderr
    assert here.json("check", "last")["ok"] is True


def test_a_dead_provider_is_an_error_that_the_program_can_read(here: Place):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = here.exec(f"http://127.0.0.1:{port}/v1", *LOOPS["sdk"])
    assert done.returncode == 1
    assert "could not be reached" in done.stderr
    facts = here.json("log", "last")
    assert (facts["state"], facts["llm_calls"]) == ("failed", 1)


def test_a_program_that_gives_up_waiting_and_asks_again_goes_on_where_it_was(here: Place):
    code = (
        "from openai import OpenAI\nwith OpenAI(timeout=1.5, max_retries=2) as client:\n"
        "    print(client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'x'}])"
        ".choices[0].message.content)"
    )
    with ScriptedModel(lambda request: hang() if request.attempt == 0 else say("the second time")) as model:
        done = here.exec(model.base_url, sys.executable, "-c", code)
    assert done.stdout == "the second time\n", done.stderr
    nodes = here.json("log", "last")["nodes"]
    assert [node["error"]["type"] if node["error"] else None for node in nodes] == ["ClientLeft", None]
    assert len({node["thread"] for node in nodes}) == 1


def test_a_program_that_has_ended_leaves_no_call_behind(here: Place):
    code = (
        "import os, threading\nfrom openai import OpenAI\n"
        "ask = lambda: OpenAI().chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'x'}])\n"
        "threading.Thread(target=ask, daemon=True).start()\nimport time; time.sleep(1.5); os._exit(0)"
    )
    with ScriptedModel(lambda _: hang()) as model:
        done = here.exec(model.base_url, sys.executable, "-c", code)
    assert done.returncode == 0
    facts = here.json("log", "last")
    assert facts["state"] == "done"
    assert [node["error"]["type"] for node in facts["nodes"]] == ["ClientLeft"]


def test_a_slow_provider_is_bridged_by_comments(here: Place):
    code = (
        "import httpx, os\n"
        "body = {'model': 'm', 'stream': True, 'messages': [{'role': 'user', 'content': 'x'}]}\n"
        "url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        "with httpx.stream('POST', url, json=body, timeout=5.8) as answer:\n"
        "    text = ''.join(answer.iter_text())\n"
        "print(answer.status_code, text.count(': agentrewind\\n\\n'), 'slowly' in text, text.endswith('[DONE]\\n\\n'))"
    )

    def script(_: Request) -> Step:
        time.sleep(10.5)
        return say("slowly")

    with ScriptedModel(script) as model:
        done = here.exec(model.base_url, sys.executable, "-c", code)
    assert done.stdout == "200 2 True True\n", done.stderr


def test_a_check_judges_the_work_at_the_end(here: Place):
    bad = here.exec("http://127.0.0.1:9/v1", "true", options=("--check", "echo 'FAIL five'; test -f five"))
    assert bad.returncode == 1
    assert "failed" in bad.stderr
    good = here.exec("http://127.0.0.1:9/v1", "touch", "five", options=("--check", "test -f five"))
    assert good.returncode == 0
    assert "done: The check accepted the work." in good.stderr


# --- after a crash ----------------------------------------------------------------------------------------------------

POINTS = (
    "rewind.present saved",
    "rewind.intent written",
    "rewind.processes ended",
    "rewind.world restored",
    "rewind.committed",
)


@pytest.mark.parametrize("point", [f"{point}:{number}" for point in POINTS for number in (1, 2)])
def test_a_killed_proxy_is_settled_and_a_program_with_its_history_goes_on_as_if_nothing_had_been(
    here: Place, point: str
):
    history = here.base / "history.json"
    words = python("httpx_loop.py", str(history))
    whole = Nested(here.workspace)
    with ScriptedModel(whole) as model:
        killed = here.exec(model.base_url, *words, AGENTREWIND_CRASH_AT=point)
        assert killed.returncode == -signal.SIGKILL
        until(lambda: not programs_of(here))
        assert here.cli("log", "last").returncode == 0
        assert here.json("runs")[0]["state"] == "interrupted"
        found = json.loads(here.cli("check", "last", "--json").stdout)["problems"]
        assert all("never settled; whatever changes this run next does that" in problem for problem in found), found
        again = here.cli("exec", "--base-url", model.base_url, "--resume", "last", "--", *words)
    assert again.returncode == 0, again.stderr
    assert again.stdout == "In order.\n"
    assert "degraded" not in here.cli("log", "last").stdout
    whole.came_back()
    whole.holds_what_was_kept()
    assert (here.workspace / "five").exists()
    assert not {"two", "four", "gone", "pipe"} & set(os.listdir(here.workspace))
    facts = here.json("log", "last")
    assert (facts["state"], facts["rewinds"], facts["resumes"]) == ("done", 2, 1)
    assert here.json("check", "last")["ok"] is True


def programs_of(here: Place) -> list[int]:
    """The processes that carry the mark of a run in this home."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if b"AGENTREWIND_RUN=" in environ and os.fsencode(here.base) in environ and alive(int(name)):
            found.append(int(name))
    return found


def test_a_program_that_begins_anew_after_a_crash_is_told_of_in_the_run(here: Place):
    words = LOOPS["sdk"]
    nested = Nested(here.workspace)
    with ScriptedModel(nested) as model:
        killed = here.exec(model.base_url, *words, AGENTREWIND_CRASH_AT="rewind.committed:2")
        assert killed.returncode == -signal.SIGKILL
        nested.before.clear()
        nested.after.clear()
        again = here.cli("exec", "--base-url", model.base_url, "--resume", "last", "--", *words)
    assert again.returncode != -signal.SIGKILL
    assert "context: degraded" in here.cli("log", "last").stdout
    assert here.json("check", "last")["ok"] is True


def test_resume_says_that_the_program_is_the_users(here: Place):
    assert here.exec("http://127.0.0.1:9/v1", "false").returncode == 1
    done = here.cli("resume", "last")
    assert done.returncode == 2
    assert "agentrewind exec --resume" in one_sentence(done)


def test_a_run_that_goes_on_keeps_its_settings(here: Place):
    assert here.exec("http://127.0.0.1:9/v1", "false").returncode == 1
    done = here.cli("exec", "--resume", "last", "--strategy", "continue", "--", "true")
    assert done.returncode == 2
    assert "--strategy" in one_sentence(done)
    again = here.cli("exec", "--resume", "last", "--", "true", OPENAI_BASE_URL="http://127.0.0.1:7/v1")
    assert again.returncode == 0
    assert "asked at http://127.0.0.1:9/v1, as before; OPENAI_BASE_URL names http://127.0.0.1:7/v1 now" in again.stderr
    done = here.cli("exec", "--resume", "last", "--", "true")
    assert done.returncode == 2
    assert "ended well" in one_sentence(done)


# --- proxy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_proxy_alone_serves_programs_that_are_started_elsewhere(here: Place, number: signal.Signals):
    nested = Nested(here.workspace)
    with ScriptedModel(nested, api_key=KEY) as model:
        running = here.start("proxy", "--base-url", model.base_url)
        assert running.stdout
        lines = [running.stdout.readline() for _ in range(4)]
        given = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
        assert given["OPENAI_BASE_URL"].endswith("/v1")
        done = subprocess.run(
            LOOPS["sdk"],
            env={**here.environ, **given, "OPENAI_API_KEY": "dummy"},
            cwd=here.workspace,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "In order.\n", done.stderr
        running.send_signal(number)
        _, told = running.communicate(timeout=90)
    assert running.returncode == 0
    assert "done: The proxy was stopped." in told
    assert "2 rewinds" in told
    nested.came_back()


def test_the_proxy_speaks_json_to_programs(here: Place):
    running = here.start("proxy", "--json")
    assert running.stdout
    ready = json.loads(running.stdout.readline())
    url = ready["addresses"]["OPENAI_BASE_URL"]
    assert httpx.get(url.replace("/v1", "x/v1") + "/models").status_code == 403
    running.terminate()
    out, _ = running.communicate(timeout=90)
    assert json.loads(out)["run"] == ready["run"]


# --- for long ---------------------------------------------------------------------------------------------------------


@dataclass
class Soak:
    """A model that works and, every so often, goes some steps back; it watches the memory of whoever asks it."""

    calls: int
    rewind_every: int
    rss: list[int] = field(default_factory=list)
    pid: int = 0
    asked: int = 0
    rewinds: int = 0
    runs: Path = Path()
    half: int = 0
    """How large the journal was at half-time."""

    def journal(self) -> int:
        return sum(path.stat().st_size for path in self.runs.rglob("*") if path.is_file())

    def __call__(self, request: Request) -> Step:
        self.asked += 1
        if self.asked == self.calls // 2:
            self.half = self.journal()
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) if self.pid else 0
        self.rss.append(pages * resource.getpagesize())
        if self.asked >= self.calls:
            return say("In order.")
        if self.asked % self.rewind_every == 0:
            self.rewinds += 1
            # The newest calls are on the path: that of three nodes ago, unless a rewind was among them.
            target = f"rec_{self.asked - 3:06d}"
            return call("backtrack_commit", {"record_uid": target, "memory_summary": f"note {self.rewinds}"})
        number = self.asked % 20
        return call("shell", {"command": f"echo {self.asked} > file{number}; echo {self.asked} | tee -a all"})

    def slope(self) -> float:
        """Bytes a call, over the second half, by least squares."""
        tail = self.rss[len(self.rss) // 2 :]
        middle, mean = (len(tail) - 1) / 2, sum(tail) / len(tail)
        above = sum((at - middle) * (value - mean) for at, value in enumerate(tail))
        return above / sum((at - middle) ** 2 for at in range(len(tail)))


@pytest.mark.parametrize(
    ("calls", "rewind_every"), [(100, 10), pytest.param(2000, 10, marks=[pytest.mark.slow, pytest.mark.timeout(1500)])]
)
def test_a_long_run_stays_small_and_every_checkpoint_of_it_can_be_trusted(here: Place, calls: int, rewind_every: int):
    soak = Soak(calls, rewind_every, runs=here.base / "home" / "runs")
    with ScriptedModel(soak) as model:
        options = ("--base-url", model.base_url, "--max-rewinds", "100000")
        running = here.start("exec", *options, "--", *LOOPS["httpx"])
        soak.pid = running.pid
        out, told = running.communicate(timeout=1400)
        assert model.refused == []
    assert (running.returncode, out) == (0, "In order.\n"), told
    facts = here.json("log", "last")
    assert facts["rewinds"] == soak.rewinds == (calls - 1) // rewind_every
    size = soak.journal()
    print(
        f"{calls} calls, {soak.rewinds} rewinds: RSS {soak.rss[len(soak.rss) // 2] / 1e6:.1f} MB at half-time,"
        f" {soak.rss[-1] / 1e6:.1f} MB at the end, {soak.slope() / 1000:.1f} kB a call;"
        f" journal {size / calls / 1000:.1f} kB a call"
    )
    assert soak.slope() < 60_000
    assert size - soak.half < 1.3 * soak.half
    assert size < calls * 6_000
    assert here.json("check", "last")["ok"] is True
