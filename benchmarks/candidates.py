"""How long `backtrack_candidates` takes in a run that was rewound many times, and what it lists.

    python benchmarks/candidates.py [--rewinds 300] [--steps 8] [--rounds 30]

A tree of so many rewinds, each after a few steps, as the session holds it in memory: no disk, no model. Two shapes:
each rewind goes one step less far back than it went on, so that the path grows; each goes back to the beginning.
"""

from __future__ import annotations

import argparse
import statistics
import time

from agentrewind.core.records import MAIN_THREAD, NodeBegan, NodeEnded, Rewound, Snapshotted, record_uid
from agentrewind.core.tree import RunTree
from agentrewind.core.world import Change, Changes, SnapshotId
from agentrewind.engine.candidates import candidates, render


class Grown:
    """A run of one conversation; each call is followed by a command that changes a file."""

    def __init__(self) -> None:
        self.tree = RunTree()

    def step(self) -> None:
        state = self.tree.live.snapshot if self.tree.live else self._saved()
        for kind in ("llm", "tool"):
            number = len(self.tree.nodes) + 1
            uid = record_uid(number)
            head, branch = self.tree.head, self.tree.branch
            self.tree.apply(NodeBegan(uid, kind, head, branch, MAIN_THREAD, f"sha256:{number}", state, number))
            self.tree.apply(NodeEnded(uid, digest=f"does number {number}", calls=(f"shell(make {number})",)))
        self._saved()

    def _saved(self) -> SnapshotId:
        number = len(self.tree.nodes)
        changes = Changes((Change("M", f"src/file{number % 40}.py"),), 1)
        state = SnapshotId(f"s{number}")
        self.tree.apply(Snapshotted(state, self.tree.head, f"print{number}", changes=changes))
        return state

    def back(self, steps: int | None) -> None:
        found = self.tree.checkpoints(MAIN_THREAD)
        target = found[0 if steps is None else max(len(found) - steps, 0)]
        live = self.tree.live.snapshot if self.tree.live and self.tree.live.snapshot else SnapshotId("s")
        branch = self.tree.next_branch()
        self.tree.apply(Rewound(branch, self.tree.head, target.uid, live, f"note {len(self.tree.notes)}"))


def measure(rewinds: int, steps: int, rounds: int, *, grows: bool) -> None:
    run = Grown()
    for _ in range(rewinds):
        for _ in range(steps):
            run.step()
        run.back(steps // 2 if grows else None)
    run.step()
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        text = render(candidates(run.tree, MAIN_THREAD))
        taken.append((time.perf_counter() - begun) * 1000)
    path = len(run.tree.checkpoints(MAIN_THREAD))
    print(
        f"{rewinds} rewinds, {len(run.tree.nodes):,} records, {path:,} checkpoints on the path: median"
        f" {statistics.median(taken):.1f} ms, slowest {max(taken):.1f} ms; {len(text.splitlines())} lines,"
        f" {len(text):,} characters"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewinds", type=int, default=300)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    for grows in (True, False):
        measure(options.rewinds, options.steps, options.rounds, grows=grows)


if __name__ == "__main__":
    main()
