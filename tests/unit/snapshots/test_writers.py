"""Who is asked what he maps: whoever ran, and the kernel's own never again, unless another has got its number."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.snapshots import writers
from agentrewind.snapshots.processes import Processes, is_kernel_thread
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
    monkeypatch.setattr(writers._Question, "shared_mappings", lambda _, number: asked.append(number))
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
    monkeypatch.setattr(writers._Question, "shared_mappings", lambda _, number: asked.append(number))
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
