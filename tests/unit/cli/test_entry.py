"""The edges of every command: exit codes, one sentence, nothing else on standard output."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.cli.entry import run as main
from agentrewind.cli.group import COMMANDS, group
from agentrewind.compose.home import Home
from agentrewind.core.errors import StorageFull, UsageError
from agentrewind.core.records import RunStarted
from agentrewind.journal.writer import JournalWriter
from tests.long_runs import long_run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("AGENTREWIND_CRASH_AT", raising=False)
    return tmp_path / "home"


def broken(error: Exception, monkeypatch) -> None:
    def find(*_: object) -> str:
        raise error

    monkeypatch.setattr("agentrewind.compose.home.Home.run_ids", find)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_help_page_exists_and_explains_itself_with_an_example(name, capsys):
    assert main([name, "--help"]) == 0
    assert re.search(r"Examples?: agentrewind", capsys.readouterr().out)
    command = group.get_command(None, name)
    assert command is not None


def test_the_help_page_names_them_all(capsys):
    assert main(["-h"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and line.split()[0] in shown for name, line in COMMANDS.items())


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["log"], ["log", "last", "--nonsense"], ["run", "task"], ["log", "last"], ["export", "last"]],
)
def test_bad_use_is_one_line_and_exit_code_2(arguments, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("agentrewind: ")
    assert shown.err.count("\n") == 1


def test_our_own_errors_are_one_line_without_a_report(monkeypatch, capsys, home):
    broken(StorageFull("No room\nat all."), monkeypatch)
    assert main(["runs"]) == 1
    broken(UsageError("Not so."), monkeypatch)
    assert main(["runs"]) == 2
    assert capsys.readouterr().err == "agentrewind: No room at all.\nagentrewind: Not so.\n"
    assert not (home / "reports").exists()


def test_a_full_disk_is_one_line_without_a_report(monkeypatch, capsys, home):
    broken(OSError(errno.ENOSPC, "No space left on device"), monkeypatch)
    assert main(["runs"]) == 1
    assert "No room left" in capsys.readouterr().err
    assert not (home / "reports").exists()


def test_what_nobody_expected_is_one_line_and_a_report_without_secrets(monkeypatch, capsys, home):
    monkeypatch.setenv("MY_API_KEY", "abcd-very-secret-1234")
    broken(RuntimeError("abcd-very-secret-1234 \x1b[31mred"), monkeypatch)
    assert main(["runs"]) == 1
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "Traceback" not in shown
    assert "\x1b" not in shown
    (report,) = (home / "reports").iterdir()
    assert str(report) in shown
    text = report.read_text()
    assert "Traceback" in text
    assert "very-secret" not in text + shown


def test_interrupted(monkeypatch, capsys):
    broken(KeyboardInterrupt(), monkeypatch)
    assert main(["runs"]) == 130
    assert capsys.readouterr().err.strip() == "agentrewind: Interrupted."


def test_no_run_yet_is_said_and_is_an_empty_list_for_programs(capsys):
    assert main(["runs"]) == 0
    assert "no run yet" in capsys.readouterr().out
    assert main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_damaged_run_hides_no_other(capsys, home):
    for number in (1, 2):
        run_id = f"20261201-00000{number}-x-000{number}"
        JournalWriter.create(home / "runs" / run_id, RunStarted(run_id, "/w", number, "0", "task")).close()
    with open(home / "runs" / "20261201-000001-x-0001" / "journal.jsonl", "ab") as journal:
        journal.write(b'{"n":1,"crc":"00000000"}\n{"n":2}\n')
    assert main(["runs", "--json"]) == 0
    states = [run["state"] for run in json.loads(capsys.readouterr().out)]
    assert states == ["damaged", "interrupted"]
    assert main(["runs"]) == 0
    assert main(["check", "20261201-000001"]) == 1
    assert "byte" in capsys.readouterr().err


def test_names_and_tasks_of_any_bytes_are_shown_and_control_nothing(capsys, home, tmp_path):
    workspace = os.fsdecode(os.fsencode(tmp_path) + b"/w\xe9\x1b[2J")
    run_id = "20261201-000001-x-0001"
    header = RunStarted(run_id, workspace, 1, "0", "do\x1b]0;title\x07 this\u202e")
    JournalWriter.create(home / "runs" / run_id, header).close()
    for arguments in (["log", "last"], ["runs"]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "\u202e" not in shown
    assert main(["log", "last", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workspace"] == workspace


# --- how a command is used badly --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said", "page"),
    [
        (["candidates", "last", "--limit", "x"], "'x' is not a whole number", "candidates"),
        (["candidates", "last", "--limit", "0"], "0 is less than 1", "candidates"),
        (["run", "--model", "m", "--max-rewinds", "1.5", "task"], "'1.5' is not a whole number", "run"),
        (["store", "gc", "--keep-days", "x"], "'x' is not a number", "store gc"),
        (["run", "--model"], "'--model' requires an argument", "run"),
        (["snap", "create", "--label"], "'--label' requires an argument", "snap create"),
        (["snap", "nonsense"], "'nonsense'", "snap"),
        (["nonsense"], "'nonsense'", ""),
        (["--nonsense"], "'--nonsense'", ""),
    ],
)
def test_bad_use_is_said_readably_and_points_to_the_help_of_the_command(arguments, said, page, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert f"`{f'agentrewind {page}'.strip()} --help` says" in shown
    assert "range" not in shown


@pytest.mark.parametrize("arguments", [[], ["snap"], ["store"]])
def test_no_command_shows_the_help_page(arguments, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: agentrewind")
    assert "Commands:\n" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["snap", "create", ""],
        ["snap", "list", ""],
        ["snap", "restore", "last", ""],
        ["snap", "diff", "last", "now", ""],
        ["paths", ""],
        ["demo", "--workspace", ""],
        ["run", "--model", "m", "--workspace", "", "task"],
        ["run", "--model", "m", "--check", "", "task"],
        ["run", "--model", "m", "--base-url", "", "task"],
        ["run", "--model", "", "task"],
    ],
)
def test_an_empty_value_means_nothing_and_is_one_sentence(arguments, capsys, monkeypatch, tmp_path, home):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    (tmp_path / "w").mkdir()
    monkeypatch.chdir(tmp_path / "w")
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "empty" in shown or "''" in shown
    assert not home.exists()


def test_a_home_that_is_none_is_said_in_words(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "file"))
    for arguments in (["runs"], ["log", "last"]):
        assert main(arguments) == 2
        assert "Not a directory" in capsys.readouterr().err


# --- the standard streams ---------------------------------------------------------------------------------------------


def in_shell(line: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command with these arguments, as `"$@"` in a line for the shell."""
    words = [sys.executable, "-m", "agentrewind", *arguments]
    return subprocess.run(
        ["sh", "-c", line, "sh", *words],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_good_as_the_null_device(closed, tmp_path):
    (tmp_path / "w").mkdir()
    done = in_shell(f'"$@" {closed}', "snap", "create", str(tmp_path / "w"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert in_shell(f'"$@" {closed}', "snap", "nonsense").returncode == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["runs"], ["runs", "--json"], ["--help"]])
def test_output_that_cannot_be_written_is_about_the_output(arguments, unbuffered):
    done = in_shell('"$@" > /dev/full', *arguments, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr == (
        "agentrewind: The output can't be written: No space left on device. What the command did is done.\n"
    )


@pytest.mark.parametrize("value", ["x:y", "journal.event-written:1.5"])
def test_a_crash_point_that_is_none_is_one_sentence(value):
    done = in_shell('"$@"', "runs", AGENTREWIND_CRASH_AT=value)
    assert done.returncode == 2
    assert done.stderr.startswith("agentrewind: AGENTREWIND_CRASH_AT is NAME")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_named(monkeypatch, capsys, home):
    broken(OSError(errno.ENOSPC, "No space left on device", "/some/file"), monkeypatch)
    main(["runs"])
    assert "(/some/file)" in capsys.readouterr().err
    broken(OSError(errno.ENOSPC, "No space left on device"), monkeypatch)
    main(["runs"])
    assert str(home) in capsys.readouterr().err


# --- secrets, damage --------------------------------------------------------------------------------------------------


def test_no_error_says_a_secret_of_the_environment_or_of_the_directory(monkeypatch, capsys, home, tmp_path):
    monkeypatch.setenv("MY_PASSWORD", "hunter2hunter2")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".env").write_text("APP_PASSWORD=swordfish-77\n")
    for error in (UsageError, StorageFull, RuntimeError):

        def fail(*_: object, error: type[Exception] = error, **__: object) -> str:
            raise error("hunter2hunter2 or swordfish-77")

        monkeypatch.setattr("agentrewind.cli.snap.workspace_path", fail)
        main(["snap", "create", str(tmp_path / "w")])
    said = capsys.readouterr().err + "".join(path.read_text() for path in (home / "reports").iterdir())
    assert said.count("[redacted") >= 6
    assert "hunter2" not in said
    assert "swordfish" not in said
    assert {path.stat().st_mode & 0o777 for path in (home / "reports").iterdir()} == {0o600}


@pytest.mark.parametrize("journal", [b"[" * 200_000, b'{"started_ns":1e999}\n', b"\xff\n", b"", None])
def test_a_broken_journal_hides_no_other_run(journal, capsys, home):
    for number in (1, 2):
        run_id = f"20261201-00000{number}-x-000{number}"
        JournalWriter.create(home / "runs" / run_id, RunStarted(run_id, "/w", number, "0", "task")).close()
    path = home / "runs" / "20261201-000001-x-0001" / "journal.jsonl"
    if journal is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(journal)
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"000001-x-0001 +damaged", lines[1])
    assert re.search(r"000002-x-0002 +interrupted", lines[2])


def test_whatever_a_journal_does_to_its_reader_hides_no_other_run(monkeypatch, capsys, home):
    run_id = "20261201-000001-x-0001"
    JournalWriter.create(home / "runs" / run_id, RunStarted(run_id, "/w", 1, "0", "task")).close()

    def read(_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("agentrewind.compose.runs.read_run", read)
    assert main(["runs"]) == 0
    assert "RecursionError: too deep" in capsys.readouterr().out


def test_a_shell_completes_commands_and_runs(tmp_path):
    home = Home(tmp_path / "home")
    run_id = long_run(home, tmp_path, steps=3, rewinds=0)

    def completed(*words):
        environ = {
            **os.environ,
            "AGENTREWIND_HOME": str(home.root),
            "_AGENTREWIND_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("agentrewind", *words)),
            "COMP_CWORD": str(len(words)),
        }
        program = [sys.executable, "-m", "agentrewind"]
        done = subprocess.run(program, env=environ, capture_output=True, text=True, timeout=60, check=False)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert "unpause" in completed("unp")
    assert completed("log", "la") == ["last"]
    assert completed("log", run_id[:9]) == [run_id]
