"""What a person asks of a run that is alive is written down without secrets, like everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrewind.compose.asking import Asked
from agentrewind.compose.home import Home
from agentrewind.compose.recording import created, header
from agentrewind.compose.runs import Run
from agentrewind.core.records import MAIN_THREAD, RecordUid
from agentrewind.engine.rewinder import Wish
from agentrewind.journal import requests

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_a_secret_in_a_note_is_not_in_the_request(tmp_path: Path) -> None:
    home, root = Home(tmp_path / "home").made(), tmp_path / "w"
    root.mkdir()
    started = header(root, "do it", redact=lambda value: value, agent="python")
    with created(home, started, lambda value: value, "process"):
        run = Run(home, started.run_id)
        asked = Asked(run, Wish(RecordUid("rec_000001"), f"use {TOKEN}", MAIN_THREAD), keep_drift=True)
        asked.put()
        written = b"".join(path.read_bytes() for path in run.path.rglob("*") if path.is_file())
    assert asked.request.note == "use [redacted github-token]"
    assert b"use [redacted github-token]" in written
    assert TOKEN.encode() not in written


def test_a_ctrl_c_while_a_request_is_put_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, root = Home(tmp_path / "home").made(), tmp_path / "w"
    root.mkdir()
    started = header(root, "do it", redact=lambda value: value, agent="python")

    def interrupted(path: Path) -> None:
        assert list(path.glob("*.asked"))
        raise KeyboardInterrupt

    with created(home, started, lambda value: value, "process"):
        asked = Asked(Run(home, started.run_id), Wish(RecordUid("rec_000001"), "n", MAIN_THREAD), keep_drift=True)
        monkeypatch.setattr(requests, "sync_directory", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asked.put()
        assert not list(home.run_dir(started.run_id).rglob("*.asked"))
        assert asked.withdraw()


def test_a_request_that_the_run_has_in_hand_can_not_be_taken_back(tmp_path: Path) -> None:
    home, root = Home(tmp_path / "home").made(), tmp_path / "w"
    root.mkdir()
    started = header(root, "do it", redact=lambda value: value, agent="python")
    with created(home, started, lambda value: value, "process"):
        run = Run(home, started.run_id)
        asked = Asked(run, Wish(RecordUid("rec_000001"), "n", MAIN_THREAD), keep_drift=True)
        asked.put()
        assert requests.Requests(run.path).take(asked.request.id)
        assert not asked.withdraw()
