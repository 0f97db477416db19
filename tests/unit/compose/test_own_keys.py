"""A store's own key: made before the store, in two places, either of which is enough."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from agentrewind.compose import own_keys
from agentrewind.compose.home import Home
from agentrewind.compose.keeping import encryption_of
from agentrewind.compose.own_keys import places
from agentrewind.compose.worlds import open_world
from agentrewind.core.errors import StoreError, UsageError
from agentrewind.snapshots.workspace import WorkspaceWorld

TEXT = b"the secret recipe of the house, in an ordinary file" * 4


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "ordinary.txt").write_bytes(TEXT)
    (tmp_path / "w" / "a-telling-name").symlink_to("a-telling-target")
    return tmp_path / "w"


def saved(home: Home, root: Path) -> str:
    with open_world(home, root) as world:
        return world.snapshot("a telling label").id


def read(home: Home, root: Path, snapshot: str) -> object:
    with open_world(home, root, reading=True) as world:
        return world.read(snapshot, "ordinary.txt")


def test_nothing_of_a_file_its_name_or_its_target_stands_in_a_store_in_clear(home: Home, root: Path) -> None:
    saved(home, root)
    everything = b"".join(path.read_bytes() for path in home.root.rglob("*") if path.is_file())
    for part in (b"recipe", b"ordinary.txt", b"telling"):
        assert part not in everything


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", ["gone", "empty", "other bytes"])
def test_one_lost_or_damaged_key_loses_nothing_and_is_made_good(home: Home, root: Path, which: int, how: str) -> None:
    first = saved(home, root)
    paths = places(home.store_of(root))
    key = paths[which].read_bytes()
    assert paths[1 - which].read_bytes() == key
    paths[which].unlink() if how == "gone" else paths[which].write_bytes(b"" if how == "empty" else b"x" * 32)
    assert read(home, root, first) == TEXT
    saved(home, root)
    assert [path.read_bytes() for path in paths] == [key, key]


def test_without_either_the_store_is_refused_with_the_names_of_both_and_nothing_is_touched(
    home: Home, root: Path
) -> None:
    saved(home, root)
    store = home.store_of(root)
    for path in places(store):
        path.unlink()
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    with pytest.raises(UsageError) as refused, open_world(home, root):
        pass
    assert all(str(path) in str(refused.value) for path in places(store))
    assert before == {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_store_that_an_earlier_version_made_stays_open_and_readable(home: Home, root: Path) -> None:
    home.made()
    with WorkspaceWorld.open(root, home.store_of(root), lease_dir=home.leases) as world:
        first = world.snapshot().id
    assert encryption_of(home.store_of(root), making=True) is None
    assert read(home, root, first) == TEXT
    assert not any(path.exists() for path in places(home.store_of(root)))


def test_a_key_of_yours_is_no_afterthought(home: Home, root: Path, tmp_path: Path) -> None:
    saved(home, root)
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    environ = {"AGENTREWIND_STORE_KEY_FILE": str(key)}
    with pytest.raises(UsageError, match="not encrypted with a key of yours"):
        encryption_of(home.store_of(root), wanted=True, environ=environ)
    assert encryption_of(home.store_of(root), environ=environ) is not None


def test_a_crash_before_the_store_leaves_a_key_that_the_next_attempt_uses(home: Home, root: Path) -> None:
    store = home.store_of(root)
    first = encryption_of(store, making=True)
    assert first is not None
    assert encryption_of(store, making=True) == first
    saved(home, root)
    assert encryption_of(store) == first


def test_two_that_make_one_store_at_the_same_moment_have_one_key(
    home: Home, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the store is made with the key that the other then replaced, and nobody has it any more."""
    look, both, got = own_keys.read_plain, threading.Barrier(2), list[object]()

    def slowly(path: Path, most: int) -> bytes:
        try:
            return look(path, most)
        finally:
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)

    monkeypatch.setattr(own_keys, "read_plain", slowly)
    makers = [threading.Thread(target=lambda: got.append(own_keys.made(home.store_of(root)))) for _ in range(2)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(got) == 2
    assert got[0] == got[1]


def test_a_key_that_cannot_be_looked_at_is_not_replaced(
    home: Home, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = own_keys.made(home.store_of(root))

    def too_many(*_: object) -> bytes:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(own_keys, "read_plain", too_many)
    with pytest.raises(StoreError, match="Too many open files"):
        own_keys.made(home.store_of(root))
    monkeypatch.undo()
    assert own_keys.made(home.store_of(root)) == first


def test_a_store_elsewhere_has_its_second_key_beside_it_and_leaves_files_of_others_alone(
    home: Home, root: Path, tmp_path: Path
) -> None:
    store, mine = tmp_path / "data" / "backup", tmp_path / "keys" / "backup"
    for directory in (store.parent, mine.parent):
        directory.mkdir()
    mine.write_text("my own key for something else")
    with open_world(home, root, store=store) as world:
        first = world.snapshot().id
    assert [path.name for path in mine.parent.iterdir()] == ["backup"]
    assert mine.read_text() == "my own key for something else"
    (store / "own-key").unlink()
    with open_world(home, root, store=store, reading=True) as world:
        assert world.read(first, "ordinary.txt") == TEXT
