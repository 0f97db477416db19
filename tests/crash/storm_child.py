"""A process that saves, restores and collects without end until it is killed.

python storm_child.py DIR SEED: works on DIR/ws with the store DIR/store. Before each act it writes to DIR/said what it
is about to do, after it what is done; a snapshot that is said to be synced must never be lost.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

from agentrewind.snapshots import packs
from agentrewind.snapshots.budget import Limits
from agentrewind.snapshots.gc import collect, survey
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld

FREE = Limits(min_free=0)


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


def settle(base: Path) -> None:
    with WorkspaceWorld.open(base / "ws", base / "store", limits=FREE) as world:
        world.resume()


def turn(base: Path, rng: random.Random) -> None:
    root, store = base / "ws", base / "store"
    with WorkspaceWorld.open(root, store, limits=FREE, background=rng.random() < 0.5) as world:
        for _ in range(rng.randrange(1, 4)):
            say(base, editing=True)
            edit(root, rng)
            taken = world.snapshot()
            world.sync()
            say(base, synced=taken.id, fingerprint=taken.fingerprint)
        if rng.random() < 0.6:
            target = rng.choice(world.snapshots())
            say(base, restoring=target.id)
            world.restore(target.id)
            say(base, restored=target.id)
    if rng.random() < 0.6:
        opened = Store.open(store, writable=True, limits=FREE)
        names = opened.names()
        keep = {name for name in names if rng.random() < 0.6} | {names[-1]}
        say(base, dropping=[name for name in names if name not in keep])
        collect(opened, survey(opened, keep), room=lambda: rng.choice((0, 1 << 40)))
        opened.close()


def main() -> None:
    base, seed = Path(sys.argv[1]), int(sys.argv[2])
    packs.PACK_LIMIT = 60_000
    rng = random.Random(seed)
    settle(base)
    print("armed", flush=True)
    while True:
        turn(base, rng)


if __name__ == "__main__":
    main()
