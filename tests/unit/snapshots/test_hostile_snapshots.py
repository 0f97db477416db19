"""A store that somebody else wrote: refused whole before anything is touched, and nothing outside ever changes."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentrewind.core.errors import AgentRewindError, SnapshotDamaged, StoreError
from agentrewind.core.world import SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.entry import CHUNK, SMALL, Entry
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.snapshots.crafting import DATA, ROOT, craft, file

Open = Callable[..., WorkspaceWorld]
ELSEWHERE = "elsewhere"
MANY = b"\1" * 32 * 5
HOSTILE: dict[str, dict[str, Entry | bytes]] = {
    "a parent": {"": ROOT, "../planted": file()},
    "a parent inside": {"": ROOT, "d": ROOT, "d/../../planted": file()},
    "an absolute name": {"": ROOT, "/tmp/planted": file()},
    "an empty component": {"": ROOT, "d": ROOT, "d//planted": file()},
    "a dot": {"": ROOT, "./planted": file()},
    "a zero byte": {"": ROOT, "a\0b": file()},
    "a name of 256 bytes": {"": ROOT, "x" * 256: file()},
    "a file below a link": {"": ROOT, "l": Entry(e.SYMLINK, target=b".."), "l/planted": file()},
    "a file below a file": {"": ROOT, "f": file(), "f/planted": file()},
    "a file below nothing": {"": ROOT, "d/planted": file()},
    "a root that is a link": {"": Entry(e.SYMLINK, target=b"..")},
    "a link to nothing": {"": ROOT, "l": Entry(e.SYMLINK)},
    "a link with a zero byte": {"": ROOT, "l": Entry(e.SYMLINK, target=b"a\0b")},
    "a link of a page": {"": ROOT, "l": Entry(e.SYMLINK, target=b"x" * 5000)},
    "a device": {"": ROOT, "null": Entry(b"c", 0o666)},
    "a mode with a type": {"": ROOT, "f": file(mode=0o100644 & 0xFFFF)},
    "nobody as owner": {"": ROOT, "f": file(uid=0xFFFFFFFF)},
    "an attribute of the system": {
        "": ROOT, "f": file(xattrs=e.encode_xattrs([(b"trusted.overlay.redirect", b"/")])),
    },
    "attributes that are none": {"": ROOT, "f": file(xattrs=b"\xff\xff")},
    "another size than its bytes": {"": ROOT, "f": file(size=3)},
    "an endless size": {"": ROOT, "f": file(size=(1 << 64) - 1)},
    "a size beyond its chunks": {"": ROOT, "f": file(MANY, size=SMALL + 1 + 9 * CHUNK)},
    "chunks that don't fit": {"": ROOT, "f": file(MANY, size=SMALL + 1)},
    "a sparse bomb": {"": ROOT, "f": file(size=1 << 62, flags=e.SPARSE)},
    "bytes that aren't there": {"": ROOT, "f": file(b"never stored")},
    "a leader that is another file": {"": ROOT, "a": file(), "b": file(b"", leader="a")},
    "a leader outside": {"": ROOT, "b": file(leader="../planted")},
    "a leader that isn't there": {"": ROOT, "b": file(leader="a")},
    "an entry of three bytes": {"": ROOT, "f": b"\0f\0"},
    "an empty entry": {"": ROOT, "f": b""},
    "nothing but garbage": {"": b"\xff" * 40},
}  # fmt: skip


@pytest.fixture
def place(root: Path) -> Path:
    """Where the workspace lies, with something beside it that nobody may touch."""
    (root / "mine").write_text("mine")
    (root.parent / ELSEWHERE).mkdir()
    (root.parent / ELSEWHERE / "theirs").write_text("theirs")
    return root.parent


def outside(place: Path) -> dict[str, dict[str, object]]:
    found = describe(place, ignore=("ws", "store", "leases", "out"))
    return {path: facts for path, facts in found.items() if path != "."}


@pytest.mark.parametrize("foreign", [True, False], ids=["from elsewhere", "as our own"])
@pytest.mark.parametrize("what", HOSTILE)
def test_it_is_refused_whole_and_nothing_is_touched(place: Path, open_world: Open, what: str, foreign: bool) -> None:
    root, store = place / "ws", place / "store"
    open_world().close()
    name = craft(store, HOSTILE[what], contents=(DATA, MANY), foreign=foreign)
    world = open_world()
    before, around = describe(root), outside(place)
    for act in (
        lambda: world.restore(name),
        lambda: world.restore(name, dry_run=True),
        lambda: world.restore(name, keep_drift=True),
    ):
        with pytest.raises(StoreError, match="Nothing was touched"):
            act()
        assert not differences(before, describe(root))
    assert not differences(around, outside(place))
    assert world.pending is None


@pytest.mark.parametrize("what", HOSTILE)
def test_an_export_of_it_writes_nothing_outside(place: Path, store: Path, open_world: Open, what: str) -> None:
    open_world().close()
    name = craft(store, HOSTILE[what], contents=(DATA, MANY))
    world = open_world()
    around = outside(place)
    with pytest.raises(AgentRewindError):
        world.export(name, place / "out")
    assert not differences(around, outside(place))
    assert not list((place / "out").iterdir()) if (place / "out").exists() else True


def special(root: Path) -> int:
    return (root / "tool").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


def test_set_uid_comes_back_from_our_own_store_only(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    (root / "tool").write_text("x")
    (root / "tool").chmod(0o6755)
    target = world.snapshot().id
    (root / "tool").unlink()
    world.restore(target)
    assert special(root) == stat.S_ISUID | stat.S_ISGID
    world.close()

    shutil.copytree(store, copy := store.with_name("unpacked"))
    (root / "tool").unlink()
    with WorkspaceWorld.open(root, copy) as foreign:
        report = foreign.restore(target)
        assert (root / "tool").read_text() == "x"
        assert not special(root)
        assert [gap.path for gap in report.lossy] == ["tool"]
        assert "made elsewhere" in report.lossy[0].why
        assert report.verified


def test_a_store_without_a_word_about_its_origin_is_foreign(root: Path, store: Path, open_world: Open) -> None:
    open_world().close()
    name = craft(store, {"": ROOT, "tool": file(mode=0o4755)})
    report = open_world().restore(name)
    assert (root / "tool").read_bytes() == DATA
    assert not special(root)
    assert report.lossy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give capabilities")
def test_capabilities_come_back_from_our_own_store_only(root: Path, store: Path, open_world: Open) -> None:
    capability = bytes.fromhex("0100000200200000000000000000000000000000")
    world = open_world()
    (root / "tool").write_text("x")
    try:
        os.setxattr(root / "tool", "security.capability", capability)
    except OSError as error:
        pytest.skip(f"no capabilities here: {error}")
    target = world.snapshot().id
    (root / "tool").unlink()
    world.restore(target)
    assert os.getxattr(root / "tool", "security.capability") == capability
    world.close()
    (store / "origin").unlink()
    (root / "tool").unlink()
    report = open_world().restore(target)
    assert "security.capability" not in os.listxattr(root / "tool")
    assert [gap.path for gap in report.lossy] == ["tool"]


# Whatever it says

PARTS = ("a", "b", "..", ".", "", "l", "x" * 256, "\0", "-rf", "d\udcff", "étc", ".git", "mine", ELSEWHERE)
paths = st.lists(st.sampled_from(PARTS), min_size=0, max_size=3).map("/".join)
kinds = st.sampled_from([e.FILE, e.DIRECTORY, e.SYMLINK, e.FIFO, e.EXCLUDED, e.UNREADABLE, e.VOLATILE, b"c", b"\0"])
sizes = st.sampled_from([0, len(DATA), 1, SMALL, SMALL + 1, 5 * CHUNK, 1 << 40, 1 << 62, (1 << 63), (1 << 64) - 1])
entries = st.builds(
    Entry,
    kind=kinds,
    mode=st.sampled_from([0, 0o644, 0o755, 0o7777, 0o177777]),
    uid=st.sampled_from([0, os.geteuid(), 0xFFFFFFFF]),
    gid=st.sampled_from([0, os.getegid(), 0xFFFFFFFF]),
    mtime_ns=st.sampled_from([0, -1, 1, -(1 << 63), (1 << 63) - 1]),
    size=sizes,
    content=st.sampled_from([file().content, file(MANY).content, file(b"").content, bytes(32), b"\1" * 32]),
    target=st.sampled_from([b"", b"..", b"/etc", b"../elsewhere", b"a\0b", b"x" * 5000]),
    xattrs=st.sampled_from([b"", b"\1", e.encode_xattrs([(b"user.a", b"b")]), e.encode_xattrs([(b"trusted.x", b"y")])]),
    leader=st.sampled_from(["", "a", "../planted", "b"]),
    why=st.sampled_from(["", "a socket: noted, not kept", "x"]),
    note=st.sampled_from([b"", b"n" * 16]),
    flags=st.integers(0, 255),
)
plausible = st.one_of(st.builds(file, mode=st.sampled_from([0o644, 0o4755])), st.just(ROOT), entries)
states = st.dictionaries(paths, plausible | st.binary(max_size=60), max_size=6)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(state=states, foreign=st.booleans(), root_is_there=st.booleans())
@example(state={"": ROOT, "a": Entry(e.SYMLINK, target=b".."), "a/b": file()}, foreign=True, root_is_there=False)
def test_whatever_it_says_nothing_outside_changes_and_errors_are_ours(
    state: dict[str, Entry | bytes], foreign: bool, root_is_there: bool
) -> None:
    place = Path(tempfile.mkdtemp(prefix="agentrewind-hostile-"))
    try:
        _restore_and_look(place, {**state, "": ROOT} if root_is_there else state, foreign=foreign)
    finally:
        shutil.rmtree(place)


def _restore_and_look(place: Path, state: dict[str, Entry | bytes], *, foreign: bool) -> None:
    root, store = place / "ws", place / "store"
    root.mkdir()
    (root / "mine").write_text("mine")
    (place / ELSEWHERE).mkdir()
    (place / ELSEWHERE / "theirs").write_text("theirs")
    WorkspaceWorld.open(root, store).close()
    try:
        name = craft(store, state, contents=(DATA, MANY), foreign=foreign)
    except (ValueError, UnicodeError):  # what can't even be written down
        return
    around = outside(place)
    with WorkspaceWorld.open(root, store) as world:
        _try_everything(world, name, place)
        assert not differences(around, outside(place))
        assert not root.is_symlink()
        assert not any(path.is_block_device() or path.is_char_device() for path in root.iterdir())


def _try_everything(world: WorkspaceWorld, name: SnapshotId, place: Path) -> None:
    before = describe(world.root)
    with contextlib.suppress(AgentRewindError):
        world.export(name, place / "out")
    looks = (world.verify, world.diff_live, lambda name: world.diff(name, name), lambda name: world.read(name, "a"))
    for look in looks:
        with contextlib.suppress(AgentRewindError):
            look(name)
    try:
        world.restore(name)
    except SnapshotDamaged:
        assert not differences(before, describe(world.root))
        assert world.pending is None
    except AgentRewindError:
        if world.pending is None:
            assert not differences(before, describe(world.root))
