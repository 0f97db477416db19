"""The commands on a real run: a subprocess, a real server, real files."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, fail, say

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
NOTE = "Deleting data/ was wrong: the check wants it. a.txt is fixed. Write b.txt instead."
CHECK = (
    "if test -f data/keep.txt && test -f b.txt; then echo 'passed 2/2';"
    " else echo 'progress 1/2'; echo 'FAIL keep'; exit 1; fi"
)
KEY = "sk-very-secret-0123456789abcdef"


def script(request: Request) -> Step:
    """Fixes a file, deletes too much, is told so, goes back to before that, and does it right."""
    if request.says("[agentrewind]"):
        return (
            say("All done.") if request.says("wrote b") else call("shell", {"command": "echo b > b.txt; echo wrote b"})
        )
    results = request.results
    if not results:
        return call("shell", {"command": "echo fixed > a.txt; printf '\\000\\001' > blob.bin; chmod +x tool.sh"})
    if len(results) == 1:
        return call("shell", {"command": "rm -r data"})
    if len(results) == 2:
        return call("backtrack_candidates", {"reason": "data is gone"}) if request.says("FAIL keep") else say("Done.")
    uid = re.search(r"(rec_\d+)[^\n]*rm -r data", results[-1])
    assert uid
    return call("backtrack_commit", {"record_uid": uid[1], "memory_summary": NOTE})


@dataclass(frozen=True)
class Place:
    """A workspace and a home of their own."""

    workspace: Path
    home: Path
    environ: dict[str, str]

    def cli(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            env={**self.environ, **more},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=self.workspace.parent,
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str) -> object:
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(
        self, base_url: str, *options: str, task: str = "Fix a.txt", **more: str
    ) -> subprocess.CompletedProcess[str]:
        return self.cli(
            "run",
            *("--agent", "builtin", "--model", "scripted", "--base-url", base_url),
            *("--workspace", str(self.workspace), *options, task),
            **more,
        )


@contextmanager
def place(base: Path) -> Iterator[Place]:
    workspace = base / "site"
    (workspace / "data").mkdir(parents=True)
    (workspace / "data" / "keep.txt").write_text("precious\n")
    (workspace / "a.txt").write_text("broken\n")
    (workspace / "tool.sh").write_text("#!/bin/sh\n")
    (workspace / ".env").write_text("APP_SECRET=hunter2hunter2\n")
    (base / "user").mkdir()
    ours = ("AGENTREWIND", "OPENAI", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ = {**kept, "HOME": str(base / "user"), "AGENTREWIND_HOME": str(base / "home"), "OPENAI_API_KEY": KEY}
    yield Place(workspace, base / "home", environ)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, subprocess.CompletedProcess[str], list]]:
    """One finished run with a rewind, for the commands that only read."""
    with place(tmp_path_factory.mktemp("told")) as made, ScriptedModel(script, api_key=KEY) as model:
        done = made.run(model.base_url, "--check", CHECK)
        yield made, done, list(model.requests)


def files(workspace: Path) -> dict[str, bytes]:
    return {str(path.relative_to(workspace)): path.read_bytes() for path in workspace.rglob("*") if path.is_file()}


# --- a run and everything that reads it ------------------------------------------------------------------------------


def test_a_run_with_a_rewind_ends_well_and_says_so(told):
    here, done, _ = told
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    assert "1 rewind" in done.stdout
    assert "agentrewind log last" in done.stdout
    assert "back to before rec_000003" in done.stderr
    assert NOTE in done.stderr
    assert (here.workspace / "data" / "keep.txt").read_text() == "precious\n"
    assert (here.workspace / "a.txt").read_text() == "fixed\n"
    assert (here.workspace / "b.txt").read_text() == "b\n"


def test_the_model_saw_the_note_once_and_nothing_abandoned(told):
    _, _, requests = told
    last = json.dumps(requests[-1]["messages"])
    assert last.count(NOTE) == 1
    assert "rm -r data" not in last


def test_no_key_is_kept_anywhere(told):
    here, done, _ = told
    assert KEY not in done.stdout + done.stderr
    for path in here.home.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_no_secret_is_printed_or_becomes_a_name(here):
    said = "APP_SECRET=hunter2hunter2"
    steps = [
        call("shell", {"command": f"cat .env; echo {said} > a.txt; echo FAIL; cat a.txt"}),
        say(f"It was {said}."),
        fail(400, f"no {said}, no {KEY}"),
    ]
    with ScriptedModel(steps) as model:
        task = "HUNTER2HUNTER2 hunter2hunter2: log in with it"
        done = here.run(model.base_url, "--check", f"echo FAIL {said}; exit 1", task=task, COLUMNS="300")
        again = here.cli("resume", "last", COLUMNS="300")
    shown = done.stdout + done.stderr + again.stdout + again.stderr
    assert done.returncode == 1
    assert "[redacted" in shown
    assert "hunter2" not in shown.lower()
    assert KEY not in shown
    assert not [path for path in here.home.rglob("*") if "hunter2" in path.name]


def test_log_shows_the_tree(told):
    here, _, _ = told
    shown = here.cli("log", "last").stdout
    assert "● rec_000001" in shown
    assert re.search(r"│ +○ rec_000003 +shell\(rm -r data\)", shown)
    assert "↩ back to before rec_000003" in shown
    assert "1/2" in shown
    assert "✓ 2/2" in shown


def test_log_as_json_holds_every_node(told):
    here, _, _ = told
    facts = here.json("log", "last")
    assert facts["state"] == "done"
    assert facts["rewinds"] == 1
    assert [move["kind"] for move in facts["moves"]] == ["rewind"]
    by_uid = {node["uid"]: node for node in facts["nodes"]}
    assert by_uid["rec_000001"]["on_path"]
    assert not by_uid["rec_000003"]["on_path"]
    assert {"status": "D", "path": "data/keep.txt"} in by_uid["rec_000004"]["changes"]["items"]


def test_show_names_messages_answer_and_changes(told):
    here, _, _ = told
    shown = here.cli("show", "last", "rec_000001").stdout
    assert "Fix a.txt" in shown
    assert "echo fixed > a.txt" in shown
    result = here.cli("show", "last", "rec_000002").stdout
    assert "M a.txt" in result
    facts = here.json("show", "last", "rec_000003")
    assert facts["messages"][-1]["role"] == "tool"
    assert facts["output"]["choices"]


def test_diff_of_files_and_messages(told):
    here, _, _ = told
    shown = here.cli("diff", "last", "rec_000001", "rec_000003").stdout
    assert "-broken" in shown
    assert "+fixed" in shown
    assert "blob.bin" in shown
    assert "binary" in shown
    assert "tool.sh" in shown
    assert "755" in shown
    facts = here.json("diff", "last", "rec_000003", "now")
    assert {item["path"] for item in facts["files"]} == {"b.txt"}
    assert facts["messages"]["added"]


def test_private_files_are_named_and_never_shown(here):
    with ScriptedModel([call("shell", {"command": "echo NEW_SECRET=abcdefgh12345 >> .env"}), say("ok")]) as model:
        assert here.run(model.base_url).returncode == 0
    for pair in (("rec_000001", "rec_000003"), ("rec_000001", "now")):
        for form in ((), ("--json",)):
            shown = here.cli("diff", "last", *pair, *form).stdout
            assert ".env" in shown
            assert "hunter2" not in shown
            assert "+NEW_SECRET" not in shown


def test_candidates_lists_the_checkpoints_of_the_path(told):
    here, _, _ = told
    shown = here.cli("candidates", "last").stdout
    assert "rec_000001" in shown
    assert "rec_000003" not in shown
    assert here.json("candidates", "last")["available"] == shown.count("rec_")


def test_check_finds_it_sound_and_runs_lists_it(told):
    here, _, _ = told
    assert here.json("check", "last")["ok"] is True
    (run,) = here.json("runs")
    assert run["state"] == "done"
    assert "Fix a.txt" in here.cli("runs").stdout


def test_export_writes_a_file_a_branch(told, tmp_path):
    here, _, _ = told
    done = here.cli("export", "last", "--records", str(tmp_path / "records"))
    assert done.returncode == 0
    assert sorted(path.name for path in (tmp_path / "records").iterdir()) == ["branch-b0.jsonl", "branch-b1.jsonl"]
    assert here.cli("export", "last", "--records", str(tmp_path / "records")).returncode == 2


# --- restore, undo ----------------------------------------------------------------------------------------------------


@pytest.fixture
def rewound(here: Place) -> Place:
    with ScriptedModel(script) as model:
        assert here.run(model.base_url, "--check", CHECK).returncode == 0
    return here


def test_restore_moves_the_files_and_undo_brings_them_back(rewound):
    before = files(rewound.workspace)
    preview = rewound.cli("restore", "last", "rec_000001", "--dry-run")
    assert preview.returncode == 0
    assert "b.txt" in preview.stdout
    assert files(rewound.workspace) == before

    done = rewound.cli("restore", "last", "rec_000001", "--yes")
    assert done.returncode == 0, done.stderr
    assert (rewound.workspace / "a.txt").read_text() == "broken\n"
    assert not (rewound.workspace / "b.txt").exists()

    assert rewound.cli("undo", "last").returncode == 0
    assert files(rewound.workspace) == before
    assert rewound.json("check", "last")["ok"] is True


def test_undo_takes_a_rewind_back(rewound):
    done = rewound.cli("undo", "last")
    assert done.returncode == 0, done.stderr
    assert not (rewound.workspace / "data").exists()
    assert not (rewound.workspace / "b.txt").exists()
    assert "undo: back to" in rewound.cli("log", "last").stdout


def test_restore_without_a_terminal_needs_the_word(rewound):
    before = files(rewound.workspace)
    done = rewound.cli("restore", "last", "rec_000001")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert files(rewound.workspace) == before


def test_a_live_file_of_the_user_survives_a_restore_and_its_undo(rewound):
    (rewound.workspace / "mine.txt").write_text("by hand\n")
    assert rewound.cli("restore", "last", "rec_000001", "--yes").returncode == 0
    assert rewound.cli("undo", "last").returncode == 0
    assert (rewound.workspace / "mine.txt").read_text() == "by hand\n"


# --- what can't be ----------------------------------------------------------------------------------------------------


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What it said about why; never a traceback."""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("agentrewind: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--workspace", "/"), "whole machine"),
        (("--workspace", "{user}"), "home directory"),
        (("--workspace", "{missing}"), "no directory"),
        (("--agent", "nobody"), "nobody"),
        (("--strategy", "hope"), "hope"),
    ],
)
def test_bad_use_is_one_sentence_and_touches_nothing(here, options, said):
    values = {"user": here.workspace.parent / "user", "missing": here.workspace / "missing"}
    before = files(here.workspace)
    done = here.run("http://127.0.0.1:9/v1", *(option.format(**values) for option in options))
    assert done.returncode == 2, done.stderr
    assert said in one_sentence(done)
    assert files(here.workspace) == before
    assert here.json("runs") == []


