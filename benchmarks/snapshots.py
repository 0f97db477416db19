"""Speed of our snapshots beside git: the same trees, the same changes, alternating, medians and ratios.

    python benchmarks/snapshots.py [--full] [--files 1000 10000] [--rounds 7] [--large] [--only CASE ...]
                                   [--place DIR] [--json FILE] [--plot FILE]
    python benchmarks/snapshots.py --from FILE.json ... [--plot FILE]     (what was measured, as a table)

`git` is the best-tuned command line (index.version 4, untracked cache, preload, compression 1, fsync none; `add -A` and
`write-tree`); `editors` is what editors run (`add -A`, `commit`, `rev-parse`). Each writes to a repository of its own
outside the tree. `watched` and `scanning` are ours, with the kernel telling what changed and without; `durable` is
watched, and survives a power loss when it returns (git's does not). Ten changes are four edits in place, four by
temporary-and-rename, one create, one delete. A restore saves the present state first, with git as with us.

The bars (design/snapshots.md, section 6) are ratios, never milliseconds. `fidelity` runs the snapshot contract that
ships with the package, on the same program and the same disk. `--full` adds 100,000 files, 1 GB in large files and what
grows up to 300,000 files, and takes an hour. `--plot` needs matplotlib (`pip install agentrewind[bench]`).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.testing.snapshots import SnapshotContract

WORDS = [f"name_{number}" for number in range(4000)]
TUNED = {
    "index.version": "4", "core.untrackedCache": "true", "core.preloadIndex": "true", "core.compression": "1",
    "core.looseCompression": "1", "core.fsync": "none", "core.excludesFile": "/dev/null",
    "core.attributesFile": "/dev/null",
}  # fmt: skip
SETTLE = 0.05
MANY = 5000
LARGE = 160 << 20
BARS = {
    "first 1000: git / watched": 4, "first 10000: git / watched": 3, "first 100000: git / watched": 3,
    "ten 1000: git / watched": 20, "ten 1000: git / scanning": 2, "ten 10000: git / watched": 50,
    "ten 100000: git / watched": 300, "ten 100000: git / durable": 30, "ten 100000: editors / watched": 400,
    "ten 100000: git / scanning": 0.8, "idle 100000: git / watched": 1000, "restore ten 100000: git / watched": 150,
    "restore 5000: git / watched": 2, "4 kB in 160 MB: git / watched": 10,
}  # fmt: skip
CEILINGS = {
    "store: watched / git": 0.4, "growth by 4 kB in 160 MB: watched / git": 0.05, "fidelity: checks failed": 0,
    "ten 300000 / ten 10000": 2, "memory 300000: steady bytes a path": 400,
}  # fmt: skip
MANY_FILES = 300_000


# Trees and changes


def text(rng: random.Random, size: int) -> bytes:
    lines = [" ".join(rng.choices(WORDS, k=8)) for _ in range(max(1, size // 75))]
    return "\n".join(lines).encode()


def make_tree(root: Path, files: int, seed: int = 1) -> list[Path]:
    rng = random.Random(seed)
    paths = []
    for number in range(files):
        path = root / f"pkg{number // 400}" / f"mod{number // 20 % 20}" / f"file_{number}.py"
        if number % 20 == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text(rng, int(min(60_000, rng.lognormvariate(7.6, 1.0)))))
        paths.append(path)
    return paths


def ten_changes(paths: list[Path], rng: random.Random, step: int) -> None:
    """`paths` is kept up to date."""
    chosen = rng.sample(range(len(paths)), 9)
    for number in chosen[:4]:
        with paths[number].open("ab") as file:
            file.write(b"# step %d\n" % step)
    for number in chosen[4:8]:
        path = paths[number]
        fresh = path.with_suffix(".tmp")
        fresh.write_bytes(path.read_bytes() + b"# step %d\n" % step)
        fresh.replace(path)
    paths[chosen[8]].unlink()
    paths[chosen[8]] = paths[chosen[0]].parent / f"file_new_{step}.py"
    paths[chosen[8]].write_bytes(text(rng, 2000))


def many_changes(paths: list[Path], rng: random.Random, step: int) -> None:
    for number in rng.sample(range(len(paths)), min(MANY, len(paths))):
        with paths[number].open("ab") as file:
            file.write(b"# step %d\n" % step)


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
        self._run("config", "gc.auto", "0")  # no work in the background while others are timed
        for key, value in TUNED.items() if tuned else ():
            self._run("config", key, value)

    def _run(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], env=self._env, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    def step(self) -> str:
        self._run("add", "-A")
        if self._tuned:
            return self._run("write-tree")
        self._run("commit", "-q", "--allow-empty", "-m", "step")
        return self._run("rev-parse", "HEAD")

    def restore(self, tree: str) -> None:
        self.step()
        self._run("read-tree", "-u", "--reset", tree)


# Measuring


@dataclass(slots=True)
class Case:
    """One thing that several do: wall and CPU seconds of each round."""

    name: str
    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def time(self, who: str, act: Callable[[], object], *, keep: bool = True) -> None:
        gc.disable()
        cpu, start = _cpu(), time.perf_counter()
        act()
        wall, cpu = time.perf_counter() - start, _cpu() - cpu
        gc.enable()
        if keep:
            self.wall.setdefault(who, []).append(wall)
            self.cpu.setdefault(who, []).append(cpu)

    def ratios(self) -> dict[str, float]:
        """Of the medians: how many times longer the others take."""
        medians = {who: statistics.median(values) for who, values in self.wall.items()}
        others = [who for who in medians if who in ("git", "editors")]
        ours = [who for who in medians if who not in others]
        return {f"{self.name}: {other} / {who}": medians[other] / medians[who] for other in others for who in ours}

    def show(self) -> None:
        shown = [
            f"{who} {statistics.median(values) * 1000:,.2f} ms (cpu {statistics.median(self.cpu[who]) * 1000:,.2f})"
            for who, values in self.wall.items()
        ]
        print(f"  {self.name}: {', '.join(shown)}", flush=True)


def settle() -> None:
    """Past the tick of the clock that stamps files; and no garbage of the benchmark's is collected while others are
    timed.
    """
    gc.collect()
    time.sleep(SETTLE)


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def size_of(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def open_world(tree: Path, store: Path, **options: str) -> WorkspaceWorld:
    """Each with leases of its own, so that several can be compared on one tree."""
    return WorkspaceWorld.open(tree, store, lease_dir=store.with_name(store.name + "-leases"), **options)


# The cases


def first(place: Path, files: int, rounds: int) -> tuple[list[Case], dict[str, float]]:
    tree = place / "tree"
    make_tree(tree, files)
    case = Case(f"first {files}")
    sizes: dict[str, int] = {}
    for number in range(rounds + 1):
        keep = number > 0  # the first round warms the caches
        stores = {name: place / f"{name}-{number}" for name in ("watched", "git", "editors")}
        with open_world(tree, stores["watched"]) as world:
            case.time("watched", world.snapshot, keep=keep)
        case.time("git", Git(tree, stores["git"], tuned=True).step, keep=keep)
        case.time("editors", Git(tree, stores["editors"], tuned=False).step, keep=keep)
        sizes = {name: size_of(store) for name, store in stores.items()}
        for store in stores.values():
            shutil.rmtree(store, ignore_errors=True)
    case.show()
    return [case], {"store: watched / git": sizes["watched"] / sizes["git"]}


def steady(place: Path, files: int, rounds: int) -> tuple[list[Case], dict[str, float]]:
    rng = random.Random(2)
    tree = place / "tree"
    paths = make_tree(tree, files)
    ten, idle = Case(f"ten {files}"), Case(f"idle {files}")
    with (
        open_world(tree, place / "watched") as watched,
        open_world(tree, place / "durable", durability="power") as durable,
        open_world(tree, place / "scanning", detector="scan") as scanning,
    ):
        acts: dict[str, Callable[[], object]] = {
            "watched": watched.snapshot, "git": Git(tree, place / "git", tuned=True).step, "durable": durable.snapshot,
            "editors": Git(tree, place / "editors", tuned=False).step, "scanning": scanning.snapshot,
        }  # fmt: skip
        for act in acts.values():
            act()
        for number in range(rounds + 1):
            ten_changes(paths, rng, number)
            settle()
            for who, act in acts.items():
                ten.time(who, act, keep=number > 0)
            settle()
            for who, act in acts.items():
                idle.time(who, act, keep=number > 0)
        assert watched.snapshot("the last").coverage.found_by == "watch"
        assert watched.audit() == 0
    ten.show()
    idle.show()
    return [ten, idle], {}


def restores(
    place: Path, files: int, rounds: int, name: str, change: Callable[[list[Path], random.Random, int], None]
) -> tuple[list[Case], dict[str, float]]:
    rng = random.Random(3)
    tree = place / "tree"
    paths = make_tree(tree, files)
    case = Case(name)
    git = Git(tree, place / "git", tuned=True)
    with open_world(tree, place / "watched") as world:
        target, wanted = world.snapshot().id, git.step()
        for number in range(rounds + 1):
            there = list(paths)
            change(there, rng, number)
            settle()
            case.time("watched", lambda: world.restore(target), keep=number > 0)
            git.step()
            there = list(paths)
            change(there, rng, number + 1000)
            settle()
            case.time("git", lambda: git.restore(wanted), keep=number > 0)
            world.restore(target)  # the times as well, which git leaves
            git.step()
    case.show()
    return [case], {}


def large(place: Path, sizes: list[int], rounds: int) -> tuple[list[Case], dict[str, float]]:
    """4 kB in the middle of the first of some large files."""
    rng = random.Random(4)
    tree = place / "tree"
    tree.mkdir()
    for number, size in enumerate(sizes):
        with (tree / f"large-{number}.bin").open("wb") as file:
            for _ in range(size >> 20):
                file.write(rng.randbytes(1 << 20))
    case = Case("4 kB in 160 MB")
    git = Git(tree, place / "git", tuned=True)
    with open_world(tree, place / "watched") as world:
        acts: dict[str, Callable[[], object]] = {"watched": world.snapshot, "git": git.step}
        begin = Case(f"first {sum(sizes) >> 20} MB in {len(sizes)}")
        for who, act in acts.items():
            begin.time(who, act)
        begin.show()
        before = {who: size_of(place / who) for who in acts}
        for number in range(rounds):
            with (tree / "large-0.bin").open("r+b") as file:
                file.seek((number * 7 + 3) << 20)
                file.write(rng.randbytes(4096))
            settle()
            for who, act in acts.items():
                case.time(who, act)
        growth = {who: (size_of(place / who) - before[who]) / rounds for who in acts}
    case.show()
    return [case], {"growth by 4 kB in 160 MB: watched / git": growth["watched"] / growth["git"]}


def grown(place: Path, files: int, rounds: int) -> tuple[list[Case], dict[str, float]]:
    """What a watched step costs in a tree in which git would be waited for too long."""
    rng = random.Random(2)
    paths = make_tree(place / "tree", files)
    ten, idle = Case(f"ten {files}"), Case(f"idle {files}")
    with open_world(place / "tree", place / "watched") as world:
        begin = Case(f"first {files}")
        begin.time("watched", world.snapshot)
        for number in range(rounds + 1):
            ten_changes(paths, rng, number)
            settle()
            ten.time("watched", world.snapshot, keep=number > 0)
            settle()
            idle.time("watched", world.snapshot, keep=number > 0)
    cases = [begin, ten, idle]
    for case in cases:
        case.show()
    return cases, {}


def fidelity() -> tuple[list[Case], dict[str, float]]:
    """The contract's checks, each of which is a promise about what survives; how many there are, and how many fail."""
    outcomes = Outcomes()
    pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-k", "Fidelity", __file__], [outcomes])
    found = {"fidelity: checks": float(outcomes.passed + len(outcomes.failed))}
    print(f"  fidelity: {outcomes.passed} checks hold, {len(outcomes.failed)} fail {outcomes.failed}", flush=True)
    return [], found | {"fidelity: checks failed": float(len(outcomes.failed))}


