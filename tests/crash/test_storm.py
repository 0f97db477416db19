"""A storm of kills at random moments of saving, restoring, collecting and rewinding."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentrewind.core.records import RewindGivenUp
from agentrewind.engine import offline
from agentrewind.journal.check import check
from agentrewind.journal.reader import read_run
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.crash.storm_child import FREE, runs

ROOT = Path(__file__).parents[2]
OF_A_RUN = ("agent", "people")
KILLS = int(os.environ.get("AGENTREWIND_KILLS", "500"))
"""How many processes the long form kills in the middle of one of `ACTS`; those killed elsewhere come on top."""
ACTS = ("snapshot", "restore", "collect", "rewind")


def storm(base: Path, kills: int, seed: int) -> Counter[str]:
    """What the processes were at when they were killed, counted."""
    (base / "ws").mkdir(parents=True)
    rng, at = random.Random(seed), Counter[str]()
    for number in range(kills):
        kill_one(base, seed * 1000 + number, rng.random() * 0.25)
        at[after_a_kill(base, f"kill {number} of seed {seed}")] += 1
    return at


def kill_one(base: Path, seed: int, after: float) -> None:
    """Let a process work for so many seconds, and kill it; it was alive and died of that."""
    child = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/crash/storm_child.py"), str(base), str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"armed\n", child.communicate()[1].decode()
    time.sleep(after)
    assert child.poll() is None, child.communicate()[1].decode()
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL


def after_a_kill(base: Path, what: str) -> str:
    """What is on disk opens, and can be finished, and nothing is lost by that; what the process was at."""
    said = [json.loads(line) for line in (base / "said").read_text().splitlines()] if (base / "said").exists() else []
    last = said[-1] if said else {}
    act = next((line["act"] for line in reversed(said) if "act" in line), "")
    found = files(base / "ws")
    with ExitStack() as stack:
        world = stack.enter_context(WorkspaceWorld.open(base / "ws", base / "store", limits=FREE))
        all_that_was_durable_is_there(base, world, said, what)
        journals = runs(base)[-1:] if act in OF_A_RUN else []
        for path in journals:
            settled(stack.enter_context(JournalWriter.open(path)), world, last, what)
        if not journals:
            world.resume()
            before_or_after(world, last, what)
        assert world.pending is None, what
        assert found.items() <= saved(world, found).items(), what
    for path in journals:
        assert check(path) == [], what
        assert not [event for event in read_run(path).events if isinstance(event, RewindGivenUp)], what
    return str(last.get("doing", "else"))


def all_that_was_durable_is_there(base: Path, world: WorkspaceWorld, said: list[dict], what: str) -> None:
    """But for what was being dropped."""
    fingerprints = {line["synced"]: line["fingerprint"] for line in said if "synced" in line}
    dropped = {name for line in said for name in line.get("dropping", ())}
    named = {name for path in runs(base) for name in read_run(path).tree.states}
    there = {snapshot.id: snapshot for snapshot in world.snapshots()}
    assert not fingerprints.keys() - there.keys() - dropped, what
    assert not named - there.keys(), what
    for name in there.keys() - dropped:
        assert world.verify(name).ok, (what, name)
        assert there[name].fingerprint == fingerprints.get(name, there[name].fingerprint)


def settled(log: JournalWriter, world: WorkspaceWorld, last: dict, what: str) -> None:
    """A cut-off move is finished, and the run goes on from files and conversation that belong together."""
    offline.settle(log, world)
    assert world.pending is None, what
    assert log.tree.intent is None, what
    before_or_after(world, last, what)
    point, _ = offline.resume(log, world)
    if point.snapshot is not None:
        assert world.identical(world.snapshot("after the kill").id, point.snapshot), what


def before_or_after(world: WorkspaceWorld, last: dict, what: str) -> None:
    """Where a restore or a rewind was under way, all files are as before it or as after it."""
    if "target" in last:
        now = world.snapshot("after the kill").fingerprint
        assert now in {world.fingerprint(last[name]) for name in ("before", "target")}, (what, last)


def files(root: Path) -> dict[str, bytes]:
    return {
        os.fspath(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def saved(world: WorkspaceWorld, wanted: dict[str, bytes]) -> dict[str, bytes]:
    """Those of the wanted files that stand in the workspace or in a snapshot with these bytes."""
    newest_first = [snapshot.id for snapshot in reversed(world.snapshots())]
    now = files(world.root)
    return {
        path: data
        for path, data in wanted.items()
        if now.get(path) == data or any(world.read(name, path) == data for name in newest_first)
    }


def test_a_short_storm(tmp_path: Path) -> None:
    storm(tmp_path, 20, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_five_hundred_kills(tmp_path: Path) -> None:
    """Each of the four acts is met, or the storm has shown nothing about it."""
    at, number = Counter[str](), 0
    while sum(at[act] for act in ACTS) < KILLS:
        at += storm(tmp_path / str(number), 50, seed=100 + number)
        number += 1
    print("\nkilled while:", dict(at))
    assert all(at[act] >= KILLS // 50 for act in ACTS), at
