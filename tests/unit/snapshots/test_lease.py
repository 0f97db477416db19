"""One writer a workspace, and directories that are no workspace."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agentrewind.core.errors import Busy, WorkspaceRefused
from agentrewind.snapshots.workspace import WorkspaceWorld


def open_at(root: Path, tmp_path: Path, holder: str = "") -> WorkspaceWorld:
    store = tmp_path / "stores" / str(abs(hash(root)))
    return WorkspaceWorld.open(root, store, holder=holder)


@pytest.mark.parametrize("other", [".", "..", "below"])
def test_the_same_directory_and_those_around_it_are_busy(tmp_path: Path, other: str) -> None:
    root = tmp_path / "above" / "ws"
    (root / "below").mkdir(parents=True)
    (tmp_path / "above" / "beside").mkdir()
    with open_at(root, tmp_path, "run 17"):
        with pytest.raises(Busy, match=rf"in use: process {os.getpid()} \(run 17\) holds"):
            open_at(root / other, tmp_path)
        open_at(tmp_path / "above" / "beside", tmp_path).close()
    open_at(root / other, tmp_path).close()


def test_a_reader_needs_no_lease(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    with (
        WorkspaceWorld.open(tmp_path / "ws", tmp_path / "store") as world,
        WorkspaceWorld.open(tmp_path / "ws", tmp_path / "store", lease=False) as reader,
    ):
        world.snapshot()
        assert len(reader.snapshots()) == 1


def test_the_death_of_its_process_frees_a_lease(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _held = open_at(root, tmp_path)
            os.write(writing, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read(1) == b"x"
    with pytest.raises(Busy, match=f"process {child}"):
        open_at(root, tmp_path)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    open_at(root, tmp_path).close()


def test_directories_that_are_no_workspace_are_refused_and_nothing_is_made(tmp_path: Path) -> None:
    root, store = tmp_path / "ws", tmp_path / "ws-store"
    root.mkdir()
    (root / "file").write_text("x")
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("home")
    before = sorted(tmp_path.rglob("*"))
    for bad, place, match in (
        (Path("/"), store, "the whole machine"),
        (tmp_path / "home", store, "home directory"),
        (tmp_path / "link", store, "home directory"),
        (tmp_path / "absent", store, "does not exist"),
        (root / "file", store, "not a directory"),
        (root, root, "lies in the snapshot store"),
        (root, root / "store", "must lie outside"),
        (root, tmp_path, "lies in the snapshot store"),
    ):
        with pytest.raises(WorkspaceRefused, match=match):
            WorkspaceWorld.open(bad, place, forbidden=[tmp_path / "home"])
    assert sorted(tmp_path.rglob("*")) == before


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    world = WorkspaceWorld.open(tmp_path / "ws", tmp_path / "store")
    world.close()
    world.close()
