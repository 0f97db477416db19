"""Each file of a store torn, turned, gone or replaced, at any byte: it opens, or says in one sentence why not; what is
damaged is named, everything else can be brought back, and one can go on saving."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentrewind.core.errors import StoreError, UsageError
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots.checking import check_store
from agentrewind.snapshots.encryption import Encryption
from agentrewind.snapshots.entry import FILE, decode
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe

KEY = Encryption(b"0123456789abcdef")
CACHES = ("index", "scan-cache", "clock", "lock", "kept", "index.0a.new", "origin")
PATIENCE_S = 10


@dataclass(frozen=True)
class Kept:
    """A store, and what its snapshots hold."""

    root: Path
    store: Path
    states: dict[SnapshotId, dict[str, object]]
    key: Encryption | None


def hashes(root: Path) -> dict[str, object]:
    return {name: item.get("sha256") for name, item in describe(root).items()}


def build(base: Path, key: Encryption | None) -> Kept:
    root, store = base / "ws", base / "whole"
    root.mkdir(parents=True)
    states = {}
    with WorkspaceWorld.open(root, store, encryption=key, lease_dir=base / "leases") as world:
        for step in range(4):
            rng = random.Random(step)
            (root / f"own-{step}").write_bytes(rng.randbytes(120))
            (root / f"own-{step - 2}").unlink(missing_ok=True)
            (root / "same").write_text("the same throughout")
            (root / ".env").write_text(f"TOKEN={step // 2}")
            states[world.snapshot(f"step {step}").id] = hashes(root)
    (store / "kept").mkdir()
    (store / "kept" / next(iter(states))).touch()
    (store / "index.0a.new").write_bytes(b"half")
    return Kept(root, store, states, key)


@pytest.fixture(scope="module", params=[None, KEY], ids=["plain", "encrypted"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return build(tmp_path_factory.mktemp("kept"), request.param)


def held(world: WorkspaceWorld, name: SnapshotId) -> dict[str, object]:
    """What a snapshot holds, private files by their object."""
    found = {}
    for path, data in world._store.state(name).items():
        entry = decode(data)
        found[path or "."] = hashlib.sha256(world._store.get(entry.content)).hexdigest() if entry.kind == FILE else None
    return found


@contextmanager
def in_time(what: str) -> Iterator[None]:
    """Nothing may wait for a pipe or read without end."""

    def late(*_: object) -> None:
        pytest.fail(f"{what}: still busy after {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def opened(
    kept: Kept, store: Path, what: str, *, must_open: bool, lease: bool = False, lease_dir: Path | None = None
) -> WorkspaceWorld | None:
    """None where it says in one sentence why not."""
    refused = ""
    try:
        return WorkspaceWorld.open(kept.root, store, lease=lease, lease_dir=lease_dir, encryption=kept.key)
    except (UsageError, StoreError) as error:
        refused = str(error)
    assert not must_open, f"{what}: {refused}"
    assert len(refused) < 600
    assert "\n" not in refused
    return None


def look(kept: Kept, store: Path, what: str, *, must_open: bool = False) -> set[SnapshotId]:
    """The snapshots that are whole by their own word, each compared with what it was. Empty where it is refused."""
    with in_time(what):
        world = opened(kept, store, what, must_open=must_open)
        if world is None:
            return set()
        with world:
            sound = set()
            for found in world.snapshots():
                if world.verify(found.id).ok:
                    sound.add(found.id)
                    assert held(world, found.id) == kept.states[found.id], what
            return sound


def new_is_whole(world: WorkspaceWorld, name: SnapshotId) -> bool:
    """What was new in it; an old content that it shares may be the damaged one."""
    problems = world.verify(name).problems
    return not {"", "later"} & {gap.path for gap in problems}


def go_on(kept: Kept, store: Path, what: str, tmp: Path, *, must_open: bool = False) -> None:
    """One can save, and what was saved is whole, also for the next opening."""
    with in_time(what):
        world = opened(kept, store, what, must_open=must_open, lease=True, lease_dir=tmp / "leases")
        if world is None:
            return
        with world:
            (kept.root / "later").write_bytes(os.urandom(50))
            try:
                later = world.snapshot("later")
                assert new_is_whole(world, later.id), what
            finally:
                (kept.root / "later").unlink()
        with WorkspaceWorld.open(kept.root, store, lease=False, encryption=kept.key) as world:
            assert new_is_whole(world, later.id), what


def damaged(kept: Kept, tmp: Path, name: str, act: Callable[[Path], None]) -> Path:
    store = tmp / "store"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(kept.store, store)
    act(store / name)
    return store


def replaced(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def by_pipe(path: Path) -> None:
    replaced(path)
    os.mkfifo(path)


def by_link(path: Path) -> None:
    replaced(path)
    path.symlink_to("/dev/zero")


def by_dangling_link(path: Path) -> None:
    replaced(path)
    path.symlink_to("nowhere")


def by_directory(path: Path) -> None:
    replaced(path)
    path.mkdir()
    (path / "in it").touch()


def by_garbage(path: Path) -> None:
    replaced(path)
    path.write_bytes(random.Random(1).randbytes(3_000))


def by_nothing(path: Path) -> None:
    replaced(path)


def by_an_empty_file(path: Path) -> None:
    replaced(path)
    path.touch()


def by_a_huge_one(path: Path) -> None:
    replaced(path)
    path.touch()
    os.truncate(path, 1 << 39)


def made_huge(path: Path) -> None:
    if path.is_file():
        os.truncate(path, 1 << 39)


KINDS = [by_pipe, by_link, by_dangling_link, by_directory, by_garbage, by_nothing, by_an_empty_file, by_a_huge_one,
         made_huge]  # fmt: skip


def names_of(kept: Kept) -> list[str]:
    return [
        *sorted(str(path.relative_to(kept.store)) for path in kept.store.rglob("*") if path.is_file()),
        "kept", "packs", "restore-intent", "packs/000002.pack", "packs/nonsense.pack", "packs/9999999999999.pack",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_file_replaced(whole: Kept, tmp_path: Path, kind: Callable[[Path], None]) -> None:
    for name in names_of(whole):
        what = f"{name} replaced {kind.__name__}"
        harmless = (
            name in CACHES
            or name == "restore-intent"
            or name.startswith(("kept/", "packs/000002", "packs/9", "packs/n"))
        )
        store = damaged(whole, tmp_path, name, kind)
        sound = look(whole, store, what, must_open=harmless)
        if harmless:
            assert sound == set(whole.states), what
        go_on(whole, store, what, tmp_path)


def positions(path: Path, count: int | None) -> list[int]:
    size = path.stat().st_size
    if count is None or size <= count:
        return list(range(size))
    rng = random.Random(path.name)
    return sorted({0, size - 1, *(rng.randrange(size) for _ in range(count))})


def turn(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << (at % 8)
    path.write_bytes(data)


def cut(path: Path, at: int) -> None:
    os.truncate(path, at)


def walk(whole: Kept, tmp: Path, count: tuple[int, int] | None, deed: Callable[[Path, int], None]) -> None:
    files = [path for path in sorted(whole.store.rglob("*")) if path.is_file() and path.stat().st_size]
    for path in files:
        name = str(path.relative_to(whole.store))
        is_pack = name.startswith("packs/")
        for number, at in enumerate(positions(path, count and count[not is_pack])):
            what = f"{deed.__name__} {name} at {at}"
            store = damaged(whole, tmp, name, lambda path, at=at: deed(path, at))
            sound = look(whole, store, what, must_open=name in CACHES or is_pack or name == "key")
            if name in CACHES:
                assert sound == set(whole.states), what
            if number % 4 == 0:
                go_on(whole, store, what, tmp, must_open=name in CACHES or is_pack or name == "key")


def test_each_file_torn_and_turned(whole: Kept, tmp_path: Path) -> None:
    walk(whole, tmp_path, (30, 4), turn)
    walk(whole, tmp_path, (15, 3), cut)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deed", [turn, cut])
def test_each_file_torn_and_turned_at_every_byte(
    whole: Kept, tmp_path: Path, deed: Callable[[Path, int], None]
) -> None:
    walk(whole, tmp_path, None, deed)


def test_a_check_names_exactly_what_uses_a_damaged_object(whole: Kept, tmp_path: Path) -> None:
    """What `check --read-data` says is what `verify` says, snapshot by snapshot."""
    names = [name for name in names_of(whole) if name == "packs/000001.pack"]
    for at in positions(whole.store / names[0], 25):
        store = damaged(whole, tmp_path, names[0], lambda path, at=at: turn(path, at))
        opened = Store.open(store, writable=False, encryption=whole.key)
        found = check_store(opened, read_data=True)
        opened.close()
        with WorkspaceWorld.open(whole.root, store, lease=False, encryption=whole.key) as world:
            unsound = {name for name in world._store.names() if not world.verify(name).ok}
        assert {problem.snapshot for problem in found.problems} == unsound
        lost = set(whole.states) - set(look(whole, store, f"turned at {at}"))
        assert unsound <= lost
        assert len(lost) < len(whole.states) or at < 500, "one byte costs what uses it, not all"


def test_a_lost_key_costs_private_files_only(whole: Kept, tmp_path: Path) -> None:
    store = damaged(whole, tmp_path, "key", by_nothing)
    with WorkspaceWorld.open(whole.root, store, lease_dir=tmp_path / "leases", encryption=whole.key) as world:
        for name in whole.states:
            assert {gap.path for gap in world.verify(name).problems} == {".env"}
            assert world.read(name, "same") == b"the same throughout"


def test_a_damaged_lease_directory_is_one_sentence(whole: Kept, tmp_path: Path) -> None:
    for kind in (by_directory, by_garbage, by_pipe, by_dangling_link):
        leases = tmp_path / f"leases-{kind.__name__}"
        leases.mkdir()
        kind(leases / "guard")
        kind(leases / "0.lease")
        store = damaged(whole, tmp_path, "clock", by_nothing)
        with in_time(kind.__name__):
            world = opened(whole, store, kind.__name__, must_open=False, lease=True, lease_dir=leases)
            if world is not None:
                world.close()
