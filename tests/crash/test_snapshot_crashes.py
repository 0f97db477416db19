"""Killed at any point of a snapshot or a restore: nothing is lost, and the restore can be finished.

Each test kills a child process at one named point and makes sure that it was alive and died of that signal.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots import workspace
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots import hostile

assert workspace  # its import registers the points
POINTS = [name for name in crashpoints.names() if name.startswith("snapshot.")]
RESTORE = [name for name in POINTS if name.startswith("snapshot.restore-")]
SIDE = "snapshot.side restored"
"""Of a workspace with a sandbox beside it, which has tests of its own (test_sided, test_settling_sides)."""
SAVE = [name for name in POINTS if name not in (*RESTORE, SIDE)]
EDIT = "an edit after the crash"


def killed_at(point: str, after: int, act: Callable[[], None]) -> bool:
    """Run `act` in a child that kills itself when `point` is reached for the time number `after` + 1.

    False if it was not reached so often, and the child ended by itself.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            crashpoints.arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL), after=after)
            os.write(writing, b"alive")
            act()
        finally:
            os._exit(7 if crashpoints._armed else 9)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"alive"
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 7, f"the child failed before {point}"
    return False


def open_world(root: Path) -> WorkspaceWorld:
    return WorkspaceWorld.open(root, root.parent / "store", durability="power")


def in_world(root: Path, act: Callable[[WorkspaceWorld], object]) -> Callable[[], None]:
    def run() -> None:
        with open_world(root) as world:
            act(world)

    return run


@pytest.mark.parametrize("point", SAVE)
def test_killed_while_saving(tmp_path: Path, point: str) -> None:
    """The earlier snapshot is whole, the killed one is there whole or not at all, and the next one is sound."""
    root = tmp_path / "ws"
    first_time = point in ("snapshot.key-written", "snapshot.pack-created")
    hostile.build(root)
    first, before = None, describe(root)
    if not first_time:
        with open_world(root) as world:
            first = world.snapshot()
        hostile.damage(root)
    (root / "many").mkdir()
    for number in range(9):
        (root / "many" / str(number)).write_bytes(os.urandom(1 << 20))
    state = describe(root)
    assert killed_at(point, 0, in_world(root, lambda world: world.snapshot("killed")))
    assert not differences(state, describe(root))
    with open_world(root) as world:
        known = world.snapshots()
        assert [found for found in known if found.label != "killed"] == ([first] if first else [])
        again = world.snapshot()
        assert all(world.verify(found.id).ok for found in world.snapshots())
        if first is not None:
            world.restore(first.id)
            assert not differences(before, describe(root))
        world.restore(again.id)
        assert not differences(state, describe(root))


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("point", RESTORE)
def test_killed_while_restoring(tmp_path: Path, point: str, after: int) -> None:
    """`resume` saves what is there, also what was edited after the crash, and reaches the target."""
    root = tmp_path / "ws"
    hostile.build(root)
    for name in ("one", "two", "three"):
        os.link(root.parent / "ws-outside.txt", root / name)
    target_state = describe(root)
    with open_world(root) as world:
        target = world.snapshot().id
    hostile.damage(root)
    for name in ("one", "two", "three"):
        (root / name).unlink()
        os.symlink("x", root / name)
        (root / f"hard-{name}").write_text(name)
        os.link(root / f"hard-{name}", root / f"also-hard-{name}")
    live_state = describe(root)
    if not killed_at(point, after, in_world(root, lambda world: world.restore(target))):
        assert after, f"{point} was never reached"
        return
    _finish(root, target, target_state, live_state, point)


def _finish(
    root: Path, target: SnapshotId, target_state: dict[str, object], live_state: dict[str, object], point: str
) -> None:
    untouched = not differences(live_state, describe(root))
    (root / "notes.txt").write_text(EDIT)
    (root / "made after the crash").write_text(EDIT)
    with open_world(root) as world:
        pending = world.pending
        if pending is None:
            assert untouched or point == "snapshot.restore-intent-cleared"
            report = world.restore(target)
        else:
            assert pending.target == target
            report = world.resume()
        assert report is not None
        assert not differences(target_state, describe(root))
        assert world.pending is None
        for path in ("notes.txt", "made after the crash"):
            assert world.read(report.live, path) == EDIT.encode()
        live = next(found for found in world.snapshots() if found.label.startswith("before restoring"))
        world.restore(live.id)
        if not untouched:
            assert not differences(live_state, describe(root))
        assert all(world.verify(found.id).ok for found in world.snapshots())
    assert not [path for path in root.rglob("*") if path.name.startswith(".agentrewind")]


def test_killed_again_and_again_it_still_gets_there(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    hostile.build(root)
    target_state = describe(root)
    with open_world(root) as world:
        target = world.snapshot().id
    hostile.damage(root)
    live_state = describe(root)
    assert killed_at("snapshot.restore-file-opened", 0, in_world(root, lambda world: world.restore(target)))
    with open_world(root) as world:
        assert world.pending is not None
        live = world.pending.live
    deaths = 0
    for point in ("file-written", "exchanged", "attributes-set", "directory-settled", "applied", "intent-written"):
        deaths += killed_at(f"snapshot.restore-{point}", 0, in_world(root, lambda world: world.resume()))
    assert deaths >= 4
    with open_world(root) as world:
        world.resume()
        assert not differences(target_state, describe(root))
        world.restore(live)
        assert not differences(live_state, describe(root))
