"""Who is asked what he maps: whoever ran, and the kernel's own never again, unless another has got its number."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentrewind.snapshots import processes, writers
from agentrewind.snapshots.processes import Processes, is_kernel_thread
from agentrewind.snapshots.reading import SIGNATURE
from agentrewind.snapshots.whereabouts import Whereabouts
from agentrewind.snapshots.writers import Writers


def device_of(path: Path) -> tuple[int, int]:
    number = path.stat().st_dev
    return os.major(number), os.minor(number)


def test_each_process_is_listed_with_a_mark_that_it_keeps() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        there = Processes()
        first, second = there.read(), there.read()
        assert {os.getpid(), child.pid} <= first.keys()
        assert first[child.pid] == second[child.pid] == os.stat(f"/proc/{child.pid}").st_ino
        child.kill()
    assert child.pid not in there.read()


def test_what_stands_behind_a_name_in_the_buffer_is_none_of_it() -> None:
    """The kernel leaves what was there: the end of a longer name, for one."""
    records = [
        struct.pack("<QQHB", inode, 0, 24, 4) + name + b"\0" + b"7" * (4 - len(name))
        for inode, name in ((11, b"1"), (12, b"fs"), (13, b"1234"), (14, b"99"))
    ]
    assert processes._parsed(b"".join(records)) == {1: 11, 1234: 13, 99: 14}


def test_processes_that_come_and_go_are_never_overlooked() -> None:
    there = Processes()
    for _ in range(30):
        there._buffer.raw = b"7" * len(there._buffer)
        found = there.read().keys()
        missing = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in found]
        assert not [number for number in missing if _is_older_than_a_moment(number)]
        assert os.getpid() in found


def _is_older_than_a_moment(number: int) -> bool:
    try:
        return os.stat(f"/proc/{number}").st_mtime < time.time() - 2
    except OSError:
        return False


def test_a_plain_process_is_not_the_kernels_own() -> None:
    assert not is_kernel_thread(os.getpid())
    assert not is_kernel_thread(1 << 30)


@pytest.mark.parametrize("kernel", [True, False])
def test_the_kernels_own_is_asked_once_and_another_under_its_number_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    asked: list[int] = []
    marks = {7: 100}
    clock = iter(range(1000))
    monkeypatch.setattr(Processes, "read", lambda _: dict(marks))
    monkeypatch.setattr(writers, "_processor_time", lambda _: next(clock))
    monkeypatch.setattr(writers, "is_kernel_thread", lambda _: kernel)
    monkeypatch.setattr(writers.Question, "shared_mappings", lambda _, number: asked.append(number))
    found = Writers()
    root = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3):
        found.nominate(root, (0, 0))
    assert asked == ([7] if kernel else [7, 7, 7])
    marks[7] = 101
    found.nominate(root, (0, 0))
    os.close(root)
    assert len(asked) == (2 if kernel else 4)


def test_what_nobody_could_mark_is_asked_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    clock = iter(range(1000))
    monkeypatch.setattr(Processes, "read", lambda _: {7: 1})
    monkeypatch.setattr(writers, "_processor_time", lambda _: next(clock))
    monkeypatch.setattr(writers, "is_kernel_thread", lambda _: True)
    monkeypatch.setattr(writers.Question, "shared_mappings", lambda _, number: asked.append(number))
    found = Writers()
    root = os.open(tmp_path, os.O_RDONLY)
    found.nominate(root, (0, 0))
    found.nominate(root, (0, 0))
    os.close(root)
    assert asked == [7, 7]


def test_a_file_that_this_process_maps_is_named_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(4096))
    found = Writers()
    root = os.open(tmp_path, os.O_RDONLY)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        for _ in range(2):
            assert found.nominate(root, device_of(path)).forced == {"a"}
            found.settled()
    assert found.nominate(root, device_of(path)).forced == {"a"}, "once more after it is gone"
    found.settled()
    assert not found.nominate(root, device_of(path)).forced
    os.close(root)


def test_what_was_looked_for_is_remembered_until_a_name_has_it() -> None:
    looked = 0

    class Counted(dict[str, bytes]):
        def items(self) -> Any:
            nonlocal looked
            looked += 1
            return super().items()

    there = Counted(a=_signature(1), b=_signature(2), c=_signature(2))
    found = Whereabouts()
    for _ in range(2):
        assert found.find({(0, 2), (0, 9)}, there) == {"b", "c"}
        found.named((0, 2), "b")
    assert looked == 1
    there["d"] = _signature(9)
    found.named((0, 9), "d")
    assert found.find({(0, 9)}, there) == {"d"}
    del there["c"]
    assert found.find({(0, 2), (0, 9)}, there) == {"b", "d"}
    assert looked == 3
    there["b"] = _signature(3)
    assert found.find({(0, 2)}, there) == set()


def _signature(inode: int) -> bytes:
    return SIGNATURE.pack(0, inode, *(0,) * (len(SIGNATURE.unpack(bytes(SIGNATURE.size))) - 2))
