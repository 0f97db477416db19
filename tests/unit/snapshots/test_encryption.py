"""An encrypted store: nothing of the workspace can be read from it without the key, and everything works with it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.snapshots import encryption, packs
from agentrewind.snapshots.encryption import Encryption, WrongKey
from agentrewind.snapshots.gc import collect, survey
from agentrewind.snapshots.store import Store
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe
from tests.unit.snapshots.test_gc import FREE
from tests.unit.snapshots.test_store import flip, forget_caches, pack_bytes, records

Open = Callable[..., WorkspaceWorld]
KEY = Encryption(b"a key of at least sixteen bytes")
WORDS = (b"a very secret sentence", b"telling-name.txt", b"TOKEN=of-somebody", b"a telling label", b"pointed-at-this")


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_WORK", {"n": 1 << 10, "r": 8, "p": 1})


def lay_out(root: Path) -> None:
    (root / "telling-name.txt").write_bytes(WORDS[0] * 3)
    (root / "again.txt").write_bytes(WORDS[0] * 3)
    (root / ".env").write_bytes(WORDS[2])
    (root / "empty").write_bytes(b"")
    (root / "link").symlink_to("pointed-at-this")
    (root / "large").write_bytes(os.urandom(5 << 20))
    (root / "sub/telling-name.txt").parent.mkdir()
    (root / "sub/telling-name.txt").write_bytes(b"x")


def everything(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_nothing_readable_is_in_the_store_and_everything_comes_back(root: Path, store: Path) -> None:
    lay_out(root)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        first = world.snapshot("a telling label")
        before = describe(root)
        assert world.verify(first.id).ok
    kept = everything(store)
    for word in WORDS:
        assert word not in kept
        assert re.sub(rb".", b"", word) == b""
    forget_caches(store)
    (root / "telling-name.txt").unlink()
    (root / ".env").write_text("changed")
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        assert world.find(first.id) == first
        assert world.read(first.id, "telling-name.txt") == WORDS[0] * 3
        assert world.verify(first.id).ok
        second = world.snapshot()
        assert {change.path for change in second.changes.items} == {"telling-name.txt", ".env"}
        assert world.verify(second.id).ok
        world.export(first.id, root.parent / "out", include_private=True)
    assert describe(root.parent / "out")["telling-name.txt"]["sha256"] == before["telling-name.txt"]["sha256"]


def test_the_scan_cache_is_used_and_says_nothing(root: Path, store: Path) -> None:
    lay_out(root)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        first = world.snapshot()
    assert WORDS[1] not in (store / "scan-cache").read_bytes()
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        assert world.snapshot() == first


def test_sizes_of_small_files_are_not_in_the_tables(root: Path, store: Path) -> None:
    (root / "a").write_bytes(b"x" * 4711)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        world.snapshot()
        rows = [row for path, record in records(store) for row in world._store.pack_files._raw_table(record)]
    assert rows
    assert (4711).to_bytes(4, "little") not in bytes(rows)


def test_equal_contents_are_kept_once_and_have_other_ids_elsewhere(root: Path, store: Path) -> None:
    data = os.urandom(100_000)
    for name in ("a", "b", "c"):
        (root / name).write_bytes(data)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        first = world.snapshot()
        (root / "d").write_bytes(data)
        world.snapshot()
        assert pack_bytes(store) < 110_000
        one = world.entry(first.id, "a")
    with WorkspaceWorld.open(root, store.with_name("other"), encryption=KEY) as world:
        other = world.entry(world.snapshot().id, "a")
    assert one is not None
    assert other is not None
    assert one.content != other.content


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "is encrypted and needs a key file"),
        (Encryption(b"another key of sixteen bytes"), "not that of the encrypted snapshot store"),
        (Encryption(b"a key of at least sixteen bytes", passphrase=True), "needs a key file"),
    ],
)
@pytest.mark.parametrize("lease", [True, False])
def test_a_wrong_key_is_one_clear_sentence(
    root: Path, store: Path, key: Encryption | None, said: str, lease: bool
) -> None:
    lay_out(root)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        world.snapshot()
    before = everything(store)
    with pytest.raises(WrongKey, match=said) as refused:
        WorkspaceWorld.open(root, store, encryption=key, lease=lease)
    assert isinstance(refused.value, UsageError)
    assert "Nothing was touched" in str(refused.value)
    assert everything(store) == before


def test_a_key_for_a_store_that_has_none_is_refused(root: Path, store: Path) -> None:
    with WorkspaceWorld.open(root, store) as world:
        world.snapshot()
    with pytest.raises(WrongKey, match="is not encrypted"):
        WorkspaceWorld.open(root, store, encryption=KEY)


def test_a_passphrase_goes_through_scrypt(root: Path, store: Path) -> None:
    lay_out(root)
    with WorkspaceWorld.open(root, store, encryption=Encryption.from_passphrase("correct horse")) as world:
        first = world.snapshot()
    assert b"correct horse" not in everything(store)
    with WorkspaceWorld.open(root, store, encryption=Encryption.from_passphrase("correct horse"), lease=False) as world:
        assert world.verify(first.id).ok
    with pytest.raises(WrongKey, match="not that of"):
        WorkspaceWorld.open(root, store, encryption=Encryption.from_passphrase("battery staple"))


def test_a_key_file_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x" * 15)
    (tmp_path / "good").write_bytes(b"x" * 32)
    os.mkfifo(tmp_path / "pipe")
    assert Encryption.from_key_file(tmp_path / "good").secret == b"x" * 32
    assert "xx" not in repr(Encryption.from_key_file(tmp_path / "good"))
    for name, said in (
        ("short", "too short"),
        ("missing", "no key file"),
        ("pipe", "not a plain file"),
        (".", "plain"),
    ):
        with pytest.raises(WrongKey, match=said):
            Encryption.from_key_file(tmp_path / name)


@pytest.mark.parametrize("lost", ["format", "encryption"])
@pytest.mark.parametrize("how", ["missing", "torn"])
def test_either_of_the_two_files_of_parameters_is_enough(root: Path, store: Path, lost: str, how: str) -> None:
    lay_out(root)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        first = world.snapshot()
    path = store / lost
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30])
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        assert world.verify(first.id).ok


def test_a_collection_works_without_reading_more_than_it_must(root: Path, store: Path) -> None:
    lay_out(root)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        world.snapshot()
        (root / "large").unlink()
        (root / "telling-name.txt").write_text("another")
        second = world.snapshot("second")
    opened = Store.open(store, writable=True, limits=FREE, encryption=KEY)
    done = collect(opened, survey(opened, {second.id}))
    opened.close()
    assert done.after < 10_000 < done.before
    forget_caches(store)
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        assert [found.id for found in world.snapshots()] == [second.id]
        assert world.verify(second.id).ok
        assert world.snapshot().id == second.id


def test_a_damaged_or_swapped_record_is_damaged_and_not_something_else(root: Path, store: Path, tmp_path: Path) -> None:
    (root / "a").write_bytes(os.urandom(500))
    with WorkspaceWorld.open(root, store, encryption=KEY) as world:
        first = world.snapshot()
        (root / "b").write_bytes(os.urandom(500))
        (root / "a").unlink()
        second = world.snapshot()
    whole = tmp_path / "whole"
    shutil.copytree(store, whole)
    for path, record in records(store):
        forget_caches(store)
        flip(path, record.body_at + 5)
        with WorkspaceWorld.open(root, store, encryption=KEY, lease=False) as world:
            usable = [found.id for found in world.snapshots() if world.verify(found.id).ok]
            if record.kind == packs.OBJECTS:
                assert len(usable) == 1
            assert set(usable) <= {first.id, second.id}
        shutil.rmtree(store)
        shutil.copytree(whole, store)
