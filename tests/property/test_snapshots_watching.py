"""A mutator in another process against the watcher: each watched snapshot is what a full scan of that moment sees."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.clock import StillClock
from agentrewind.snapshots.finder import SCAN, WATCH
from agentrewind.snapshots.reading import SIGNATURE, HashingSink
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.scan import Scan, Seen
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.unit.snapshots import mutator

ROUNDS = 30
"""So many snapshots are compared at least, however slow the machine is: after the twentieth the queue overflows."""
RULES = PathRules(excluded=("excluded", "excluded-*"))


@contextlib.contextmanager
def mutating(root: Path, outside: Path, seed: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, mutator.__file__, root, outside, str(seed)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        while b"ready" not in log.read_bytes():
            assert child.poll() is None, log.read_text()
            time.sleep(0.01)
        yield child
    finally:
        child.kill()
        child.wait()


@contextlib.contextmanager
def frozen(child: subprocess.Popen[bytes]) -> Iterator[None]:
    os.kill(child.pid, signal.SIGSTOP)
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    try:
        yield
    finally:
        os.kill(child.pid, signal.SIGCONT)


def scanned(world: WorkspaceWorld) -> dict[str, bytes]:
    """What a scan sees that knows nothing and reads everything."""
    site = world._site
    sink = HashingSink(world._store.keys)
    return Scan(site.fd, world.rules, sink, Seen(), StillClock(), tick_ns=0).run().entries


def shown(world: WorkspaceWorld, path: str, what: dict[str, bytes], expected: dict[str, bytes]) -> list[object]:
    known = [e.decode(state[path]) if path in state else None for state in (what, expected)]
    there = (world.root / path).lstat() if path in expected else None
    return [path, *known, there, SIGNATURE.unpack(world._site.known.signatures.get(path, bytes(44)))]


def acts(log: Path) -> list[str]:
    return log.read_text().split()[-60:]


def compare(world: WorkspaceWorld, log: Path) -> str:
    """How the snapshot of this frozen moment was found; it is what a scan sees, and so is what the store has of it."""
    found = world.snapshot()
    expected = scanned(world)
    for what in (world._site.known.entries, world._store.state(found.id)):
        wrong = {path for path in expected.keys() | what.keys() if expected.get(path) != what.get(path)}
        assert not wrong, (
            world._site.manner,
            [shown(world, path, what, expected) for path in sorted(wrong)[:3]],
            acts(log),
        )
    return world._site.manner.found_by


def burst(child: subprocess.Popen[bytes], log: Path) -> None:
    before = log.read_bytes().count(b"burst")
    os.kill(child.pid, signal.SIGUSR1)
    while log.read_bytes().count(b"burst") == before:
        assert child.poll() is None, log.read_text()
        time.sleep(0.01)


def run(tmp_path: Path, seed: int, seconds: float) -> dict[str, int]:
    root, outside, log = tmp_path / "ws", tmp_path / "outside", tmp_path / "log"
    root.mkdir()
    outside.mkdir()
    counts = {WATCH: 0, SCAN: 0}
    world = WorkspaceWorld.open(root, tmp_path / "store", rules=RULES, detector="watch")
    with mutating(root, outside, seed, log) as child, world:
        until = time.monotonic() + seconds
        while time.monotonic() < until or sum(counts.values()) < ROUNDS:
            with frozen(child):
                counts[compare(world, log)] += 1
                if sum(counts.values()) % 10 == 0:
                    assert world.audit() == 0
            assert child.poll() is None, log.read_text()
            if sum(counts.values()) % 40 == 20:
                burst(child, log)
            time.sleep(0.02 * (sum(counts.values()) % 7))
        assert all(world.verify(found.id).ok for found in world.snapshots()[-3:])
    return counts


@pytest.mark.parametrize("seed", [1, 2])
def test_a_watched_snapshot_is_what_a_scan_sees(tmp_path: Path, seed: int) -> None:
    counts = run(tmp_path, seed, 4)
    assert counts[WATCH] > 10, counts
    assert counts[SCAN] > 1, "the queue never overflowed"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_watched_snapshot_is_what_a_scan_sees_at_length(tmp_path: Path, seed: int) -> None:
    counts = run(tmp_path, seed, float(os.environ.get("AGENTREWIND_WATCH_SECONDS", "30")))
    assert counts[WATCH] > 10, counts