class Outcomes:
    """A pytest plugin that counts."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid.rpartition("::")[2])
        elif report.passed and report.when == "call":
            self.passed += 1


class TestFidelity(SnapshotContract):
    crash_points = "snapshot."

    def open_world(self, root: Path, store: Path) -> WorkspaceWorld:
        return WorkspaceWorld.open(root, store)


def memory(place: Path, files: int) -> dict[str, float]:
    """In a process of its own: what it holds when it watches, per file, and at its peak."""
    make_tree(place / "tree", files)
    done = subprocess.run(
        [sys.executable, __file__, "--memory-of", place / "tree"], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    print(f"  memory {files}: {', '.join(f'{name} {value:,.0f}' for name, value in found.items())}", flush=True)
    return {f"memory {files}: {name}": value for name, value in found.items()}


def memory_of(tree: Path) -> None:
    before = _resident()
    with open_world(tree, tree.with_name("store")) as world:
        entries = world.snapshot().coverage.entries
        time.sleep(SETTLE)
        (tree / "one more").write_text("x")
        world.snapshot()
        gc.collect()
        steady = _resident() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(json.dumps({"steady bytes a path": steady / entries, "peak bytes a path": peak / entries}))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# All of it


def machine(place: Path | None) -> dict[str, str]:
    """What was measured on."""
    cpu = [line.partition(":")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    where = place or Path(tempfile.gettempdir())
    file_system = subprocess.run(["stat", "-f", "-c", "%T", where], check=True, stdout=subprocess.PIPE, text=True)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "system": platform.platform(), "processor": f"{len(cpu)} cores of {cpu[0].strip() if cpu else 'unknown'}",
        "memory": f"{pages / 2**30:.0f} GiB", "file system": file_system.stdout.strip(),
        "python": platform.python_version(),
    }  # fmt: skip


class Run:
    """All that was measured, with the load of the machine after each case."""

    def __init__(self, place: Path | None, rounds: int) -> None:
        self._began = time.time()
        self._rounds = rounds
        self._machine = machine(place)
        self._load = {"before": os.getloadavg()[0]}
        self._cases: list[Case] = []
        self.ratios: dict[str, float] = {}

    def take(self, cases: list[Case], more: dict[str, float]) -> None:
        self._cases += cases
        self._load |= {case.name: os.getloadavg()[0] for case in cases}
        self.ratios |= more
        for case in cases:
            self.ratios |= case.ratios()
        self.ratios |= growth(self._cases)

    def told(self) -> dict[str, Any]:
        git = subprocess.run(["git", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        return {
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self._began)), "machine": self._machine,
            "minutes": (time.time() - self._began) / 60, "load": self._load, "git": git, "rounds": self._rounds,
            "seconds": {case.name: {"wall": case.wall, "cpu": case.cpu} for case in self._cases},
            "ratios": self.ratios, "bars": verdicts(self.ratios),
        }  # fmt: skip


def growth(cases: list[Case]) -> dict[str, float]:
    """What a watched step costs in a large tree, against a small one."""
    ten = {case.name: statistics.median(case.wall["watched"]) for case in cases if case.name.startswith("ten ")}
    large, small = f"ten {MANY_FILES}", "ten 10000"
    return {f"{large} / {small}": ten[large] / ten[small]} if {large, small} <= ten.keys() else {}


def together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs on one machine as one; a later one counts where two measured the same."""
    told = dict(runs[0])
    for run in runs[1:]:
        told |= {key: told[key] | run[key] for key in ("load", "seconds", "ratios")}
    return told


