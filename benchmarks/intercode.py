"""Commands of real agents, replayed in the sandbox with a snapshot after each: does a restore bring back all of it?

The trajectories are those of InterCode (github.com/princeton-nlp/intercode, data/results; MIT), a line of JSON each
with `fs`, `query` and `actions`; `shared/data/intercode/trajectories.jsonl` beside the checkout. Its container images
are not needed: the tree that a trajectory begins with has the paths that the questions name, and what is hard to bring
back (empty directories, hard links, links, odd modes, times to the nanosecond, names with blanks).

After each command the workspace, `/tmp` and the home directory of the sandbox are saved, and copied with `cp -a`. At
the end every snapshot is restored, in an order of chance, and compared with its copy by a judge that knows nothing of
us: content, type, mode, owner, times, groups of hard links, links' targets, extended attributes, holes. Ends with 1
where anything differs.

    make intercode                                        # all of them, in half an hour
    python benchmarks/intercode.py --only 40              # forty, evenly chosen
    python benchmarks/intercode.py --json results.json
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from agentrewind.compose.confining import chosen, confined
from agentrewind.compose.home import Home
from agentrewind.compose.worlds import open_world
from agentrewind.core.world import SnapshotId
from agentrewind.engine.commands import CommandResult
from agentrewind.integrations.sandbox import commands_of
from agentrewind.integrations.sandbox.spec import Confinement, Limits, Sandbox
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.tasks.rooms import environ

SHARED = Path(__file__).parents[2] / "shared"
PLACES = {1: "/testbed", 2: "/system", 3: "/workspace", 4: "/testbed"}
"""Where the questions of each file system have their files."""
COMMAND_S = 10.0
LIMITS = Limits(memory=1 << 30, processes=512, seconds=COMMAND_S, file_size=64 << 20)
KINDS = ("java", "php", "py", "sh", "c", "csv", "txt", "xml", "tar.gz")
_FENCED = re.compile(r"^(?:execute\[(?P<said>.*)\]|```(?:bash|BASH|sh)?\n?(?P<block>.*?)```.*)$", re.DOTALL)

Described = Mapping[bytes, Mapping[str, object]]
Judge = Callable[..., Described]


@dataclass
class Found:
    """What was replayed. `differences` holds the first lines of what a restore didn't bring back."""

    trajectories: int = 0
    commands: int = 0
    changed: int = 0
    """How many of the commands left other files than before."""
    timed_out: int = 0
    restores: int = 0
    differing: int = 0
    """How many restores differ from their copy in anything."""
    paths: int = 0
    """How many paths were compared, over all restores."""
    differences: list[str] = field(default_factory=list)
    snapshot_ms: list[float] = field(default_factory=list)
    restore_ms: list[float] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """How many restored trees (two a state: workspace and side) hold something of each hard kind."""

    def facts(self) -> dict[str, Any]:
        """What is printed and written down."""
        kept = asdict(replace(self, snapshot_ms=[], restore_ms=[], seen=Counter()))
        short = {key: value for key, value in kept.items() if not key.endswith("_ms")} | {"seen": dict(self.seen)}
        for name in ("snapshot_ms", "restore_ms"):
            values = sorted(getattr(self, name))
            short[f"{name}_median"] = round(statistics.median(values), 2)
            short[f"{name}_p95"] = round(values[int(0.95 * (len(values) - 1))], 2)
        return short


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED / "data/intercode/trajectories.jsonl")
    parser.add_argument("--judge", type=Path, default=SHARED / "cases/treecmp.py", help="the program that compares")
    parser.add_argument("--only", type=int, default=0, metavar="N", help="N of them, evenly chosen")
    parser.add_argument("--minutes", type=float, help="begin none after so long; they come in an order of chance then")
    parser.add_argument("--json", type=Path, help="write the figures there")
    chosen_ = parser.parse_args()
    rows = [json.loads(line) for line in chosen_.data.read_text("utf-8").splitlines()]
    if chosen_.only:
        rows = [rows[at * len(rows) // chosen_.only] for at in range(chosen_.only)]
    found, begun = Found(), time.monotonic()
    describe = judge_in(chosen_.judge)
    trees = asked_for(rows)
    if chosen_.minutes is not None:
        random.Random(0).shuffle(rows)
    for number, row in enumerate(rows, 1):
        if chosen_.minutes is not None and time.monotonic() - begun > 60 * chosen_.minutes:
            break
        with tempfile.TemporaryDirectory(prefix="agentrewind-intercode-", ignore_cleanup_errors=True) as place:
            replay(row, trees[row["fs"]], Path(place), describe, found)
        if number % 20 == 0 or number == len(rows):
            print(f"{number} of {len(rows)}, {time.monotonic() - begun:.0f} s: {found.restores} restores,"
                  f" {found.differing} differ", flush=True)  # fmt: skip
    facts = {**found.facts(), "seconds": round(time.monotonic() - begun)}
    print(said(facts))
    if chosen_.json:
        chosen_.json.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return 1 if found.differing or not found.restores else 0


def said(facts: Mapping[str, Any]) -> str:
    """The figures in sentences."""
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(facts["seen"].items()))
    played = f"{facts['trajectories']} trajectories, {facts['commands']} commands"
    ended = f"{facts['changed']} changed files, {facts['timed_out']} were ended after {COMMAND_S:.0f} s"
    took = ", ".join(
        f"a {name} took {facts[f'{name}_ms_median']} ms (median; 95 %: {facts[f'{name}_ms_p95']})"
        for name in ("snapshot", "restore")
    )
    compared = f"{facts['restores']} restores, {facts['paths']} paths compared; {facts['differing']} restores differ."
    lines = [f"{played} ({ended}).", compared, f"Restored trees with: {kinds}.", f"{took[0].upper()}{took[1:]}."]
    return "\n".join([*lines, *facts["differences"]])


def judge_in(path: Path) -> Judge:
    """The function of the judge that describes a tree."""
    spec = importlib.util.spec_from_file_location("treecmp", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Judge = module.describe
    return found


def asked_for(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[str]]:
    """By file system, the paths below its place that questions name: those are there."""
    paths: dict[int, set[str]] = {number: set() for number in PLACES}
    for row in rows:
        at = PLACES[row["fs"]]
        paths[row["fs"]] |= set(re.findall(rf"(?<![\w.]){at}/([\w/-]+(?:\.[\w-]+)*)", row["query"]))
    return {number: sorted(path.strip("/") for path in each if path.strip("/")) for number, each in paths.items()}


def replay(row: Mapping[str, Any], paths: Iterable[str], place: Path, describe: Judge, found: Found) -> None:
    """One trajectory, from its first state to the last restore."""
    home, workspace = Home(place / "home"), place / "tree"
    plant(workspace, paths)
    confinement, told = chosen("auto", Confinement(environ=tuple(environ()), limits=LIMITS, place=PLACES[row["fs"]]))
    if confinement.kind == "none":
        raise SystemExit(f"Commands of strangers are replayed in a sandbox only. {' '.join(told)}")
    variables, run_id = {**os.environ, **environ()}, "20261201-000000-intercode-0000"
    with (
        confined(home, run_id, workspace, confinement, environ=variables, say=print) as at,
        closing(open_world(home, workspace, run_id=run_id)) as world,
    ):
        assert at.sandbox is not None
        trees = {"workspace": workspace, "side": at.sandbox.sides}
        states = list(_states(row["actions"], Stage(world, at.sandbox, variables, trees, place / "copies"), found))
        random.Random(str(row["task_id"])).shuffle(states)
        for number, snapshot in states:
            before = time.perf_counter()
            world.restore(snapshot)
            found.restore_ms.append(1000 * (time.perf_counter() - before))
            found.restores += 1
            lines = list(_compared(trees, place / f"copies/{number}", describe, found))
            found.differing += bool(lines)
            where = f"{row['src']} {row['task_id']}, after command {number}"
            found.differences += [f"{where}: {line}" for line in lines[: max(0, 20 - len(found.differences))]]
    found.trajectories += 1


@dataclass(frozen=True, slots=True)
class Stage:
    """Where one trajectory is replayed. `trees`: what is saved, by name."""

    world: WorkspaceWorld
    sandbox: Sandbox
    variables: Mapping[str, str]
    trees: Mapping[str, Path]
    copies: Path

    def run(self, action: str) -> CommandResult:
        return commands_of(self.sandbox).run(
            command_in(action),
            cwd=self.trees["workspace"],
            environ=self.variables,
            timeout_s=COMMAND_S,
            output_limit=10_000,
        )

    def copy(self, number: int) -> None:
        (self.copies / str(number)).mkdir(parents=True)
        for name, tree in self.trees.items():
            subprocess.run(["cp", "-a", "--", tree, self.copies / str(number) / name], check=True)


def _states(actions: Iterable[str], stage: Stage, found: Found) -> Iterator[tuple[int, SnapshotId]]:
    """A snapshot and a copy of the first state, and of the one after each command."""
    newest = None
    for number, action in enumerate(["", *actions]):
        if number:
            result = stage.run(action)
            found.commands += 1
            found.timed_out += result.timed_out
        before = time.perf_counter()
        snapshot = stage.world.snapshot().id
        found.snapshot_ms.append(1000 * (time.perf_counter() - before))
        found.changed += number > 0 and snapshot != newest
        newest = snapshot
        stage.copy(number)
        yield number, snapshot


def command_in(action: str) -> str:
    """What of a model's answer is the command, as InterCode's parser takes it."""
    match = _FENCED.match(action.strip())
    return (match["said"] or match["block"] or "").strip() if match else action


def _compared(trees: Mapping[str, Path], copy: Path, describe: Judge, found: Found) -> Iterator[str]:
    for name, tree in trees.items():
        ours, theirs = (describe(os.fsencode(root), [], times=True, owner=True) for root in (tree, copy / name))
        found.paths += len(theirs)
        found.seen.update(_kinds(theirs))
        for path in sorted(ours.keys() | theirs.keys()):
            if ours.get(path) != theirs.get(path):
                yield f"{name}/{os.fsdecode(path)}: {ours.get(path)} instead of {theirs.get(path)}"


def _kinds(described: Described) -> set[str]:
    parents = {os.path.dirname(path) for path in described if path}
    found = {str(entry["type"]) for entry in described.values() if entry["type"] not in ("file", "dir")}
    found |= {"hard links" for entry in described.values() if "link_group" in entry}
    found |= {"empty directory" for path, entry in described.items() if entry["type"] == "dir" and path not in parents}
    return found


# --- the first state --------------------------------------------------------------------------------------------------


def plant(root: Path, paths: Iterable[str]) -> None:
    """The first state: `paths`, those without an ending as directories, and one of everything that is hard."""
    root.mkdir()
    for path in paths:
        target = root / path
        if "." in target.name:
            _file(target, f"{path}\n" * 20)
        elif not target.exists():
            target.mkdir(parents=True)
    for directory in [root, *sorted(path for path in root.rglob("*") if path.is_dir())]:
        for number, kind in enumerate(KINDS):
            if (number + len(directory.parts) + len(directory.name)) % 3 == 0:
                _file(directory / f"{kind[:2]}{number} hello.{kind}", f"hello world {number}\nfoo;bar,baz\n" * number)
    _file(root / ".hidden", "hidden\n")
    (root / "empty" / "deep").mkdir(parents=True)
    (root / "shared").mkdir()
    _file(root / "shared/one", "the same file\n")
    os.link(root / "shared/one", root / "shared/two")
    os.symlink("shared/one", root / "link to one")
    os.symlink("nowhere", root / "dangling")
    for name, mode in (("locked.txt", 0o400), ("run.sh", 0o755), ("odd", 0o2641)):
        _file(root / name, "echo run\n")
        (root / name).chmod(mode)
    (root / "empty").chmod(0o1777)
    for path in sorted(root.rglob("*"), reverse=True):
        moment = 1_500_000_000_000_000_000 + int(hashlib.sha256(os.fsencode(path.name)).hexdigest()[:14], 16)
        os.utime(path, ns=(moment, moment), follow_symlinks=False)


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
