"""What a process maps shared: what the kernel answers, one mapping at a time, is what its text says."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrewind.snapshots import mappings
from agentrewind.snapshots.mappings import Mapping, Odd, Question, in_text, is_answered

MAPPER = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
at = []
for line in sys.stdin:
    act, *rest = json.loads(line)
    if act in ("file", "memory", "nothing"):
        pages, access, kind = rest[:3]
        fd = -1
        if act == "file":
            fd = os.open(os.fsencode(rest[3]), os.O_RDWR | os.O_CREAT)
        elif act == "memory":
            fd = os.memfd_create("made of memory")
        if fd >= 0:
            os.ftruncate(fd, pages * 4096)
        where = libc.mmap(None, pages * 4096, access, kind | (0x20 if fd < 0 else 0), fd, 0)
        assert where != ctypes.c_void_p(-1).value
        at.append(where)
        if fd >= 0:
            os.close(fd)
    elif act == "protect":
        which, first, pages, access = rest
        libc.mprotect(at[which] + first * 4096, pages * 4096, access)
    elif act == "unmap":
        which, first, pages = rest
        libc.munmap(at[which] + first * 4096, pages * 4096)
    elif act == "unlink":
        os.unlink(os.fsencode(rest[0]))
    elif act == "rename":
        os.rename(os.fsencode(rest[0]), os.fsencode(rest[1]))
    elif act == "deeper":
        for _ in range(rest[1]):
            os.makedirs(rest[0], exist_ok=True)
            os.chdir(rest[0])
    print(flush=True)
"""
READ, WRITE = 1, 2
SHARED, PRIVATE = 1, 2


