"""Bringing snapshots to the disk in the background: what `sync` promises stays what it was."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core.errors import StoreError
from agentrewind.snapshots.workspace import WorkspaceWorld

Open = Callable[..., WorkspaceWorld]


class Disk:
    """Counts what is brought to the disk, slowly or not at all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: OSError | None = None
        self._real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, fd: int) -> None:
        self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self._real(fd)
        self.synced.append(threading.current_thread().name)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def settled() -> None:
    deadline = time.monotonic() + 10
    while any(thread.name == "agentrewind-flush" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_sync_finds_it_done(root: Path, open_world: Open, disk: Disk) -> None:
    world = open_world(background=True)
    (root / "a").write_text("a")
    world.snapshot()
    settled()
    assert disk.synced == ["agentrewind-flush"]
    world.sync()
    assert disk.synced == ["agentrewind-flush"]
    (root / "a").write_text("b")
    world.snapshot()
    world.sync()
    assert disk.synced == ["agentrewind-flush"] * 2


def test_a_snapshot_does_not_wait_and_a_sync_does(root: Path, open_world: Open, disk: Disk) -> None:
    disk.gate.clear()
    world = open_world(background=True)
    for number in range(5):
        (root / "a").write_text(str(number))
        world.snapshot()
    assert disk.synced == []
    threading.Timer(0.05, disk.gate.set).start()
    world.sync()
    assert 1 <= len(disk.synced) <= 5


def test_a_failure_in_the_background_comes_out_at_every_sync(root: Path, open_world: Open, disk: Disk) -> None:
    world = open_world(background=True)
    (root / "a").write_text("a")
    disk.error = OSError(errno.EIO, "Input/output error")
    world.snapshot()
    settled()
    disk.error = None
    for _ in range(2):
        with pytest.raises(StoreError, match=r"Input/output error.*power loss"):
            world.sync()


def test_a_failure_in_the_foreground_is_a_sentence(root: Path, open_world: Open, disk: Disk) -> None:
    world = open_world()
    (root / "a").write_text("a")
    world.snapshot()
    disk.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StoreError, match="Input/output error"):
        world.sync()


def test_no_thread_is_left_when_there_is_nothing_to_do(root: Path, open_world: Open, disk: Disk) -> None:
    world = open_world(background=True)
    (root / "a").write_text("a")
    world.snapshot()
    settled()
    world.close()
    assert [thread.name for thread in threading.enumerate() if "agentrewind" in thread.name] == []


def test_a_forked_child_syncs_by_itself(root: Path, open_world: Open, disk: Disk) -> None:
    disk.gate.clear()
    world = open_world(background=True)
    (root / "a").write_text("a")
    world.snapshot()
    child = os.fork()
    if child == 0:
        disk.gate.set()
        code = 1
        try:
            world.sync()
            code = 0 if disk.synced == ["MainThread"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    disk.gate.set()
    world.sync()


def test_a_kill_does_not_wait_for_it_and_closing_does(root: Path, store: Path, open_world: Open, disk: Disk) -> None:
    world = open_world(background=True)
    (root / "a").write_bytes(os.urandom(3 << 20))
    first = world.snapshot()
    world.close()
    assert disk.synced
    assert open_world().verify(first.id).ok
