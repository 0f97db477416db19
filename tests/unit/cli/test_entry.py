"""The edges of every command: exit codes, one sentence, nothing else on standard output."""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from agentrewind.cli.entry import run as main
from agentrewind.cli.group import COMMANDS, group
from agentrewind.core.errors import StorageFull, UsageError
from agentrewind.core.records import RunStarted
from agentrewind.journal.writer import JournalWriter


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