class Mapper:
    """A process that maps what it is told to, and then waits."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.mapped: list[int] = []
        """How many pages of each."""

    def act(self, *words: object) -> None:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        print(json.dumps(words), file=self.child.stdin, flush=True)
        assert self.child.stdout.readline() == "\n"

    def asked(self) -> list[Mapping] | None:
        with self.maps() as fd:
            return Question().asked(fd)

    def told(self) -> list[Mapping]:
        with self.maps() as fd:
            return in_text(fd)

    @contextlib.contextmanager
    def maps(self) -> Iterator[int]:
        fd = os.open(f"/proc/{self.child.pid}/maps", os.O_RDONLY)
        yield fd
        os.close(fd)


@pytest.fixture
def mapper(tmp_path: Path) -> Iterator[Mapper]:
    with subprocess.Popen(
        [sys.executable, "-c", MAPPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as child:
        yield Mapper(child)
        child.kill()


@pytest.fixture
def answered() -> None:
    if not is_answered():
        pytest.skip("this kernel is older than the question (6.11)")


def _one_more(mapper: Mapper, rng: random.Random, names: list[str]) -> None:
    pages, access = rng.randrange(1, 6), rng.choice((0, READ, WRITE, READ | WRITE))
    kind = rng.choice((SHARED, PRIVATE))
    what = rng.choice(("file", "file", "file", "memory", "nothing"))
    if what == "file":
        name = rng.choice(("a", "b b", "new\nline", "é", "d\udcff", "x (deleted)"))
        names.append(name)
        mapper.act(what, pages, access, kind, name)
    else:
        mapper.act(what, pages, access, kind)
    mapper.mapped.append(pages)


def _change(mapper: Mapper, rng: random.Random, names: list[str]) -> None:
    which = rng.randrange(len(mapper.mapped))
    first = rng.randrange(mapper.mapped[which])
    pages = rng.randrange(1, mapper.mapped[which] - first + 1)
    act = rng.choice(("protect", "protect", "unmap", "unlink", "rename"))
    if act == "protect":
        mapper.act(act, which, first, pages, rng.choice((0, READ, READ | WRITE)))
    elif act == "unmap":
        mapper.act(act, which, first, pages)
    elif names:
        name = names.pop(rng.randrange(len(names)))
        if name not in names and os.path.lexists(os.path.join(f"/proc/{mapper.child.pid}/cwd", name)):
            mapper.act(act, name, *(["renamed"] if act == "rename" else []))


@pytest.mark.usefixtures("answered")
@pytest.mark.parametrize("seed", range(12))
def test_the_answers_are_what_the_text_says(mapper: Mapper, seed: int) -> None:
    rng = random.Random(seed)
    names: list[str] = []
    seen = set()
    for _ in range(40):
        turn = _one_more if rng.random() < 0.5 or not mapper.mapped else _change
        turn(mapper, rng, names)
        assert mapper.asked() == mapper.told()
        seen |= set(mapper.told())
    assert len(seen) > 5, "not much was mapped"


@pytest.mark.usefixtures("answered")
def test_what_is_only_read_now_is_told_as_well(mapper: Mapper, tmp_path: Path) -> None:
    """It may have been written, and may be made writable again."""
    mapper.act("file", 1, READ | WRITE, SHARED, "a")
    mapper.act("protect", 0, 0, 1, READ)
    mapper.act("file", 1, READ | WRITE, PRIVATE, "b")
    found = [mapping.name for mapping in mapper.asked() or () if mapping.name.startswith(str(tmp_path))]
    assert found == [str(tmp_path / "a")]


def test_a_name_that_is_too_long_to_be_answered_hides_nothing(mapper: Mapper, tmp_path: Path) -> None:
    mapper.act("file", 1, READ | WRITE, SHARED, "a")
    mapper.act("deeper", "d" * 200, 25)
    mapper.act("file", 1, READ | WRITE, SHARED, "b")
    found = [mapping.name for mapping in Question().shared_mappings(mapper.child.pid) or ()]
    assert str(tmp_path / "a") in found
    assert any(len(name) > 5000 and name.endswith("/b") for name in found)
    if is_answered():
        with pytest.raises(Odd):
            mapper.asked()


def _refusing(code: int) -> Callable[..., int]:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return refuse


def _nothing(*_: object) -> int:
    raise FileNotFoundError


def _in_circles(_fd: int, _number: int, _query: bytearray) -> int:
    return 0


@pytest.mark.parametrize(
    "broken", [_refusing(errno.ENOTTY), _refusing(errno.EINVAL), _refusing(errno.EPERM), _nothing, _in_circles]
)
def test_a_kernel_that_does_not_answer_rightly_is_not_asked_again(
    mapper: Mapper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Callable[..., int]
) -> None:
    mapper.act("file", 1, READ | WRITE, SHARED, "a")
    monkeypatch.setattr(mappings, "is_answered", is_answered.__wrapped__)
    monkeypatch.setattr(fcntl, "ioctl", broken)
    assert not mappings.is_answered()
    assert str(tmp_path / "a") in [found.name for found in Question().shared_mappings(mapper.child.pid) or ()]


def test_a_question_that_skips_what_is_only_read_would_not_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mappings, "_SHARED_FILE_AT_OR_BEHIND", mappings._SHARED_FILE_AT_OR_BEHIND | 0x02)
    assert not is_answered.__wrapped__()


@pytest.mark.usefixtures("answered")
def test_who_dies_while_being_asked_has_still_mapped_what_was_answered(
    mapper: Mapper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapper.act("file", 1, READ | WRITE, SHARED, "a")
    real = fcntl.ioctl
    count = 0

    def dies_then(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count == 2:
            mapper.child.kill()
            mapper.child.wait()
        return real(*arguments)  # type: ignore[call-overload]

    with mapper.maps() as fd:
        monkeypatch.setattr(fcntl, "ioctl", dies_then)
        assert str(tmp_path / "a") in [found.name for found in Question().asked(fd) or ()]
        monkeypatch.undo()
        assert Question().asked(fd) is None


def test_who_may_not_be_asked_says_nothing() -> None:
    assert Question().shared_mappings(1 << 30) == []
