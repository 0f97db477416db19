from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrewind.snapshots.workspace import WorkspaceWorld


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace."""
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def open_world(root: Path, store: Path) -> Iterator[Callable[..., WorkspaceWorld]]:
    """Opens the workspace, closing what was open before."""
    opened: list[WorkspaceWorld] = []

    def open_it(**options: object) -> WorkspaceWorld:
        for world in opened:
            world.close()
        opened.append(WorkspaceWorld.open(root, store, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_it
    for world in opened:
        world.close()


@pytest.fixture
def world(open_world: Callable[..., WorkspaceWorld]) -> WorkspaceWorld:
    return open_world()
