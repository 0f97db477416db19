"""Audits: now and then while the model thinks, once at the end, and what they find is told."""

from __future__ import annotations

import threading
import time

import pytest

import agentrewind
from agentrewind.core.errors import StoreError
from agentrewind.engine import auditing
from agentrewind.engine.auditing import Auditor
from agentrewind.snapshots.site import Site


def test_none_begins_before_its_time_and_one_at_a_time() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        go.wait(10)
        return 2

    patient = Auditor(slow, threading.RLock())
    patient.meanwhile()
    assert not begun.wait(0.05)
    eager = Auditor(slow, threading.RLock(), rest_s=0)
    eager.meanwhile()
    assert begun.wait(10)
    begun.clear()
    eager.meanwhile()
    assert not begun.wait(0.05)
    go.set()
    deadline = time.monotonic() + 10
    while not eager.audits and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (eager.audits, eager.healed) == (1, 2)


def test_it_waits_for_whoever_uses_the_world() -> None:
    lock, done = threading.RLock(), []
    auditor = Auditor(lambda: len(done), lock)
    other = threading.Thread(target=auditor.now)
    with lock:
        other.start()
        other.join(0.05)
        assert not auditor.audits
    other.join(10)
    assert auditor.audits == 1


def test_an_error_is_left_to_the_next_snapshot() -> None:
    def gone() -> int:
        raise StoreError("the workspace is gone")

    auditor = Auditor(gone, threading.RLock())
    auditor.now()
    assert (auditor.audits, auditor.healed) == (0, 0)


def test_a_change_that_nobody_told_of_is_saved_at_the_end_and_counted(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("one")
    monkeypatch.setattr(Site, "audit", lambda self: 3)
    with agentrewind.session(work):
        pass
    ended = agentrewind.open_run("last").tree.ended
    assert ended is not None
    assert (ended.audits, ended.healed) == (1, 3)


def test_without_anything_amiss_nothing_is_found(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(auditing, "REST_S", 0.0)
    work = tmp_path / "work"
    work.mkdir()
    with agentrewind.session(work) as run:
        del run
        for number in range(20):
            (work / str(number)).write_text("x")
    ended = agentrewind.open_run("last").tree.ended
    assert ended is not None
    assert (ended.audits, ended.healed) == (1, 0)
