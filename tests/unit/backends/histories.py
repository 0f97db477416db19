"""Random histories: change, save and go back at random, and compare each state brought back with what it was."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from agentrewind.core.world import SnapshotId, World
from agentrewind.testing.snapshots import Facts, describe

NAMES = ("a", "b", "c", "d")


def change(root: Path, rng: random.Random, step: int) -> None:
    """One change of any kind."""
    parent = rng.choice([root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())])
    path = parent / rng.choice(NAMES)
    if os.path.lexists(path) and rng.random() < 0.5:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    _make(path, rng, step)


def _make(path: Path, rng: random.Random, step: int) -> None:
    kind = rng.choice(("file", "file", "directory", "link", "mode", "time", "rename", "attribute"))
    there = os.path.lexists(path)
    plain = path.is_file() and not path.is_symlink()
    if kind == "file" and (plain or not there):
        path.write_bytes(b"%d" % step * rng.choice((1, 50_000)))
    elif kind == "directory" and not there:
        path.mkdir()
    elif kind == "link" and not there:
        path.symlink_to(rng.choice(NAMES))
    elif kind == "mode" and plain:
        path.chmod(rng.choice((0o600, 0o644, 0o755, 0o4755)))
    elif kind == "time" and there:
        os.utime(path, ns=(step, step * 1_000_003), follow_symlinks=False)
    elif kind == "rename" and plain:
        path.rename(path.with_name("renamed"))
    elif kind == "attribute" and there and not path.is_symlink():
        os.setxattr(path, "user.step", b"%d" % step)


def live(root: Path, world: World, rng: random.Random, steps: int, eyes: Callable[[Path], Facts] = describe) -> None:
    """Every state that is brought back is the one that was saved."""
    saved: list[tuple[SnapshotId, Facts]] = []
    for step in range(steps):
        for _ in range(rng.randrange(1, 8)):
            change(root, rng, step)
        if saved and rng.random() < 0.4:
            name, expected = rng.choice(saved)
            report = world.restore(name)
            assert eyes(root) == expected, (step, report)
        else:
            name = world.snapshot().id
            saved.append((name, eyes(root)))
    for name, _ in saved:
        assert world.verify(name).ok
