"""Everything of a workspace comes back exactly, whatever was done to it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.snapshots import beneath
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots import hostile
from tests.unit.snapshots.plain_user import NOBODY, as_plain_user, place_for_all

CASES = Path(__file__).parents[4] / "shared" / "cases"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not on this machine")


@pytest.mark.parametrize("rules", [PathRules(), PathRules.everything_tracked()], ids=["defaults", "everything"])
def test_every_feature_comes_back_after_damage_all_over(root: Path, store: Path, rules: PathRules) -> None:
    hostile.build(root)
    before = describe(root)
    with WorkspaceWorld.open(root, store, rules=rules) as world:
        target = world.snapshot()
        hostile.damage(root)
        damaged = describe(root)
        report = world.restore(target.id)
        assert not differences(before, describe(root))
        assert report.verified
        assert not report.kept
        assert report.live is not None
        world.restore(report.live)
        now = describe(root)
    assert not differences(damaged, now)
    assert target.coverage.complete


def test_nothing_outside_is_written_through_a_link(root: Path, world: WorkspaceWorld) -> None:
    hostile.build(root)
    outside = root.parent / "ws-outside.txt"
    target = world.snapshot()
    hostile.damage(root)
    before = (outside.read_bytes(), outside.stat().st_mtime_ns)
    world.restore(target.id)
    assert (outside.read_bytes(), outside.stat().st_mtime_ns) == before
    assert (root / "linked-from-outside.txt").read_text() == "outside\n"


def test_everything_comes_back_for_a_plain_user() -> None:
    with place_for_all() as place:

        def act() -> None:
            root = place / "ws"
            hostile.build(root)
            before = describe(root)
            with WorkspaceWorld.open(root, place / "store") as world:
                target = world.snapshot()
                hostile.damage(root)
                world.restore(target.id)
            assert not differences(before, describe(root))

        as_plain_user(act)


@needs_cases
@pytest.mark.parametrize("reopened", [False, True])
def test_the_shared_hostile_tree_comes_back(root: Path, store: Path, reopened: bool) -> None:
    subprocess.run(["bash", str(CASES / "hostile_tree.sh"), str(root)], check=True, capture_output=True)
    copy = root.parent / "copy"
    subprocess.run(["cp", "-a", str(root), str(copy)], check=True)
    world = WorkspaceWorld.open(root, store)
    target = world.snapshot()
    subprocess.run(["bash", str(CASES / "damage_tree.sh"), str(root)], check=True, capture_output=True)
    if reopened:
        world.close()
        world = WorkspaceWorld.open(root, store)
    world.restore(target.id)
    world.close()
    judged = subprocess.run(
        [sys.executable, str(CASES / "treecmp.py"), str(copy), str(root)], capture_output=True, text=True, check=False
    )
    assert (judged.stdout, judged.returncode) == ("", 0)


@needs_cases
@pytest.mark.skipif(os.geteuid() != 0, reason="the test before was already one of a plain user")
def test_the_shared_hostile_tree_comes_back_for_a_plain_user() -> None:
    """In a process of his own, from the first byte on: `setpriv`, as a person would have it."""
    with place_for_all() as place:
        root, copy, store, cases = (str(place / name) for name in ("ws", "copy", "store", "cases"))
        shutil.copytree(CASES, cases)
        (place / "cases" / "snapshots.py").write_text(
            "import sys; from pathlib import Path; from agentrewind.snapshots.workspace import WorkspaceWorld\n"
            "with WorkspaceWorld.open(Path(sys.argv[1]), Path(sys.argv[2])) as world:\n"
            "    print(world.restore(sys.argv[3]).verified if sys.argv[3:] else world.snapshot().id)\n"
        )

        def plainly(*command: str) -> str:
            plain = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all")
            done = subprocess.run(
                [*plain, *command], capture_output=True, text=True, check=False, cwd=place,
                env={**os.environ, "HOME": str(place), "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.strip()

        script = (sys.executable, "cases/snapshots.py", root, store)
        plainly("bash", "cases/hostile_tree.sh", root)
        plainly("cp", "-a", root, copy)
        target = plainly(*script)
        plainly("bash", "cases/damage_tree.sh", root)
        assert plainly(*script, target) == "True"
        assert plainly(sys.executable, "cases/treecmp.py", copy, root) == ""


def test_an_untouched_file_keeps_its_inode_and_its_times(root: Path, world: WorkspaceWorld) -> None:
    (root / "kept").write_text("kept")
    (root / "edited").write_text("before")
    os.link(root / "edited", root / "other name")
    target = world.snapshot()
    before = {name: (root / name).stat() for name in ("kept", "edited", "other name")}
    (root / "edited").write_text("after, and longer")
    world.restore(target.id)
    now = {name: (root / name).stat() for name in before}
    assert {name: st.st_ino for name, st in now.items()} == {name: st.st_ino for name, st in before.items()}
    assert now["kept"].st_ctime_ns == before["kept"].st_ctime_ns
    assert (root / "edited").read_text() == "before"


def test_a_second_restore_touches_nothing(root: Path, world: WorkspaceWorld) -> None:
    hostile.build(root)
    target = world.snapshot()
    hostile.damage(root)
    world.restore(target.id)
    before = {path: path.lstat().st_ctime_ns for path in [root, *root.rglob("*")]}
    report = world.restore(target.id)
    assert report.acts == ()
    assert {path: path.lstat().st_ctime_ns for path in [root, *root.rglob("*")]} == before


def test_a_socket_is_noted_and_left_alone(root: Path, world: WorkspaceWorld) -> None:
    target = world.snapshot()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
        found = world.snapshot()
        report = world.restore(target.id)
    assert [gap.path for gap in found.coverage.excluded] == ["s"]
    assert [gap.path for gap in report.kept] == ["s"]
    assert (root / "s").is_socket()


def test_a_socket_gives_way_to_a_file_of_the_target(root: Path, world: WorkspaceWorld) -> None:
    (root / "s").write_text("a file")
    target = world.snapshot()
    (root / "s").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
    world.restore(target.id)
    assert (root / "s").read_text() == "a file"


def test_a_deep_tree_with_paths_longer_than_the_limit(root: Path, world: WorkspaceWorld) -> None:
    here = os.getcwd()
    try:
        os.chdir(root)
        for _ in range(60):
            os.mkdir("n" * 200)
            os.chdir("n" * 200)
        Path("leaf").write_text("deep down")
        target = world.snapshot()
        Path("leaf").write_text("changed")
        Path("more").write_text("more")
        world.restore(target.id)
        assert Path("leaf").read_text() == "deep down"
        assert not Path("more").exists()
    finally:
        os.chdir(here)
        subprocess.run(["rm", "-rf", str(root)], check=True)


def test_a_thousand_levels_are_no_recursion(root: Path, world: WorkspaceWorld) -> None:
    here = os.getcwd()
    try:
        os.chdir(root)
        for _ in range(1100):
            os.mkdir("d")
            os.chdir("d")
        Path("leaf").write_text("deep down")
        target = world.snapshot()
        subprocess.run(["rm", "-rf", str(root / "d")], check=True)
        os.chdir(root)
        world.restore(target.id)
        assert world.diff_live(target.id).total == 0
        assert world.snapshot().coverage.entries == 1102
    finally:
        os.chdir(here)
        subprocess.run(["rm", "-rf", str(root)], check=True)


def test_an_empty_terabyte_takes_no_time_and_no_room(root: Path, store: Path, world: WorkspaceWorld) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(b"somewhere")
    target = world.snapshot()
    with (root / "huge").open("r+b") as file:
        file.seek(1 << 38)
        file.write(b"elsewhere")
    world.restore(target.id)
    with (root / "huge").open("rb") as file:
        file.seek(1 << 38)
        assert file.read(9) == bytes(9)
        file.seek(1 << 39)
        assert file.read(9) == b"somewhere"
    assert (root / "huge").stat().st_blocks < 100
    assert sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) < 1 << 20


def test_holes_come_back_where_none_can_be_punched(
    root: Path, world: WorkspaceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beneath, "punch_hole", lambda *_: False)
    for name, size in (("small", 2 << 20), ("large", 20 << 20)):
        with (root / name).open("wb") as file:
            file.write(b"begin")
            file.truncate(size)
    before = describe(root)
    assert before["large"]["holes"]
    target = world.snapshot().id
    for name in ("small", "large"):
        data = b"x" * (root / name).stat().st_size
        with (root / name).open("r+b") as file:
            file.write(data)
    world.restore(target)
    assert not differences(before, describe(root))


def test_access_lists_come_back(root: Path, world: WorkspaceWorld) -> None:
    path = root / "shared"
    path.write_text("x")
    acl = bytes.fromhex(
        "02000000 0100 0600 ffffffff 0200 0400 01000000 0400 0400 ffffffff 1000 0400 ffffffff 2000 0000 ffffffff"
    )
    try:
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"this file system keeps no access lists: {error}")
    target = world.snapshot()
    path.unlink()
    world.restore(target.id)
    assert os.getxattr(path, "system.posix_acl_access") == acl