@pytest.mark.skipif(importlib.util.find_spec("minisweagent") is not None, reason="mini-SWE-agent is installed here")
def test_an_agent_that_is_not_installed_says_how_to_install_it(here):
    done = here.run("http://127.0.0.1:9/v1", "--agent", "mini-swe-agent")
    assert done.returncode == 2
    assert "agentrewind[mini]" in one_sentence(done)


def test_without_a_key_for_the_public_endpoint_it_says_which(here):
    done = here.run("https://api.openai.com/v1", OPENAI_API_KEY="")
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in one_sentence(done)


def is_failed_and_sound(here: Place) -> None:
    (run,) = here.json("runs")
    assert run["state"] == "failed"
    assert here.json("check", "last")["ok"] is True


def test_a_dead_endpoint_fails_the_run_with_one_sentence(here):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    before = files(here.workspace)
    done = here.run(f"http://127.0.0.1:{port}/v1")
    assert done.returncode == 1, done.stderr
    assert "could not be reached" in one_sentence(done)
    assert files(here.workspace) == before
    is_failed_and_sound(here)
    again = here.cli("resume", "last", "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout)["state"] == "failed"


def test_a_wrong_key_fails_the_run_with_one_sentence(here):
    with ScriptedModel([say("never")], api_key="another-key") as model:
        done = here.run(model.base_url)
    assert done.returncode == 1, done.stderr
    assert "key" in one_sentence(done)
    assert KEY not in done.stderr
    is_failed_and_sound(here)


@pytest.mark.parametrize("room", [0, 100, 3000, 9000])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_once_there_is_room(here, room):
    before = files(here.workspace)
    with ScriptedModel(script) as model:
        arguments = ["run", "--model", "m", "--base-url", model.base_url, "--workspace", str(here.workspace)]
        full = subprocess.run(
            [PROGRAM, *arguments, "--check", CHECK, "Fix a.txt"],
            env=here.environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        )
        assert full.returncode == 1
        assert "No room" in one_sentence(full)
        runs = here.json("runs")
        if not runs:
            assert files(here.workspace) == before
            return
        assert runs[0]["state"] == "interrupted"
        assert here.json("check", "last")["ok"] is True
        assert here.cli("resume", "last").returncode == 0
    assert (here.workspace / "b.txt").exists()


def test_a_run_that_is_not_accepted_fails(here):
    with ScriptedModel(lambda _: say("Done.")) as model:
        done = here.run(model.base_url, "--check", "echo 'FAIL x'; exit 1", "--strategy", "continue", "--json")
    assert done.returncode == 1, done.stderr
    facts = json.loads(done.stdout)
    assert facts["state"] == "failed"
    assert "5 times in a row" in facts["reason"]


def test_a_second_run_in_a_workspace_is_refused_while_the_first_is_alive(here, tmp_path):
    flag = here.workspace / "started"
    steps = [call("shell", {"command": f"touch {flag}; sleep 30"}), say("ok")]
    with ScriptedModel(steps) as model:
        first = subprocess.Popen(
            [PROGRAM, "run", "--model", "m", "--base-url", model.base_url, "--workspace", str(here.workspace), "Wait"],
            env=here.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            deadline = time.monotonic() + 20
            while not flag.exists():
                assert time.monotonic() < deadline
                assert first.poll() is None
                time.sleep(0.05)
            for refused in (
                here.run(model.base_url),
                here.cli("restore", "last", "rec_000001", "--yes"),
                here.cli("undo", "last"),
                here.cli("resume", "last"),
                here.cli("snap", "create", str(here.workspace)),
            ):
                assert refused.returncode == 1, refused.stderr
                one_sentence(refused)
            (run,) = here.json("runs")
            assert run["state"] == "running"
            assert here.cli("log", "last").returncode == 0
            assert here.json("check", "last")["ok"] is True
        finally:
            first.send_signal(signal.SIGINT)
            _, err = first.communicate(timeout=20)
    assert first.returncode == 130, err
    assert "Traceback" not in err
    (run,) = here.json("runs")
    assert run["state"] == run["reason"] == "interrupted"


# --- after a crash ----------------------------------------------------------------------------------------------------

POINTS = ("rewind.intent written", "rewind.world restored", "rewind.committed", "journal.event-written:9")


@pytest.mark.parametrize("point", POINTS)
def test_a_run_killed_in_the_middle_is_resumed_to_its_end(here, point):
    with ScriptedModel(script) as model:
        killed = here.run(model.base_url, "--check", CHECK, AGENTREWIND_CRASH_AT=point)
        assert killed.returncode == -signal.SIGKILL
        (run,) = here.json("runs")
        assert run["state"] == "interrupted"
        assert here.cli("log", "last").returncode == 0
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        last = json.dumps(model.last["messages"])
    assert last.count(NOTE) == 1
    assert (here.workspace / "data" / "keep.txt").read_text() == "precious\n"
    assert (here.workspace / "b.txt").read_text() == "b\n"
    assert here.json("check", "last")["ok"] is True
    (run,) = here.json("runs")
    assert run["state"] == "done"


def test_a_new_run_settles_the_rewind_of_an_earlier_one_that_was_killed(here):
    with ScriptedModel(script) as model:
        killed = here.run(model.base_url, "--check", CHECK, AGENTREWIND_CRASH_AT="snapshot.restore-applied")
        assert killed.returncode == -signal.SIGKILL
        first = here.json("runs")[0]["run"]
        second = here.run(model.base_url, "--check", CHECK)
        assert second.returncode == 0, second.stderr
        assert f"(run {first})" in second.stderr
    assert here.json("check", first)["ok"] is True
    assert here.json("log", first)["moves"][0]["kind"] == "rewind"


@pytest.mark.parametrize("point", ["snapshot.restore-intent-written", "snapshot.restore-applied"])
def test_a_restore_that_was_killed_is_finished_by_the_next_command_and_can_be_undone(rewound, point):
    before = files(rewound.workspace)
    killed = rewound.cli("restore", "last", "rec_000001", "--yes", AGENTREWIND_CRASH_AT=point)
    assert killed.returncode == -signal.SIGKILL
    undone = rewound.cli("undo", "last")
    assert undone.returncode == 0, undone.stderr
    assert "a crash had cut off" in undone.stderr
    assert files(rewound.workspace) == before
    assert rewound.json("check", "last")["ok"] is True


def test_an_undo_that_was_killed_is_finished_and_not_undone_by_the_next(rewound):
    killed = rewound.cli("undo", "last", AGENTREWIND_CRASH_AT="undo.intent written")
    assert killed.returncode == -signal.SIGKILL
    again = rewound.cli("undo", "last")
    assert again.returncode == 0, again.stderr
    assert "Finished the undo" in again.stderr
    assert not (rewound.workspace / "data").exists()
    assert [move["kind"] for move in rewound.json("log", "last")["moves"]] == ["rewind", "undo of a rewind"]


def test_a_failed_run_can_be_resumed_once_the_endpoint_is_back(here):
    with ScriptedModel([call("shell", {"command": "echo one > one.txt"}), fail(401, "no"), say("ok")]) as model:
        assert here.run(model.base_url).returncode == 1
        done = here.cli("resume", "last")
    assert done.returncode == 0, done.stderr
    assert (here.workspace / "one.txt").exists()
    again = here.cli("resume", "last")
    assert again.returncode == 2
    assert "ended well" in one_sentence(again)


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_snapshots_by_hand(here):
    made = here.json("snap", "create", str(here.workspace), "--label", "before")
    (here.workspace / "a.txt").write_text("spoilt\n")
    (here.workspace / "new.txt").write_text("")
    assert [item["label"] for item in here.json("snap", "list", str(here.workspace))] == ["before"]
    shown = here.cli("snap", "diff", "last", "now", str(here.workspace)).stdout
    assert "-broken" in shown
    assert "+spoilt" in shown
    assert here.cli("snap", "restore", "last", str(here.workspace)).returncode == 2
    done = here.cli("snap", "restore", made["snapshot"][:8], str(here.workspace), "--yes")
    assert done.returncode == 0, done.stderr
    assert (here.workspace / "a.txt").read_text() == "broken\n"
    assert not (here.workspace / "new.txt").exists()
    assert "before" in here.cli("snap", "list", str(here.workspace)).stdout


def test_snapshots_of_nothing_yet(here):
    done = here.cli("snap", "list", str(here.workspace))
    assert done.returncode == 2
    assert "snap create" in one_sentence(done)


def test_paths_by_class(here):
    (here.workspace / "agentrewind.toml").write_text('[paths]\nexcluded = ["data/"]\n')
    facts = here.json("paths", str(here.workspace))
    assert facts["private"]["items"] == [".env"]
    assert facts["excluded"]["items"] == ["data"]
    assert ".env" in here.cli("paths", str(here.workspace)).stdout
    assert not here.home.exists()


def test_names_of_any_bytes_and_control_characters_go_through_every_command(here):
    odd = b"caf\xe9\x1b[2J\n.txt"
    command = {"command": "printf x > $'caf\\xe9\\x1b[2J\\n.txt'"}
    with ScriptedModel([call("shell", command), say("ok")]) as model:
        assert here.run(model.base_url).returncode == 0
    assert (os.fsencode(here.workspace) + b"/" + odd) in {os.fsencode(path) for path in here.workspace.iterdir()}
    for arguments in (
        ("log", "last"),
        ("show", "last", "rec_000002"),
        ("diff", "last", "rec_000001", "now"),
        ("restore", "last", "rec_000001", "--dry-run"),
        ("candidates", "last"),
    ):
        done = here.cli(*arguments, PYTHONIOENCODING="ascii")
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        json.loads(here.cli(*arguments, "--json").stdout)
    (item,) = here.json("diff", "last", "rec_000001", "now")["files"]
    assert os.fsencode(item["path"]) == odd


def test_a_reader_that_leaves_early_is_no_error(told):
    here, _, _ = told
    show = [PROGRAM, "show", "last", "rec_000009", "--all"]
    with subprocess.Popen(show, env=here.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_a_reader_of_the_progress_who_leaves_does_not_end_the_run(here):
    with ScriptedModel(script) as model:
        arguments = ["run", "--model", "m", "--base-url", model.base_url, "--workspace", str(here.workspace)]
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [PROGRAM, *arguments, "--check", CHECK, "Fix a.txt"],
            env=here.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=writing,
            timeout=60,
            check=False,
        )
        os.close(writing)
    assert done.returncode == 0
    assert here.json("runs")[0]["state"] == "done"
