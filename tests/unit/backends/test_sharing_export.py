"""What is written out of a snapshot beside a workspace shares blocks with it, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrewind.snapshots import cloning
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.testing.snapshots import describe
from tests.unit.backends.images import image
from tests.unit.backends.test_reflink import used

SIZE = 24 << 20


@pytest.fixture(params=["xfs", "btrfs"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with image(request.param, tmp_path) as place:
        (place / "workspace").mkdir()
        yield place / "workspace"


def saved_and_written_out(
    root: Path, store: Path, then: Callable[[], object] = lambda: None, rules: PathRules | None = None
) -> int:
    """Save, let something happen, write out to `out` beside the workspace; how many bytes are shared."""
    with WorkspaceWorld.open(root, store / "store", rules=rules) as world:
        target = world.snapshot()
        then()
        return world.export(target.id, root.parent / "out", include_private=True, share=True).shared


def test_files_that_are_as_they_were_take_no_room_and_are_their_own(root: Path, tmp_path: Path) -> None:
    (root / "large").write_bytes(os.urandom(SIZE))
    (root / "sub").mkdir()
    (root / "sub" / "middle").write_bytes(os.urandom(100_000))
    (root / "small").write_bytes(b"few")
    start, before = used(root), describe(root)
    assert saved_and_written_out(root, tmp_path) == SIZE + 100_000
    assert used(root) - start < SIZE // 4
    out = root.parent / "out"
    assert describe(out) == before
    with (out / "large").open("r+b") as file:
        file.write(b"mine")
    with (root / "sub" / "middle").open("r+b") as file:
        file.write(b"yours")
    assert (root / "large").read_bytes()[:4] != b"mine"
    assert (out / "sub" / "middle").read_bytes()[:5] != b"yours"


def test_what_has_changed_since_is_written_out_as_it_was(root: Path, tmp_path: Path) -> None:
    """Also where size and time say nothing of it."""
    old = {name: os.urandom(100_000) for name in ("forged", "grown", "gone", "linked", "same")}
    for name, data in old.items():
        (root / name).write_bytes(data)
    times = {name: os.stat(root / name).st_mtime_ns for name in old}

    def change() -> None:
        (root / "forged").write_bytes(os.urandom(100_000))
        os.utime(root / "forged", ns=(1, times["forged"]))
        (root / "grown").write_bytes(old["grown"] + b"more")
        (root / "gone").unlink()
        (root / "linked").unlink()
        (root / "linked").symlink_to("same")

    assert saved_and_written_out(root, tmp_path, change) == 100_000
    for name, data in old.items():
        written = root.parent / "out" / name
        assert written.read_bytes() == data
        assert (written.is_symlink(), written.stat().st_mtime_ns) == (False, times[name])


def test_who_writes_while_a_file_is_cloned_changes_nothing(root: Path, tmp_path: Path, monkeypatch) -> None:
    (root / "a").write_bytes(old := os.urandom(100_000))

    def torn(source: int, to: int) -> None:
        with (root / "a").open("r+b") as file:
            file.write(b"other")
        cloned(source, to)

    cloned = cloning.clone
    monkeypatch.setattr(cloning, "clone", torn)
    assert saved_and_written_out(root, tmp_path) == 0
    assert (root.parent / "out" / "a").read_bytes() == old


def test_holes_and_secrets_are_as_a_copy_has_them(root: Path, tmp_path: Path) -> None:
    with (root / "holes").open("wb") as file:
        file.write(os.urandom(1 << 20))
        file.truncate(64 << 20)
    (root / ".env").write_bytes(b"TOKEN=" + b"x" * 100_000)
    filled = (root / "filled").open("wb")
    filled.write(bytes(1 << 20))
    filled.close()

    def dig() -> None:
        """The same bytes, time and size, but as a hole."""
        st = os.stat(root / "filled")
        with (root / "filled").open("r+b") as file:
            file.truncate(0)
            file.truncate(1 << 20)
        os.utime(root / "filled", ns=(1, st.st_mtime_ns))

    shared = saved_and_written_out(root, tmp_path, dig)
    out = root.parent / "out"
    assert shared == 64 << 20
    assert (out / "holes").stat().st_blocks * 512 < 2 << 20
    assert (out / "filled").stat().st_blocks * 512 >= 1 << 20
    assert (out / ".env").read_bytes() == (root / ".env").read_bytes()


def test_where_nothing_can_be_shared_it_is_a_copy(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a").write_bytes(data := os.urandom(100_000))
    (root / "b").write_bytes(data)
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    kinds = {fields[1]: fields[2] for fields in mounts}
    at = next(str(place) for place in (root, *root.parents) if str(place) in kinds)
    if kinds[at] in ("xfs", "btrfs", "bcachefs", "zfs"):
        pytest.skip(f"{kinds[at]} shares")
    with WorkspaceWorld.open(root, tmp_path / "store") as world:
        report = world.export(world.snapshot().id, tmp_path / "out", share=True)
    assert report.shared == 0
    assert describe(tmp_path / "out") == describe(root)