def table(told: dict[str, Any]) -> str:
    """Markdown: each bar, what was reached, and the medians behind it."""
    lines = ["| case | bar | reached | | medians (wall) | load |", "| --- | --- | --- | --- | --- | --- |"]
    for name, bar in (BARS | CEILINGS).items():
        value = told["ratios"].get(name)
        if value is None:
            continue
        most = name in CEILINGS
        met = value <= bar if most else value >= bar
        case, _, who = name.partition(": ")
        reached = f"{value:,.3g}" if most else f"{value:,.3g} x"
        bar_said = f"at most {bar}" if most else f"at least {bar} x"
        lines.append(
            f"| {name} | {bar_said} | {reached} | {'met' if met else '**missed**'} | {medians(told, case, who)} |"
            f" {round(told['load'][case], 1) if case in told['load'] else ''} |"
        )
    return "\n".join(lines)


def medians(told: dict[str, Any], case: str, who: str) -> str:
    wall = told["seconds"].get(case, {}).get("wall", {})
    return ", ".join(
        f"{name} {statistics.median(wall[name]) * 1000:,.2f} ms" for name in who.split(" / ") if name in wall
    )


def plot(told: dict[str, Any], to: Path) -> None:
    """How many times the bar each case reaches: right of the line it is met."""
    from matplotlib.figure import Figure

    reached = {name: told["ratios"][name] / bar for name, bar in BARS.items() if name in told["ratios"]}
    reached |= {name: bar / told["ratios"][name] for name, bar in CEILINGS.items() if told["ratios"].get(name) and bar}
    names = list(reversed(reached))
    figure = Figure(figsize=(9, 0.36 * len(names) + 1.6), layout="constrained")
    axes = figure.subplots()
    axes.barh(names, [reached[name] for name in names], color=["C0" if reached[n] >= 1 else "C3" for n in names])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("times the bar (1 = met)")
    axes.set_title(f"{told['date']}, {told['machine']['processor']}", fontsize=9)
    figure.savefig(to)


