"""What a manifest may say, and what is refused: a stored state is not believed without looking."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests
from agentrewind.snapshots.entry import Entry, Malformed
from agentrewind.snapshots.rules import PathClass, PathRules
from agentrewind.snapshots.workspace import Absence, WorkspaceWorld

LINK = e.encode(Entry(e.SYMLINK, target=b"x"))
FULL = Entry(e.FILE, 0o4755, 1, 2, -3, 4, b"c" * 32, b"", b"xattrs", "lead\udcffer", "", b"", e.SPARSE)


@pytest.mark.parametrize(
    "entry",
    [FULL, Entry(e.DIRECTORY, 0o1777), Entry(e.EXCLUDED, why="é", note=b"n"), Entry(e.UNREADABLE, why="no"),
     Entry(e.VOLATILE), Entry(e.FIFO, 0o600)],
)  # fmt: skip
def test_an_entry_survives_its_bytes(entry: Entry) -> None:
    assert e.decode(e.encode(entry)) == entry


def test_cut_off_or_random_bytes_are_malformed_and_never_anything_else() -> None:
    whole = e.encode(FULL)
    for end in range(20):
        with pytest.raises(Malformed):
            e.decode(whole[:end])
    body = manifests.encode(b"{}", [("a", None, LINK), ("b", LINK, None)], {"a": LINK})
    rng = random.Random(3)
    for _ in range(2000):
        broken = bytearray(body)
        broken[rng.randrange(len(body))] = rng.randrange(256)
        cut = bytes(broken[: rng.randrange(len(body) + 1)])
        for read in (manifests.head_of, manifests.delta_of, manifests.full_of):
            with contextlib.suppress(Malformed):
                read(cut)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/../../b", ".", "a/.", "nul\0", "a/"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    body = manifests.encode(b"{}", [(path, None, LINK)], {path: LINK})
    with pytest.raises(Malformed):
        manifests.full_of(body)
    with pytest.raises(Malformed):
        manifests.delta_of(body)


def test_a_step_that_does_not_fit_is_refused() -> None:
    with pytest.raises(Malformed):
        manifests.apply({}, [("a", LINK, None)], backwards=False)
    state = {"a": LINK}
    manifests.apply(state, [("a", LINK, None), ("b", None, LINK)], backwards=False)
    assert state == {"b": LINK}
    manifests.apply(state, [("a", LINK, None), ("b", None, LINK)], backwards=True)
    assert state == {"a": LINK}


def test_a_fingerprint_moves_with_its_steps() -> None:
    old = {"a": LINK, "b": e.encode(FULL)}
    new = {"b": LINK, "c": e.encode(Entry(e.DIRECTORY))}
    moved = manifests.moved_fingerprint(manifests.fingerprint(old), manifests.difference(old, new))
    assert moved == manifests.fingerprint(new) != manifests.fingerprint(old)
    noted = {**new, "x": e.encode(Entry(e.EXCLUDED, why="rule")), "v": e.encode(Entry(e.VOLATILE))}
    assert manifests.fingerprint(noted) == manifests.fingerprint(new)


def test_xattrs_survive_their_bytes_and_cut_off_ones_are_malformed() -> None:
    pairs = [(b"user.a", b""), (b"user.b", b"\0\xff")]
    assert e.decode_xattrs(e.encode_xattrs(pairs)) == pairs
    with pytest.raises(Malformed):
        e.decode_xattrs(b"\1")


def test_every_path_is_listed_with_its_class(root: Path, open_world: Callable[..., WorkspaceWorld]) -> None:
    (root / "d" / "__pycache__").mkdir(parents=True)
    (root / "data").mkdir()
    for name, size in {"d/a": 3, ".env": 4, "d/__pycache__/x.pyc": 5, "data/x": 6}.items():
        (root / name).write_bytes(b"x" * size)
    world = open_world(rules=PathRules(excluded=("data/",)))
    assert sorted(world.paths(), key=lambda item: item[0]) == [
        (".env", PathClass.PRIVATE, 4), ("d", PathClass.TRACKED, 0), ("d/__pycache__", PathClass.TRACKED, 0),
        ("d/__pycache__/x.pyc", PathClass.VOLATILE, 5), ("d/a", PathClass.TRACKED, 3), ("data", PathClass.EXCLUDED, 0),
    ]  # fmt: skip


def test_large_and_sparse_files_are_read_whole(root: Path, world: WorkspaceWorld) -> None:
    data = os.urandom(5_000_000)
    (root / "large").write_bytes(data)
    with (root / "sparse").open("wb") as file:
        file.truncate(5_000_001)
    first = world.snapshot()
    assert world.read(first.id, "large") == data
    assert world.read(first.id, "sparse") == bytes(5_000_001)
    assert world.read(first.id, "") is Absence.NOT_A_FILE
    assert world.coverage(first.id) == first.coverage
    assert world.fingerprint(first.id) == first.fingerprint
