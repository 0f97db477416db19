"""A process that saves, restores, collects, and makes runs with rewinds, without end until it is killed.

python storm_child.py DIR SEED: works on DIR/ws with the store DIR/store and the runs DIR/runs. Before each act it
writes to DIR/said what it is about to do, after it what is done; a snapshot that is said to be synced, or that a run
names, must never be lost.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentrewind.core.errors import RewindRefused, UsageError
from agentrewind.core.records import RunStarted
from agentrewind.core.wire import WireReply
from agentrewind.core.world import SnapshotId
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine import offline
from agentrewind.engine.session import Session
from agentrewind.journal.reader import read_run
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots import packs
from agentrewind.snapshots.budget import Limits
from agentrewind.snapshots.gc import collect, survey
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.unit.engine.wire import PATH, SHELL, answer

FREE = Limits(min_free=0)
RUNS_KEPT = 2


def say(base: Path, **facts: object) -> None:
    with (base / "said").open("a") as file:
        file.write(json.dumps(facts) + "\n")


def edit(root: Path, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 6)):
        path = root / f"d{rng.randrange(3)}" / f"f{rng.randrange(8)}"
        path.parent.mkdir(exist_ok=True)
        if path.exists() and rng.random() < 0.3:
            path.unlink()
        elif rng.random() < 0.5:
            path.write_bytes(rng.randbytes(rng.randrange(30_000)))
        else:
            fresh = path.with_name("fresh")
            fresh.write_bytes(rng.randbytes(rng.randrange(3_000)))
            os.replace(fresh, path)


def edit_and_save(base: Path, world: WorkspaceWorld, rng: random.Random) -> SnapshotId:
    say(base, editing=True)
    edit(base / "ws", rng)
    say(base, doing="snapshot")
    taken = world.snapshot()
    world.sync()
    say(base, synced=taken.id, fingerprint=taken.fingerprint)
    return taken.id


def runs(base: Path) -> list[Path]:
    """The journals that came to have a header, oldest first."""
    return [path for path in sorted((base / "runs").glob("0*")) if (path / "journal.jsonl").exists()]


def by_hand(base: Path, rng: random.Random) -> None:
    """Snapshots and a restore."""
    root, store = base / "ws", base / "store"
    with WorkspaceWorld.open(root, store, limits=FREE, background=rng.random() < 0.5) as world:
        for _ in range(rng.randrange(1, 4)):
            edit_and_save(base, world, rng)
        if rng.random() < 0.6:
            before, target = world.snapshot().id, rng.choice(world.snapshots()).id
            say(base, doing="restore", target=target, before=before)
            world.restore(target)
            say(base, restored=target)


def collection(base: Path, rng: random.Random) -> None:
    """All runs but the newest go, then what nobody needs any more: what a run names stays."""
    for path in runs(base)[:-RUNS_KEPT]:
        shutil.rmtree(path.rename(path.with_name(f".removing-{path.name}")))
    named = {name for path in runs(base) for name in named_by(path)}
    opened = Store.open(base / "store", writable=True, limits=FREE)
    try:
        names = opened.names()
        keep = {name for name in names if name in named or rng.random() < 0.6} | set(names[-1:])
        say(base, doing="collect", dropping=[name for name in names if name not in keep])
        collect(opened, survey(opened, keep), room=lambda: rng.choice((0, 1 << 40)))
        say(base, collected=True)
    finally:
        opened.close()


def named_by(path: Path) -> set[str]:
    """All snapshots that the journal of a run names."""
    return {
        name
        for event in read_run(path).events
        for name in (getattr(event, "snapshot", None), getattr(event, "live", None))
        if name is not None
    }


class Model:
    """Asks for edits, now and then for a rewind to a random checkpoint, and is done after some turns."""

    def __init__(self, base: Path, log: JournalWriter, rng: random.Random) -> None:
        self._base, self._log, self._rng = base, log, rng
        self._left = rng.randrange(3, 9)
        self._asked = 0

    def __call__(self, _body: dict) -> WireReply:
        self._asked += 1
        self._left -= 1
        if self._left < 0:
            return WireReply(200, (), answer(text="done"))
        known = self._log.tree.checkpoints()
        if known and self._rng.random() < 0.4:
            to = self._rng.choice(known)
            before = next(reversed(self._log.tree.states))
            say(self._base, doing="rewind", target=to.began.snapshot, before=before)
            commit = {"record_uid": to.uid, "memory_summary": f"note {self._rng.random()}"}
            return WireReply(200, (), answer(calls=[(f"k{self._asked}", "backtrack_commit", commit)]))
        say(self._base, doing="snapshot")
        return WireReply(200, (), answer(calls=[(f"c{self._asked}", "shell", {})]))


def agent(base: Path, rng: random.Random) -> None:
    """A run of its own: edits, and rewinds that its model asks for."""
    number = max((int(path.name) for path in runs(base)), default=0) + 1
    path = base / "runs" / f"{number:06d}"
    with WorkspaceWorld.open(base / "ws", base / "store", limits=FREE) as world:
        say(base, beginning=path.name)
        log = JournalWriter.create(path, RunStarted(path.name, str(base / "ws"), 1, "0"))
        session = Session(log, world, [OpenAIChat()])
        model, messages = Model(base, log, rng), [{"role": "user", "content": "do it"}]
        while True:
            reply = session.call(PATH, {"model": "m", "messages": list(messages), "tools": [SHELL]}, model)
            message = json.loads(reply.body)["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                break
            for call in message["tool_calls"]:
                text = session.tool("shell", {}, _edits(base, rng), call_id=call["id"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        session.end("done", ok=True)
        log.close()
        say(base, ended=path.name)


def _edits(base: Path, rng: random.Random) -> Callable[[], str]:
    def run() -> str:
        edit(base / "ws", rng)
        return "edited"

    return run


def people(base: Path, rng: random.Random) -> None:
    """What a person does to the newest run: rewinds it, takes that back, brings files back."""
    if not runs(base):
        return
    with (
        WorkspaceWorld.open(base / "ws", base / "store", limits=FREE) as world,
        JournalWriter.open(runs(base)[-1]) as log,
    ):
        offline.settle(log, world)
        for _ in range(rng.randrange(1, 4)):
            before = edit_and_save(base, world, rng)
            known = log.tree.checkpoints()
            act = rng.choice(("rewind", "undo", "restore")) if known else "undo"
            with suppress(UsageError, RewindRefused):  # nothing to undo; not to there
                moved(base, log, world, act, before=before, rng=rng)
            say(base, moved=act)


def moved(
    base: Path, log: JournalWriter, world: WorkspaceWorld, act: str, *, before: SnapshotId, rng: random.Random
) -> None:
    if act == "undo":
        last = log.tree.moves[-1] if log.tree.moves else None
        say(base, doing="rewind", target=last.live if last else before, before=before)
        offline.undo(log, world)
        return
    node = rng.choice(log.tree.checkpoints())
    say(base, doing="rewind" if act == "rewind" else "restore", target=node.began.snapshot, before=before)
    if act == "rewind":
        offline.rewind(log, world, node.uid, f"note {rng.random()}")
    else:
        offline.restore_files(log, world, node.uid)


ACTS = (by_hand, collection, agent, people, agent, people)


def main() -> None:
    base, seed = Path(sys.argv[1]), int(sys.argv[2])
    packs.PACK_LIMIT = 60_000
    rng = random.Random(seed)
    (base / "runs").mkdir(exist_ok=True)
    with WorkspaceWorld.open(base / "ws", base / "store", limits=FREE) as world:
        world.snapshot()
    print("armed", flush=True)
    while True:
        act = rng.choice(ACTS)
        say(base, act=act.__name__)
        act(base, rng)


if __name__ == "__main__":
    main()
