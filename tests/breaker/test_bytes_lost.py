"""What an independent tester found: bytes of a user that no snapshot holds after a restore that said it was fine."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

import agentrewind
from agentrewind.core import crashpoints
from agentrewind.core.errors import AgentRewindError
from tests.damage import flip_in_the_objects

MAPPER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
view = mmap.mmap(fd, 8192)
for line in sys.stdin:
    view[:6] = line.strip().encode()
    print("stored", flush=True)
"""

WRITER = """
import os, sys
path, at, opened = sys.argv[1], int(sys.argv[2]), sys.argv[3]
fd = os.open(path, os.O_RDWR) if opened == "before" else None
print("ready", flush=True)
sys.stdin.read()
fd = os.open(path, os.O_RDWR) if fd is None else fd
os.pwrite(fd, b"THE ONLY COPY", at)
"""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    root = tmp_path / "w"
    root.mkdir()
    return root


@pytest.fixture(autouse=True)
def disarmed():
    yield
    crashpoints.disarm()


def contents_saved_of(world, path):
    """The bytes of one file in each snapshot that can be restored."""
    found = []
    for snapshot in world.snapshots():
        try:
            world.restore(snapshot.id)
        except AgentRewindError:
            continue
        if path.exists():
            found.append(path.read_bytes())
    return found


def test_a_pattern_added_later_does_not_make_a_restore_discard_what_is_unsaved(workspace):
    file = workspace / "chapter.txt"
    file.write_bytes(b"first draft")
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
    file.write_bytes(b"second draft, the only copy")
    (workspace / "agentrewind.toml").write_text('[paths]\nvolatile = ["*.txt"]\n')
    with agentrewind.Workspace(workspace) as world:
        try:
            report = world.restore(target.id)
        except AgentRewindError:
            return  # refused, with the file untouched, would be fine too
        if file.read_bytes() == b"second draft, the only copy":
            return
        assert report.live is not None
        assert b"second draft, the only copy" in contents_saved_of(world, file)


def test_what_is_overwritten_can_be_read_back_from_the_store(workspace):
    file = workspace / "a.bin"
    file.write_bytes(b"old")
    data = os.urandom(5000)
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
        file.write_bytes(data)
        world.snapshot()
    flip_in_the_objects(workspace.parent / "home", len(data), which=-1)
    with agentrewind.Workspace(workspace) as world:
        with contextlib.suppress(AgentRewindError):
            world.restore(target.id)
        assert file.read_bytes() == data or data in contents_saved_of(world, file)


def test_a_private_file_is_not_removed_when_the_key_of_its_only_copy_is_damaged(workspace):
    (workspace / "a.txt").write_text("a")
    secret = workspace / ".env"
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
        secret.write_bytes(b"TOKEN=only copy")
        time.sleep(0.1)  # from then on its times prove that it is unchanged
        world.snapshot()
    [key] = (workspace.parent / "home").rglob("key")
    data = bytearray(key.read_bytes())
    data[0] ^= 1
    key.write_bytes(data)
    with agentrewind.Workspace(workspace) as world:
        with contextlib.suppress(AgentRewindError):
            world.restore(target.id)
        assert secret.exists() or b"TOKEN=only copy" in contents_saved_of(world, secret)


def test_what_a_process_stores_through_a_mapping_is_saved_before_it_is_overwritten(workspace):
    file = workspace / "data.db"
    file.write_bytes(bytes(8192))
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
        command = [sys.executable, "-c", MAPPER, str(file)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            try:
                store(other, "first!")
                time.sleep(0.2)
                world.snapshot()
                store(other, "second")
                world.restore(target.id)
            except AgentRewindError:
                assert file.read_bytes()[:6] == b"second"
                return
            finally:
                other.stdin.close()
        assert any(data[:6] == b"second" for data in [file.read_bytes(), *contents_saved_of(world, file)])


@pytest.mark.parametrize("opened", ["then", "before"])
@pytest.mark.parametrize("size", [100, 12 << 20])
def test_what_another_process_stores_while_a_file_is_rewritten_in_place_is_kept(workspace, size, opened):
    file = workspace / "a.bin"
    file.write_bytes(b"A" * size)
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
        file.write_bytes(os.urandom(size))
        command = [sys.executable, "-c", WRITER, str(file), str(size - 50), opened]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout.readline() == "ready\n"

            def somebody_stores() -> None:
                crashpoints.disarm()
                other.stdin.close()
                time.sleep(0.5)  # enough, unless it is made to wait for the restore

            crashpoints.arm("snapshot.restore-file-opened", somebody_stores)
            with contextlib.suppress(AgentRewindError):
                world.restore(target.id)
            assert other.wait(5) == 0
        assert any(b"THE ONLY COPY" in data for data in [file.read_bytes(), *contents_saved_of(world, file)])


def store(other: subprocess.Popen[str], text: str) -> None:
    other.stdin.write(text + "\n")
    other.stdin.flush()
    assert other.stdout.readline() == "stored\n"
