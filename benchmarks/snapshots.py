"""Speed of our snapshots beside git, on the same trees with the same changes, alternating.

    python benchmarks/snapshots.py [--files 1000 10000] [--rounds 7] [--json FILE]

`git` is the best-tuned command line (index.version 4, untracked cache, preload, compression 1, fsync none; `add -A` and
`write-tree`); `editors` is what editors run (`add -A`, `commit`, `rev-parse`). Both write to a repository of their own
outside the tree. Medians of wall time and ratios to ours: never milliseconds alone. Ten changes are four edits in
place, four by temporary-and-rename, one create, one delete.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.workspace import WorkspaceWorld

WORDS = [f"name_{number}" for number in range(4000)]
TUNED = {
    "index.version": "4", "core.untrackedCache": "true", "core.preloadIndex": "true", "core.compression": "1",
    "core.looseCompression": "1", "core.fsync": "none", "gc.auto": "0", "core.excludesFile": "/dev/null",
    "core.attributesFile": "/dev/null",
}  # fmt: skip


def text(rng: random.Random, size: int) -> bytes:
    lines = [" ".join(rng.choices(WORDS, k=8)) for _ in range(max(1, size // 75))]
    return "\n".join(lines).encode()


def make_tree(root: Path, files: int, seed: int = 1) -> None:
    rng = random.Random(seed)
    for number in range(files):
        path = root / f"pkg{number // 400}" / f"mod{number // 20 % 20}" / f"file_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text(rng, int(min(60_000, rng.lognormvariate(7.6, 1.0)))))


def ten_changes(root: Path, rng: random.Random, step: int) -> None:
    paths = sorted(root.rglob("file_*.py"))
    chosen = rng.sample(paths, 9)
    for path in chosen[:4]:
        with path.open("ab") as file:
            file.write(b"# step %d\n" % step)
    for path in chosen[4:8]:
        fresh = path.with_suffix(".tmp")
        fresh.write_bytes(path.read_bytes() + b"# step %d\n" % step)
        fresh.replace(path)
    chosen[8].unlink()
    (chosen[0].parent / f"file_new_{step}.py").write_bytes(text(rng, 2000))


class Git:
    """A repository of its own beside the tree."""

    def __init__(self, tree: Path, store: Path, *, tuned: bool) -> None:
        self._env = {
            "PATH": os.environ["PATH"], "GIT_DIR": str(store), "GIT_WORK_TREE": str(tree), "HOME": str(store.parent),
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
        }  # fmt: skip
        self._tuned = tuned
        self._run("init", "-q")
        for key, value in TUNED.items() if tuned else ():
            self._run("config", key, value)

    def _run(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], env=self._env, check=True, stdout=subprocess.DEVNULL)

    def step(self) -> None:
        self._run("add", "-A")
        if self._tuned:
            self._run("write-tree")
        else:
            self._run("commit", "-q", "--allow-empty", "-m", "step")
            self._run("rev-parse", "HEAD")


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def size_of(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def first_snapshots(place: Path, files: int, rounds: int) -> dict[str, list[float]]:
    tree = place / "first"
    make_tree(tree, files)
    times: dict[str, list[float]] = {"ours": [], "git": [], "editors": []}
    sizes: dict[str, int] = {}
    for number in range(rounds + 1):
        stores = {name: place / f"{name}-{number}" for name in times}
        world = WorkspaceWorld.open(tree, stores["ours"], rules=PathRules(), lease_dir=place / "leases")
        acts = {
            "ours": world.snapshot,
            "git": Git(tree, stores["git"], tuned=True).step,
            "editors": Git(tree, stores["editors"], tuned=False).step,
        }
        for name, act in acts.items():
            spent = timed(act)
            if number:  # the first round warms the caches
                times[name].append(spent)
        world.close()
        sizes = {name: size_of(store) for name, store in stores.items()}
        for store in stores.values():
            shutil.rmtree(store)
    print(f"    store after the first, to git's: {sizes['ours'] / sizes['git']:.2f}")
    return times


def steady(place: Path, files: int, rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    rng = random.Random(2)
    tree = place / "steady"
    make_tree(tree, files)
    world = WorkspaceWorld.open(tree, place / "ours", rules=PathRules(), lease_dir=place / "leases")
    git = Git(tree, place / "git", tuned=True)
    editors = Git(tree, place / "editors", tuned=False)
    acts = {"ours": world.snapshot, "git": git.step, "editors": editors.step}
    for act in acts.values():
        act()
    changed: dict[str, list[float]] = {name: [] for name in acts}
    idle: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(rounds + 1):
        ten_changes(tree, rng, number)
        time.sleep(0.05)
        for name, act in acts.items():
            (changed[name] if number else []).append(timed(act))
        time.sleep(0.05)
        for name, act in acts.items():
            (idle[name] if number else []).append(timed(act))
    world.close()
    return changed, idle


def restores(place: Path, files: int, rounds: int) -> list[float]:
    rng = random.Random(3)
    tree = place / "restores"
    make_tree(tree, files)
    spent = []
    with WorkspaceWorld.open(tree, place / "store-restores", lease_dir=place / "leases") as world:
        target = world.snapshot().id
        for number in range(rounds):
            ten_changes(tree, rng, number)
            time.sleep(0.05)
            spent.append(timed(lambda: world.restore(target)))
    return spent


def show(case: str, times: dict[str, list[float]]) -> dict[str, float]:
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: medians[name] / medians["ours"] for name in medians if name != "ours"}
    line = ", ".join(f"{name} {value * 1000:.1f} ms" for name, value in medians.items())
    print(f"  {case}: {line}; " + ", ".join(f"{name} / ours {ratio:.1f}" for name, ratio in ratios.items()))
    return {f"{case} {name}": ratio for name, ratio in ratios.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for files in options.files:
        print(f"{files} files")
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            ratios = show("first", first_snapshots(place / "a", files, options.rounds))
            changed, idle = steady(place / "b", files, options.rounds)
            ratios |= show("ten changes", changed) | show("nothing changed", idle)
            print(f"  restore of ten: {statistics.median(restores(place / 'c', files, options.rounds)) * 1000:.1f} ms")
            found[str(files)] = ratios
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
