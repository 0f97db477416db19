"""What an independent tester found at the command line."""

import subprocess
import sys

import pytest
from openai import OpenAI

import agentrewind as agentrewind_package
from agentrewind.cli.entry import run as agentrewind
from agentrewind.testing.scripted import ScriptedModel, say

RUN = [sys.executable, "-c", "from agentrewind.cli.entry import main; main()"]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    root = tmp_path / "w"
    root.mkdir()
    (root / "a").write_text("a")
    return root


def test_a_closed_output_is_no_traceback(workspace):
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *RUN, "snap", "create", str(workspace)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["snap", "create", ""], ["paths", ""], ["run", "--model", "m", "--workspace", "", "task"]]
)
def test_an_empty_directory_name_is_bad_use(workspace, monkeypatch, arguments):
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert agentrewind(arguments) == 2


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://[::1/v1"])
def test_an_impossible_url_is_bad_use_and_makes_no_run(workspace, capsys, url):
    code = agentrewind(["run", "--model", "m", "--base-url", url, "--workspace", str(workspace), "task"])
    assert code == 2
    assert "API key" not in capsys.readouterr().err
    assert not list((workspace.parent / "home").glob("runs/*/journal.jsonl"))


@pytest.mark.parametrize("arguments", [[], ["snap"]])
def test_no_command_shows_the_help_as_help(arguments, capsys):
    agentrewind(arguments)
    said = capsys.readouterr()
    assert (said.out + said.err).count("\n") > 5


def test_an_export_to_where_nothing_can_be_made_is_said_in_words(workspace, capsys):
    agentrewind(["run", "--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--workspace", str(workspace), "task"])
    capsys.readouterr()
    agentrewind(["export", "last", "--records", "/proc/nowhere"])
    assert "should not" not in capsys.readouterr().err


def test_a_pattern_of_many_stars_does_not_hang(workspace):
    (workspace / "agentrewind.toml").write_text(f"[paths]\nexcluded = ['{'*' * 40}a']\n")
    try:
        subprocess.run([*RUN, "snap", "create", str(workspace)], capture_output=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        pytest.fail("still matching after five seconds")


def test_a_journal_nested_too_deep_does_not_hide_the_other_runs(workspace, capsys):
    for _ in range(2):
        agentrewind(
            ["run", "--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--workspace", str(workspace), "task"]
        )
    first, _ = sorted((workspace.parent / "home/runs").iterdir())
    (first / "journal.jsonl").write_bytes(b"[" * 200_000)
    capsys.readouterr()
    assert agentrewind(["runs"]) == 0
    assert "should not" not in capsys.readouterr().err


def test_resume_is_only_recommended_where_it_works(workspace, capsys):
    with (
        ScriptedModel([say("fine")]) as model,
        agentrewind_package.session(workspace),
        OpenAI(base_url=model.base_url, api_key="any", max_retries=0) as client,
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    run = agentrewind_package.open_run("last")
    run.rewind(to=run.checkpoints()[0].uid, note="Look at the tests first.")
    capsys.readouterr()
    agentrewind(["log", "last"])
    recommended = "agentrewind resume" in capsys.readouterr().out
    assert not recommended or agentrewind(["resume", "last"]) != 2
