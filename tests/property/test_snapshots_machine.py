"""Random trees, random damage, snapshots and restores, judged by an independent description of the tree."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentrewind.snapshots.site import Detection
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots.plain_user import as_plain_user

NAMES = ("a", "b", "c", ".env", ".git", "d\udcff\udcfe", "line\nbreak", "é", "e\u0301", "x" * 255, "__pycache__", "-rf")
SIZES = (0, 1, 5, 4096, 70_000, 300_000)
Tree = dict[str, dict[str, object]]

names = st.sampled_from(NAMES)
numbers = st.integers(0, 1_000_000)


class Workspaces(RuleBasedStateMachine):
    detector: ClassVar[Detection] = "auto"

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="agentrewind-machine-"))
        self.root = self.place / "ws"
        self.root.mkdir()
        self.outside = self.place / "outside"
        self.outside.write_bytes(b"nobody's business")
        self.outside_state = self._outside()
        self.states: dict[str, Tree] = {}
        self.world = self._open()

    def teardown(self) -> None:
        self.world.close()
        for path in [self.root, *self.root.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(self.place)

    def _open(self) -> WorkspaceWorld:
        return WorkspaceWorld.open(self.root, self.place / "store", detector=self.detector)

    def _outside(self) -> tuple[object, ...]:
        info = self.outside.stat()
        return self.outside.read_bytes(), info.st_mode, info.st_mtime_ns, info.st_uid, info.st_gid

    # Choosing

    def _directories(self) -> list[Path]:
        found = [self.root]
        for parent, below, _ in os.walk(self.root):
            found += [Path(parent) / name for name in below if not (Path(parent) / name).is_symlink()]
        return sorted(found)

    def _paths(self) -> list[Path]:
        return [Path(parent) / name for parent, below, files in os.walk(self.root) for name in sorted([*below, *files])]

    def _pick(self, number: int, kind: int | None = None) -> Path | None:
        paths = [p for p in self._paths() if kind is None or stat.S_IFMT(p.lstat().st_mode) == kind]
        return paths[number % len(paths)] if paths else None

    def _free(self, number: int, name: str) -> Path:
        directories = [d for d in self._directories() if len(d.parts) - len(self.root.parts) < 4]
        path = directories[number % len(directories)] / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)
        return path

    # Making and damaging

    @initialize(number=numbers)
    def start(self, number: int) -> None:
        for name in ("a", "b"):
            self.write(number, name, number, 5)

    @rule(number=numbers, name=names, seed=numbers, size=st.sampled_from(SIZES))
    def write(self, number: int, name: str, seed: int, size: int) -> None:
        self._free(number, name).write_bytes(random.Random(seed).randbytes(size))

    @rule(number=numbers, name=names)
    def make_directory(self, number: int, name: str) -> None:
        self._free(number, name).mkdir()

    @rule(number=numbers, name=names, text=st.sampled_from(("a", "../b", "/etc", "/nowhere", ".")))
    def make_symlink(self, number: int, name: str, text: str) -> None:
        self._free(number, name).symlink_to(text)

    @rule(number=numbers, name=names)
    def make_fifo(self, number: int, name: str) -> None:
        os.mkfifo(self._free(number, name))

    @rule(number=numbers, other=numbers, name=names)
    def make_link(self, number: int, other: int, name: str) -> None:
        target = self._free(other, name)
        if source := self._pick(number, stat.S_IFREG):
            os.link(source, target)

    @rule(number=numbers, name=names)
    def link_from_outside(self, number: int, name: str) -> None:
        os.link(self.outside, self._free(number, name))

    @rule(number=numbers, name=names, holes=st.integers(1, 3))
    def make_sparse(self, number: int, name: str, holes: int) -> None:
        with self._free(number, name).open("wb") as file:
            for hole in range(holes):
                file.seek(200_000 * (hole + 1))
                file.write(b"data")
            file.truncate(200_000 * (holes + 2))

    @rule(number=numbers, seed=numbers, keep_time=st.booleans())
    def edit_in_place(self, number: int, seed: int, keep_time: bool) -> None:
        path = self._pick(number, stat.S_IFREG)
        if path is None or path.samefile(self.outside):
            return
        before = path.stat()
        if before.st_size and os.access(path, os.W_OK):
            with path.open("r+b") as file:
                file.seek(seed % before.st_size)
                file.write(random.Random(seed).randbytes(1))
        if keep_time:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(number=numbers, seed=numbers)
    def replace(self, number: int, seed: int) -> None:
        if path := self._pick(number, stat.S_IFREG):
            fresh = self.place / "fresh"
            fresh.write_bytes(random.Random(seed).randbytes(seed % 9000))
            fresh.replace(path)

    @rule(number=numbers)
    def remove(self, number: int) -> None:
        if path := self._pick(number):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    @rule(number=numbers, other=numbers, name=names)
    def move(self, number: int, other: int, name: str) -> None:
        target = self._free(other, name)
        if source := self._pick(number):
            with contextlib.suppress(OSError):  # into itself
                source.rename(target)

    @rule(number=numbers, mode=st.sampled_from((0o600, 0o644, 0o755, 0o4755, 0o2755, 0o1777, 0o444, 0o555, 0)))
    def change_mode(self, number: int, mode: int) -> None:
        path = self._pick(number)
        if path is None or path.is_symlink() or (path.exists() and path.samefile(self.outside)):
            return
        if os.geteuid() == 0 or mode & 0o700 == 0o700 or not path.is_dir():
            path.chmod(mode if os.geteuid() == 0 else mode | 0o400)

    @rule(number=numbers, when=st.integers(0, 2**31 * 10**9))
    def change_time(self, number: int, when: int) -> None:
        path = self._pick(number)
        if path is not None and (path.is_symlink() or not path.samefile(self.outside)):
            os.utime(path, ns=(when, when), follow_symlinks=False)

    @rule(number=numbers, value=st.sampled_from((b"", b"v", b"w" * 500)))
    def change_xattr(self, number: int, value: bytes) -> None:
        path = self._pick(number) or self.root
        if path.is_symlink() or path.samefile(self.outside):
            return
        with contextlib.suppress(OSError):
            os.setxattr(path, "user.note", value) if value else os.removexattr(path, "user.note")

    @rule(number=numbers, owner=st.integers(0, 3))
    def change_owner(self, number: int, owner: int) -> None:
        path = self._pick(number)
        if os.geteuid() == 0 and path is not None and (path.is_symlink() or not path.samefile(self.outside)):
            os.chown(path, owner, owner, follow_symlinks=False)

    # Saving and bringing back

    @rule()
    def snapshot(self) -> None:
        found = self.world.snapshot()
        now = describe(self.root)
        before = self.states.setdefault(found.id, now)
        assert not differences(before, now)

    @rule()
    def snapshot_of_the_same_writes_nothing(self) -> None:
        first = self.world.snapshot()
        self.states.setdefault(first.id, describe(self.root))
        size = sum(path.stat().st_size for path in (self.place / "store" / "packs").iterdir())
        assert self.world.snapshot() == first
        assert sum(path.stat().st_size for path in (self.place / "store" / "packs").iterdir()) == size

    @precondition(lambda self: self.states)
    @rule(number=numbers)
    def restore(self, number: int) -> None:
        target = list(self.states)[number % len(self.states)]
        before = describe(self.root)
        report = self.world.restore(target)
        now = describe(self.root)
        assert not differences(self.states[target], now)
        assert report.verified
        assert not report.kept
        assert not report.lossy
        assert report.live is not None
        assert not differences(self.states.setdefault(report.live, before), before)
        assert self.world.pending is None
        assert not self.world.restore(target).acts
        assert self.world.fingerprint(target) == self.world.fingerprint(self.world.snapshot().id)
        self.states.setdefault(self.world.snapshot().id, now)

    @precondition(lambda self: self.states)
    @rule(number=numbers, other=numbers, rehearse=st.booleans())
    def restore_all_but_drift(self, number: int, other: int, rehearse: bool) -> None:
        ids = list(self.states)
        target, since = ids[number % len(ids)], ids[other % len(ids)]
        before, last = describe(self.root), self.states[since]
        if rehearse:
            planned = self.world.restore(target, keep_drift=True, since=since, dry_run=True)
            assert not differences(before, describe(self.root))
        report = self.world.restore(target, keep_drift=True, since=since)
        now = describe(self.root)
        assert report.verified
        assert report.live is not None
        assert not differences(self.states.setdefault(report.live, before), before)
        kept = {gap.path or "." for gap in report.kept}
        drift = {path for path in {*before, *last} if _own(before, path) != _own(last, path)}
        for path in {*before, *now, *self.states[target]}:
            wanted = before if path in drift | kept else self.states[target]
            assert _own(now, path) == _own(wanted, path), (path, path in drift, path in kept)
        sealed = {path for path in kept if _is_private_by_a_link(before, path) != _is_private_by_a_link(last, path)}
        held = drift | sealed
        held |= {path for path in kept if _holds_or_lies_below(path, held)}
        held |= {path for path in kept if _would_lie_in_the_open(self.states[target], path, held)}
        explained = held | {path for path in kept if _holds_or_lies_below(path, held - {"."})}
        assert kept <= explained, [gap for gap in report.kept if (gap.path or ".") not in explained]
        assert not rehearse or set(planned.acts) == set(report.acts), set(planned.acts) ^ set(report.acts)
        again = {act.path or "." for act in self.world.restore(target, keep_drift=True, since=since).acts}
        told_by_now = {path for path in again if path in sealed or _holds_or_lies_below(path, sealed)}
        assert again <= told_by_now, again
        self.states.setdefault(self.world.snapshot().id, describe(self.root))

    @precondition(lambda self: self.states)
    @rule(number=numbers, other=numbers)
    def compare(self, number: int, other: int) -> None:
        ids = list(self.states)
        a, b = ids[number % len(ids)], ids[other % len(ids)]
        paths = {line.split(": ")[0] for line in differences(self.states[a], self.states[b])}
        changed = {repr(change.path or ".") for change in self.world.diff(a, b).items}
        assert changed <= paths
        assert self.world.identical(a, b) == (not paths)

    @rule(number=numbers, what=st.sampled_from(("nothing", "index", "scan-cache", "both", "garbage", "killed")))
    def reopen(self, number: int, what: str) -> None:
        store = self.place / "store"
        kept = {name: (store / name).read_bytes() for name in ("index", "scan-cache") if (store / name).exists()}
        self.world.close()
        for name in ("index", "scan-cache"):
            if what in (name, "both"):
                (store / name).unlink(missing_ok=True)
            elif what == "garbage":
                (store / name).write_bytes(random.Random(number).randbytes(number % 999))
            elif what == "killed":  # as if the process had not come to write them
                (store / name).unlink(missing_ok=True)
                if name in kept:
                    (store / name).write_bytes(kept[name])
        self.world = self._open()

    @precondition(lambda self: self.states)
    @rule(number=numbers)
    def verify(self, number: int) -> None:
        target = list(self.states)[number % len(self.states)]
        assert self.world.verify(target).ok

    @invariant()
    def nothing_outside_was_written(self) -> None:
        assert self._outside() == self.outside_state


def _own(tree: Tree, path: str) -> dict[str, object]:
    """What a path is by itself: without its other names, and a directory without its time."""
    facts = {name: value for name, value in tree.get(path, {}).items() if name != "links"}
    if facts.get("kind") == stat.S_IFDIR:
        facts.pop("mtime")
    return facts


def _is_private_by_a_link(tree: Tree, path: str) -> bool:
    """Then its content goes by another id, and nobody can tell whether it is the same."""
    names = tree.get(path, {}).get("links", ())
    return isinstance(names, list) and any(".env" in name.split("/") for name in names)


def _would_lie_in_the_open(tree: Tree, path: str, held: set[str]) -> bool:
    """Another name of a private file, of which all names that make it private are held."""
    names = tree.get(path, {}).get("links", ())
    private = {name for name in names if ".env" in name.split("/")} if isinstance(names, list) else set()
    return bool(private) and private <= held


def _holds_or_lies_below(path: str, drift: set[str]) -> bool:
    return any(path == "." or other.startswith(path + "/") or path.startswith(other + "/") for other in drift)


_ALL = tuple(HealthCheck)

TestWorkspaces = pytest.mark.timeout(400)(Workspaces.TestCase)
TestWorkspaces.settings = settings(max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=_ALL)


def _run(examples: int) -> None:
    run_state_machine_as_test(
        Workspaces,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=_ALL, database=None
        ),
    )


@pytest.mark.timeout(400)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests already run as a plain user")
def test_the_same_holds_for_a_plain_user() -> None:
    _run(2)  # everything is imported, while we may read it
    as_plain_user(lambda: _run(10))


class Scanned(Workspaces):
    detector = "scan"


TestWorkspacesScanned = Scanned.TestCase
TestWorkspacesScanned.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=_ALL
)


class Longer(Workspaces):
    pass


HISTORIES = int(os.environ.get("AGENTREWIND_HISTORIES", "600"))
"""How many random histories the long form goes through: `make fidelity` says 10,000."""

TestWorkspacesAtLength = pytest.mark.slow(pytest.mark.timeout(0)(Longer.TestCase))
TestWorkspacesAtLength.settings = settings(
    max_examples=HISTORIES, stateful_step_count=60, deadline=None, suppress_health_check=_ALL, database=None
)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests already run as a plain user")
def test_the_same_holds_at_length_for_a_plain_user() -> None:
    _run(2)
    as_plain_user(lambda: _run(max(HISTORIES // 4, 1)))
