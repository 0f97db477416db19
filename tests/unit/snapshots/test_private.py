"""Secrets come back on this machine and show nowhere else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrewind.core.errors import SnapshotDamaged, UsageError
from agentrewind.snapshots.private import Keys
from agentrewind.snapshots.rules import PathRules
from agentrewind.snapshots.sealing import Unsealable
from agentrewind.snapshots.workspace import Absence, WorkspaceWorld
from tests.trees import describe, differences

Open = Callable[..., WorkspaceWorld]
SECRET = b"TOKEN=very-secret-0123456789\n" * 3


def stored(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_a_private_file_comes_back_and_is_nowhere_in_clear(root: Path, store: Path, open_world: Open) -> None:
    (root / ".env").write_bytes(SECRET)
    os.setxattr(root / ".env", "user.note", b"secret-attribute")
    before = describe(root)
    world = open_world()
    first = world.snapshot()
    (root / ".env").write_bytes(b"TOKEN=other\n")
    world.restore(first.id)
    assert not differences(before, describe(root))
    world.close()
    everything = stored(store)
    assert b"secret" not in everything
    assert hashlib.sha256(SECRET).digest() not in everything
    assert world.rules.private


def test_a_large_private_file_comes_back(root: Path, world: WorkspaceWorld) -> None:
    data = os.urandom(5 << 20)
    (root / "big.key").write_bytes(data)
    first = world.snapshot()
    (root / "big.key").write_bytes(b"short")
    world.restore(first.id)
    assert (root / "big.key").read_bytes() == data
    assert world.verify(first.id).ok


def test_a_private_file_is_never_shown(root: Path, world: WorkspaceWorld) -> None:
    (root / ".env").write_bytes(SECRET)
    first = world.snapshot()
    assert world.read(first.id, ".env") is Absence.PRIVATE


def test_another_name_of_a_private_file_is_private_too(root: Path, store: Path, world: WorkspaceWorld) -> None:
    (root / ".env").write_bytes(SECRET)
    os.link(root / ".env", root / "config.txt")
    first = world.snapshot()
    assert world.read(first.id, "config.txt") is Absence.PRIVATE
    assert b"very-secret" not in stored(store)
    (root / "config.txt").unlink()
    world.restore(first.id)
    assert (root / "config.txt").samefile(root / ".env")


def test_an_unchanged_secret_is_kept_once(root: Path, store: Path, world: WorkspaceWorld) -> None:
    (root / "a.key").write_bytes(os.urandom(50_000))
    world.snapshot()
    size = sum(path.stat().st_size for path in (store / "packs").iterdir())
    (root / "b.key").write_bytes((root / "a.key").read_bytes())
    world.snapshot()
    assert sum(path.stat().st_size for path in (store / "packs").iterdir()) < size + 5000


def test_without_its_key_only_the_secret_is_lost(root: Path, store: Path, open_world: Open) -> None:
    world = open_world()
    (root / "a").write_text("a")
    plain = world.snapshot()
    (root / ".env").write_bytes(SECRET)
    secret = world.snapshot()
    world.close()
    (store / "key").write_bytes(b"cut off")
    world = open_world()
    assert world.verify(plain.id).ok
    assert [gap.path for gap in world.verify(secret.id).problems] == [".env"]
    (root / ".env").unlink()
    with pytest.raises(SnapshotDamaged, match=r"\.env"):
        world.restore(secret.id)
    assert [path.read_bytes() for path in store.glob("key.damaged-*")] == [b"cut off"]
    (root / ".env").write_bytes(SECRET)
    again = world.snapshot()
    assert world.verify(again.id).ok


@pytest.mark.parametrize("size", [30, 5 << 20])
def test_rules_that_have_changed_since_are_no_change_of_the_files(root: Path, open_world: Open, size: int) -> None:
    """What was private is tracked now, and the other way round; bytes, attributes and links come back all the same."""
    (root / ".env").write_bytes(os.urandom(size))
    (root / "mine").write_bytes(os.urandom(size))
    os.link(root / "mine", root / "mine too")
    (root / "other").write_text("other")
    os.setxattr(root / ".env", "user.note", b"x")
    os.setxattr(root / "mine", "user.note", b"y")
    before = describe(root)
    first = open_world(rules=PathRules()).snapshot()
    world = open_world(rules=PathRules(private=("mine",)))
    rehearsed = world.restore(first.id, dry_run=True)
    assert rehearsed.acts == ()
    (root / ".env").unlink()
    (root / "mine").write_bytes(b"changed")
    (root / "other").unlink()
    report = world.restore(first.id)
    assert not differences(before, describe(root))
    assert report.verified
    now = world.snapshot()
    assert world.read(now.id, "mine too") is Absence.PRIVATE
    assert world.read(now.id, ".env") == (root / ".env").read_bytes()
    world = open_world(rules=PathRules())
    (root / "mine").unlink()
    world.restore(now.id)
    assert not differences(before, describe(root))


def test_an_export_leaves_secrets_out_and_says_so(root: Path, world: WorkspaceWorld, tmp_path: Path) -> None:
    (root / ".env").write_bytes(SECRET)
    (root / "a").write_text("a")
    (root / "a").chmod(0o4755)
    (root / "d").mkdir()
    (root / "d" / "link").symlink_to("/etc/passwd")
    os.link(root / "a", root / "d" / "b")
    first = world.snapshot()
    (root / "a").write_text("changed since")
    report = world.export(first.id, tmp_path / "out")
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")) == [
        "a", "d", "d/b", "d/link",
    ]  # fmt: skip
    assert [gap.path for gap in report.kept] == [".env"]
    assert (tmp_path / "out" / "a").read_text() == "a"
    assert (tmp_path / "out" / "a").samefile(tmp_path / "out" / "d" / "b")
    assert (tmp_path / "out" / "a").stat().st_mode & 0o7777 == 0o755
    assert os.readlink(tmp_path / "out" / "d" / "link") == "/etc/passwd"
    world.export(first.id, tmp_path / "all", include_private=True)
    assert (tmp_path / "all" / ".env").read_bytes() == SECRET


def test_an_export_goes_into_an_empty_directory_only(root: Path, world: WorkspaceWorld, tmp_path: Path) -> None:
    (root / "a").write_text("a")
    first = world.snapshot()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        world.export(first.id, tmp_path / "full")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="not a directory"):
        world.export(first.id, tmp_path / "file")


def test_sealing_is_authenticated_and_keyed() -> None:
    keys, other = Keys(b"1" * 32), Keys(b"2" * 32)
    sealed = keys.seal(b"secret")
    assert keys.unseal(sealed) == b"secret"
    assert keys.seal(b"secret") == sealed != keys.seal(b"secreu")
    assert keys.id(b"secret") != other.id(b"secret")
    for bad in (sealed[:-1], sealed[:5], b"", bytes([sealed[0] ^ 1]) + sealed[1:]):
        with pytest.raises(Unsealable):
            keys.unseal(bad)
    with pytest.raises(Unsealable):
        other.unseal(sealed)
