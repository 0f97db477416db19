"""Kill -9 between a person's request and its effect: the rewind is made once, never twice and never by half."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.core.records import NodeBegan, Rewound
from agentrewind.journal.check import check
from agentrewind.journal.reader import read_run
from tests.crash.asking_child import NOTE, TARGET
from tests.crash.test_rewind_crashes import ROOT, contents, lay_out

POINTS = (
    "request.written",
    "request.taken",
    "rewind.present saved",
    "rewind.intent written",
    "rewind.processes ended",
    "snapshot.restore-applied",
    "rewind.world restored",
    "rewind.committed",
)


def child(base: Path, *arguments: str) -> int:
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    started = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/crash/asking_child.py"), str(base), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
    )
    armed = started.stdout.readline()
    _, err = started.communicate(timeout=60)
    assert armed == b"armed\n", err.decode()
    assert started.returncode in (0, -signal.SIGKILL), err.decode()
    return started.returncode


@pytest.mark.parametrize("point", POINTS)
def test_a_request_is_carried_out_once_whatever_is_killed(tmp_path: Path, point: str) -> None:
    lay_out(tmp_path)
    assert child(tmp_path, point) == -signal.SIGKILL
    assert child(tmp_path, "nowhere", "again") == 0
    log = read_run(tmp_path / "run")
    moves = [event for event in log.events if isinstance(event, Rewound)]
    assert [(move.target, move.by, move.note) for move in moves] == [(TARGET, "person", NOTE)]
    assert log.tree.rewinds == 1
    assert list((tmp_path / "run" / "requests").iterdir()) == []
    assert check(tmp_path / "run") == []
    files = contents(tmp_path / "work")
    assert not {"made-2", "made-3"} & set(files)
    assert {"made-1", "original/sub/file"} <= set(files)
    calls = [event for event in log.events if isinstance(event, NodeBegan) and event.llm is not None]
    told = [NOTE in json.dumps([log.get(item) for item in log.tree.messages(call.uid)]) for call in calls]
    assert told[:3] == [False] * 3
    assert told[-1] is True


def test_without_a_kill_it_is_carried_out_once_too(tmp_path: Path) -> None:
    lay_out(tmp_path)
    assert child(tmp_path, "nowhere") == 0
    log = read_run(tmp_path / "run")
    assert log.tree.rewinds == 1
    assert set(contents(tmp_path / "work")) >= {"made-1", "made-4"}
    assert not (tmp_path / "work" / "made-2").exists()
