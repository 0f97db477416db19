"""Whether bringing snapshots to the disk in the background helps: how long a snapshot takes, and how long the `sync`
that a rewind waits for, with some milliseconds of the agent's own work in between. Prints JSON.

python benchmarks/background_sync.py [DIR] [ROUNDS]
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from agentrewind.snapshots.workspace import WorkspaceWorld

THINKING_S = 0.05


def measured(base: Path, *, background: bool, size: int, rounds: int) -> dict[str, float]:
    """Medians in milliseconds."""
    root = base / f"ws-{background}-{size}"
    root.mkdir()
    for number in range(200):
        (root / f"f{number}").write_bytes(random.Random(number).randbytes(1000))
    saving, syncing = [], []
    with WorkspaceWorld.open(root, base / f"store-{background}-{size}", background=background) as world:
        world.snapshot()
        world.sync()
        for number in range(rounds):
            (root / f"f{number % 200}").write_bytes(os.urandom(size))
            begun = time.perf_counter()
            world.snapshot()
            saved = time.perf_counter()
            time.sleep(THINKING_S)
            thought = time.perf_counter()
            world.sync()
            saving.append((saved - begun) * 1000)
            syncing.append((time.perf_counter() - thought) * 1000)
    return {"snapshot_ms": round(statistics.median(saving), 2), "sync_ms": round(statistics.median(syncing), 2)}


def main() -> None:
    where = sys.argv[1] if len(sys.argv) > 1 else None
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    with tempfile.TemporaryDirectory(dir=where) as scratch:
        for size in (2_000, 3_000_000):
            found = {
                ("background" if background else "foreground"): measured(
                    Path(scratch), background=background, size=size, rounds=rounds
                )
                for background in (False, True)
            }
            print(json.dumps({"changed_bytes": size, **found}))


if __name__ == "__main__":
    main()