def verdicts(ratios: dict[str, float]) -> dict[str, str]:
    found = {}
    for name, value in ratios.items():
        if name in BARS:
            found[name] = f"{value:,.2f} >= {BARS[name]}: {'met' if value >= BARS[name] else 'MISSED'}"
        elif name in CEILINGS:
            found[name] = f"{value:,.3f} <= {CEILINGS[name]}: {'met' if value <= CEILINGS[name] else 'MISSED'}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", action="store_true", help="1 GB in large files instead of 160 MB")
    parser.add_argument("--full", action="store_true", help="100,000 files as well, and --large")
    parser.add_argument(
        "--only", nargs="+", default=["first", "steady", "restores", "many", "large", "memory", "grown", "fidelity"]
    )
    parser.add_argument("--place", type=Path, help="where the trees are made (default: the temporary directory)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--from", type=Path, nargs="+", dest="given", help="measure nothing: show these")
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        memory_of(options.memory_of)
        return
    if options.given:
        told = together([json.loads(path.read_text()) for path in options.given])
        print(table(told))
        if options.plot:
            plot(told, options.plot)
        return
    sizes = [*options.files, 100_000] if options.full else options.files
    jobs: list[tuple[str, Callable[[Path], tuple[list[Case], dict[str, float]]]]] = []
    for files in sizes:
        jobs += [
            ("first", lambda place, files=files: first(place, files, options.rounds)),
            ("steady", lambda place, files=files: steady(place, files, options.rounds)),
            ("restores", lambda place, files=files: restores(
                place, files, options.rounds, f"restore ten {files}", ten_changes
            )),
            ("memory", lambda place, files=files: ([], memory(place, files))),
        ]  # fmt: skip
    big = [LARGE] * 6 if options.large or options.full else [LARGE]
    jobs += [
        ("many", lambda place: restores(place, max(sizes), options.rounds, f"restore {MANY}", many_changes)),
        ("large", lambda place: large(place, big, options.rounds)),
        ("fidelity", lambda _: fidelity()),
    ]
    if options.full:
        jobs += [
            ("grown", lambda place: grown(place, MANY_FILES, options.rounds)),
            ("memory", lambda place: ([], memory(place, MANY_FILES))),
        ]
    run = Run(options.place, options.rounds)
    for name, job in jobs:
        if name in options.only:
            with tempfile.TemporaryDirectory(dir=options.place) as scratch:
                run.take(*job(Path(scratch)))
            if options.json:  # after each, for what takes an hour may be cut off
                options.json.write_text(json.dumps(run.told(), indent=2) + "\n")
    print("\n".join(f"  {name}: {verdict}" for name, verdict in verdicts(run.ratios).items()))
    if options.plot:
        plot(run.told(), options.plot)


if __name__ == "__main__":
    main()
