"""What a step costs in each backend beside the main store, and which features of a hostile tree each keeps.

    python -m benchmarks.backends [--files 1000 10000] [--rounds 9] [--large 64] [--json FILE] [--features]

As root: btrfs and XFS are images on loop devices, overlayfs is mounted. Every round makes the same ten changes in every
workspace (four edits in place, four by temporary-and-rename, one rewritten, one create and delete), waits until they
are old enough to be trusted, then takes each backend's time in turn. Medians. A snapshot is safe against the death of
any process when it returns, nobody waits for the disk; a restore waits for it, since what it overwrites must be safe.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrewind.core.world import SnapshotId, World
from agentrewind.snapshots.backends import subvolumes
from agentrewind.snapshots.backends.btrfs import BtrfsWorld
from agentrewind.snapshots.backends.git import GitWorld
from agentrewind.snapshots.backends.overlay import OverlayWorld
from agentrewind.snapshots.backends.reflink import ReflinkWorld
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.unit.backends.features import FEATURES, PlainGit, measured
from tests.unit.backends.images import unmount_below
from tests.unit.snapshots.hostile import GIT

WORDS = [f"name_{number}" for number in range(4000)]
TRUSTED_AFTER = 0.05
IMAGE = 3 << 30


def make_tree(root: Path, files: int) -> list[Path]:
    rng = random.Random(1)
    paths = []
    for number in range(files):
        path = root / f"pkg{number // 400}" / f"mod{number // 20 % 20}" / f"file_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = int(min(60_000, rng.lognormvariate(7.6, 1.0)))
        path.write_text("\n".join(" ".join(rng.choices(WORDS, k=8)) for _ in range(max(1, size // 75))))
        paths.append(path)
    return paths


def ten_changes(root: Path, paths: list[Path], rng: random.Random, step: int) -> None:
    chosen = rng.sample(paths, 9)
    for path in chosen[:4]:
        with path.open("ab") as file:
            file.write(b"# step %d\n" % step)
    for path in chosen[4:8]:
        fresh = path.with_suffix(".tmp")
        fresh.write_bytes(path.read_bytes() + b"# step %d\n" % step)
        fresh.replace(path)
    chosen[8].write_text(f"rewritten {step}")
    (root / f"new_{step}.py").write_text("x" * 2000)
    (root / f"new_{step - 1}.py").unlink(missing_ok=True)


@contextlib.contextmanager
def image(kind: str, place: Path) -> Iterator[Path]:
    file, at = place / f"{kind}.img", place / kind
    with file.open("wb") as made:
        made.truncate(IMAGE)
    subprocess.run([f"mkfs.{kind}", "-q", str(file)], check=True, capture_output=True)
    at.mkdir()
    subprocess.run(["mount", "-o", "loop", str(file), str(at)], check=True)
    yield at


@dataclass
class Kept:
    """One backend with a workspace of its own."""

    name: str
    root: Path
    open_it: Callable[[Path, Path], World]
    fork: Callable[[World, SnapshotId, Path], object] | None = None
    world: World | None = None
    paths: list[Path] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.root.parent / "store"


def main_world(detector: str) -> Callable[[Path, Path], World]:
    return lambda root, store: WorkspaceWorld.open(root, store, detector=detector)


def mount_fork(world: World, name: SnapshotId, to: Path) -> None:
    assert isinstance(world, OverlayWorld)
    to.mkdir()
    world.fork(name, to)


def checkout(_: World, name: SnapshotId, to: Path) -> None:
    """What one would do with plain git."""
    to.mkdir()
    store = to.parent / "store" / "repository.git"
    env = {**GIT, "GIT_DIR": str(store), "GIT_WORK_TREE": str(to), "GIT_INDEX_FILE": str(to) + ".index"}
    subprocess.run(["git", "read-tree", f"refs/snapshots/{name}"], env=env, check=True, cwd=to)
    subprocess.run(["git", "checkout-index", "-a", "-q"], env=env, check=True, cwd=to)


@contextlib.contextmanager
def backends(place: Path) -> Iterator[list[Kept]]:
    """All that there are here, each with an empty workspace on its own file system."""
    try:
        with contextlib.ExitStack() as stack:
            export = lambda world, name, to: world.export(name, to)  # noqa: E731
            found = [
                Kept("main, watching", place / "watch" / "workspace", main_world("watch"), export),
                Kept("main, scanning", place / "scan" / "workspace", main_world("scan"), export),
                Kept("git", place / "git" / "workspace", GitWorld.open, checkout),
            ]
            if os.geteuid() == 0:
                found.append(Kept("overlayfs", place / "overlay" / "workspace", OverlayWorld.open, mount_fork))
                xfs = stack.enter_context(image("xfs", place))
                found.append(Kept("reflink (XFS)", xfs / "workspace", ReflinkWorld.open))
                btrfs = stack.enter_context(image("btrfs", place))
                fork = lambda world, name, to: world.fork(name, to)  # noqa: E731
                found.append(Kept("btrfs", btrfs / "workspace", BtrfsWorld.open, fork))
            for kept in found:
                kept.root.parent.mkdir(parents=True, exist_ok=True)
                if kept.name == "btrfs":
                    subvolumes.create(kept.root)
                else:
                    kept.root.mkdir()
            yield found
            for kept in found:
                if kept.world is not None:
                    kept.world.close()
    finally:
        unmount_below(place)


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def used(kept: Kept) -> int:
    """Bytes that the file system has given away: sharing counts once. Only for stores with one of their own."""
    os.sync()
    if kept.root.parent.name in ("xfs", "btrfs"):
        room = os.statvfs(kept.store)
        return (room.f_blocks - room.f_bfree) * room.f_frsize
    lines = subprocess.run(["du", "-sx", "--block-size=1", str(kept.store)], capture_output=True, check=False)
    return int(lines.stdout.split()[0])


Times = dict[str, dict[str, list[float]]]


def steps(place: Path, files: int, rounds: int) -> Times:
    times: Times = {}
    with backends(place) as found:
        for kept in found:
            kept.paths = make_tree(kept.root, files)
        time.sleep(TRUSTED_AFTER)
        for kept in found:
            times[kept.name] = {"first": [timed(lambda kept=kept: open_and_save(kept))]}
        for number in range(1, rounds + 1):
            one_round(found, times, number)
    return times


def open_and_save(kept: Kept) -> None:
    kept.world = kept.open_it(kept.root, kept.store)
    kept.world.snapshot()


def one_round(found: list[Kept], times: Times, number: int) -> None:
    rngs = {kept.name: random.Random(number) for kept in found}
    order = found[number % len(found) :] + found[: number % len(found)]
    targets = {}
    for what in ("ten changes", "nothing changed", "restore of ten"):
        if what != "nothing changed":
            for kept in found:
                ten_changes(kept.root, kept.paths, rngs[kept.name], 2 * number + (what == "restore of ten"))
        time.sleep(TRUSTED_AFTER)
        for kept in order:
            world = kept.world
            assert world is not None
            if what == "restore of ten":
                spent = timed(lambda world=world, kept=kept: world.restore(targets[kept.name]))
            else:
                spent = timed(lambda world=world, kept=kept: targets.update({kept.name: world.snapshot().id}))
            times[kept.name].setdefault(what, []).append(spent)
    for kept in order if number <= 3 else ():
        if kept.fork is not None:
            to = kept.root.parent / f"fork-{number}"
            spent = timed(lambda kept=kept, to=to: kept.fork(kept.world, targets[kept.name], to))
            times[kept.name].setdefault("fork", []).append(spent)


def large_file(place: Path, mebibytes: int, rounds: int) -> dict[str, dict[str, float]]:
    """A 4 kB edit in the middle of a large file of noise, saved and brought back."""
    result: dict[str, dict[str, list[float]]] = {}
    growth: dict[str, float] = {}
    with backends(place) as found:
        noise = os.urandom(mebibytes << 20)
        for kept in found:
            (kept.root / "large").write_bytes(noise)
        time.sleep(TRUSTED_AFTER)
        for kept in found:
            open_and_save(kept)
            result[kept.name] = {"first byte written": [], "saved": [], "brought back": []}
        for kept in found:
            growth[kept.name] = -used(kept)
        for number in range(rounds):
            for kept in found:
                large_round(kept, result[kept.name], number, mebibytes)
        for kept in found:
            growth[kept.name] += used(kept)
    medians = {name: {what: statistics.median(spent) for what, spent in row.items()} for name, row in result.items()}
    for name, row in medians.items():
        row["store grew by MiB a round"] = growth[name] / rounds / (1 << 20)
    return medians


def large_round(kept: Kept, row: dict[str, list[float]], number: int, mebibytes: int) -> None:
    def edit() -> None:
        with (kept.root / "large").open("r+b") as file:
            file.seek((mebibytes << 19) + number)
            file.write(b"%08d" % number * 512)

    world = kept.world
    assert world is not None
    row["first byte written"].append(timed(edit))
    time.sleep(TRUSTED_AFTER)
    before = world.snapshots()[-1].id
    row["saved"].append(timed(world.snapshot))
    time.sleep(TRUSTED_AFTER)
    row["brought back"].append(timed(lambda: world.restore(before)))


def show(title: str, columns: list[str], rows: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}\n\n| backend | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(f'{row[column]:,.1f}' if column in row else '-' for column in columns)} |")


def features(place: Path) -> dict[str, dict[str, bool]]:
    table: dict[str, dict[str, bool]] = {}
    with backends(place) as found:
        for kept in found[1:]:
            world = kept.open_it(kept.root, kept.store)

            def keep(world: World = world) -> Callable[[], object]:
                target = world.snapshot().id
                return lambda: world.restore(target)

            table[kept.name] = measured(kept.root, keep)
            world.close()
    root = place / "plain" / "workspace"
    root.mkdir(parents=True)

    def keep_plainly() -> Callable[[], object]:
        plain = PlainGit(root, place / "plain" / "store.git")
        plain.snapshot()
        return plain.restore

    table["`git add -A`"] = measured(root, keep_plainly)
    return table


def show_features(table: dict[str, dict[str, bool]]) -> None:
    print(f"\n| feature | {' | '.join(table)} |\n| --- |{' --- |' * len(table)}")
    for feature in FEATURES:
        print(f"| {feature.name} | {' | '.join('yes' if row[feature.name] else '-' for row in table.values())} |")
    print(f"| **of {len(FEATURES)}** | {' | '.join(str(sum(row.values())) for row in table.values())} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="*", default=[1000, 10000])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--large", type=int, default=64, help="MiB; 0 leaves it out")
    parser.add_argument("--features", action="store_true", help="only the table of features")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        results["features"] = run(place / "features", features)
        show_features(results["features"])
        for files in () if options.features else options.files:
            times = run(place / str(files), lambda at, files=files: steps(at, files, options.rounds))
            rows = {kept: {what: statistics.median(row[what]) for what in row} for kept, row in times.items()}
            columns = ["first", "ten changes", "nothing changed", "restore of ten", "fork"]
            show(f"{files} files, milliseconds", columns, rows)
            results[str(files)] = rows
        if options.large and not options.features:
            rows = run(place / "large", lambda at: large_file(at, options.large, 5))
            show(f"One file of {options.large} MiB, a 4 kB edit, milliseconds", list(next(iter(rows.values()))), rows)
            results["large"] = rows
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def run(place: Path, act: Callable[[Path], Any]) -> Any:
    place.mkdir()
    try:
        return act(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
