"""A process that changes a workspace without rest, in every way that a watcher could miss.

    python mutator.py ROOT OUTSIDE SEED

It is stopped and continued from outside (SIGSTOP, SIGCONT), overflows the kernel's queue when it is told to (SIGUSR1),
and says on its standard output what it does. One thing it leaves out, for no directory watch can tell of it: what is
done through a second name of a file that is made, used and removed between two looks.
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

NAMES = [
    *"abcdefgh",
    "__pycache__",
    "x.pyc",
    ".env",
    ".mypy_cache",
    "data.db",
    "data.db-wal",
    "excluded",
    "d\udcff",
    "é",
]
BURST = 17_000


class Mutator:
    def __init__(self, root: Path, outside: Path, seed: int) -> None:
        self.root, self.outside = root, outside
        self.rng = random.Random(seed)
        self.maps: list[mmap.mmap] = []
        self.held: list[int] = []
        self.count = 0
        self.new_names: set[str] = set()
        """Second names that nobody has looked at yet. One is added once it is there: were it added before, we could be
        stopped, looked at and continued before it is made, and it would pass for seen.
        """

    def directories(self, top: Path) -> list[Path]:
        return [Path(parent) for parent, _, _ in os.walk(top)]

    def directory(self) -> Path:
        return self.rng.choice(self.directories(self.root))

    def file(self) -> Path | None:
        files = [Path(parent) / name for parent, _, names in os.walk(self.root) for name in names]
        files = [path for path in files if path.name not in self.new_names]
        files = [path for path in files if path.is_file() and not path.is_symlink()]
        return self.rng.choice(files) if files else None

    def free(self) -> Path:
        self.count += 1
        suffix = f"-{self.count}" if self.rng.random() < 0.5 else ""
        return self.directory() / (self.rng.choice(NAMES) + suffix)

    def link(self, path: Path) -> None:
        """Give a file a second name."""
        self.count += 1
        other = self.directory() / f"linked-{self.count}"
        os.link(path, other)
        self.new_names.add(other.name)

    def data(self) -> bytes:
        return self.rng.randbytes(self.rng.choice((0, 1, 10, 4096, 20_000)))

    # What happens

    def write(self) -> None:
        self.free().write_bytes(self.data())

    def edit(self) -> None:
        if path := self.file():
            with path.open("r+b") as file:
                file.write(self.rng.randbytes(3))

    def edit_and_put_back_the_time(self) -> None:
        if path := self.file():
            before = path.stat()
            if before.st_size:
                with path.open("r+b") as file:
                    file.write(self.rng.randbytes(1))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def replace(self) -> None:
        if path := self.file():
            fresh = path.with_name("fresh.tmp")
            fresh.write_bytes(self.data())
            fresh.replace(path)

    def replace_from_outside(self) -> None:
        if path := self.file():
            fresh = self.outside / "fresh"
            fresh.write_bytes(self.data())
            fresh.replace(path)

    def delete(self) -> None:
        if path := self.file():
            path.unlink()

    def mkdir(self) -> None:
        (self.directory() / self.rng.choice("abc") / self.rng.choice("de") / self.rng.choice("fg")).mkdir(parents=True)

    def mkdir_and_fill(self) -> None:
        top = self.directory() / f"deep{self.count}"
        self.count += 1
        for name in ("a", "b/c", "b/d/e"):
            (top / name).mkdir(parents=True)
            (top / name / "f").write_bytes(self.data())

    def rename_directory(self) -> None:
        source, target = self.directory(), self.directory()
        if source != self.root:
            source.rename(target / f"moved{self.count}")
            self.count += 1

    def swap_directories(self) -> None:
        one, other = self.directory(), self.directory()
        if self.root not in (one, other) and one not in other.parents and other not in one.parents and one != other:
            aside = self.outside / "aside"
            one.rename(aside)
            other.rename(one)
            aside.rename(other)

    def move_out_change_and_move_back(self) -> None:
        source = self.directory()
        if source == self.root:
            return
        away = self.outside / "away"
        source.rename(away)
        for path in away.iterdir():
            if path.is_file() and not path.is_symlink() and path.name not in self.new_names:
                path.write_bytes(self.data())
        (away / "while away").write_bytes(self.data())
        away.rename(source)

    def move_in_from_outside(self) -> None:
        fresh = self.outside / f"in{self.count}"
        (fresh / "x" / "y").mkdir(parents=True)
        (fresh / "x" / "f").write_bytes(self.data())
        fresh.rename(self.directory() / fresh.name)
        self.count += 1

    def move_out_for_good(self) -> None:
        source = self.directory()
        if source != self.root:
            source.rename(self.outside / f"gone{self.count}")
            self.count += 1

    def remove_and_make_again(self) -> None:
        path = self.directory()
        if path != self.root:
            shutil.rmtree(path)
            path.mkdir()
            (path / "again").write_bytes(self.data())

    def remove_tree(self) -> None:
        path = self.directory()
        if path != self.root:
            shutil.rmtree(path)

    def link_inside(self) -> None:
        if path := self.file():
            self.link(path)

    def link_from_outside(self) -> None:
        outside = self.outside / f"linked{self.count % 3}"
        if not outside.exists():
            outside.write_bytes(self.data())
        self.link(outside)

    def write_through_outside_link(self) -> None:
        for number in range(3):
            outside = self.outside / f"linked{number}"
            if outside.exists():
                with outside.open("r+b") as file:
                    file.write(self.rng.randbytes(2))

    def symlink(self) -> None:
        self.free().symlink_to(self.rng.choice(("a", "..", "/etc", "b/c")))

    def fifo(self) -> None:
        os.mkfifo(self.directory() / f"fifo{self.count}")  # a name that nobody opens
        self.count += 1

    def chmod(self) -> None:
        path = self.file() if self.rng.random() < 0.5 else self.directory()
        if path:
            path.chmod(self.rng.choice((0o700, 0o750, 0o777)))

    def chown(self) -> None:
        if (path := self.file()) and os.geteuid() == 0:
            os.chown(path, self.rng.randrange(3), self.rng.randrange(3))

    def utime(self) -> None:
        path = self.file() if self.rng.random() < 0.5 else self.directory()
        if path:
            os.utime(path, ns=(1, self.rng.randrange(10**18)))

    def xattr(self) -> None:
        path = self.file() if self.rng.random() < 0.5 else self.directory()
        if path:
            os.setxattr(path, "user.note", self.rng.randbytes(3))

    def map(self) -> None:
        path = self.file()
        if path and path.stat().st_size and len(self.maps) < 4:
            with path.open("r+b") as file:
                self.maps.append(mmap.mmap(file.fileno(), 0))

    def store_in_maps(self) -> None:
        for mapped in self.maps:
            if mapped.size() >= len(mapped):  # else the file was cut off, and the store would kill us
                mapped[self.rng.randrange(len(mapped))] = self.rng.randrange(256)

    def unmap(self) -> None:
        if self.maps:
            self.maps.pop(0).close()

    def hold(self) -> None:
        path = self.file()
        if path and len(self.held) < 4:
            self.held.append(os.open(path, os.O_RDWR))

    def write_held(self) -> None:
        for fd in self.held:
            os.pwrite(fd, self.rng.randbytes(2), 0)

    def unlink_held(self) -> None:
        """The file lives on under another name, and is written through the name that is gone."""
        path = self.file()
        if path and len(self.held) < 6:
            fd = os.open(path, os.O_RDWR)
            self.link(path)
            path.unlink()
            self.held.append(fd)

    def let_go(self) -> None:
        if self.held:
            os.close(self.held.pop(0))

    def burst(self) -> None:
        """More than the kernel queues, and some of it after the queue is full."""
        files = [self.root / name for name in ("burst a", "burst b")]
        for path in files:
            path.write_bytes(b"x")
        for number in range(BURST):
            os.utime(files[number % 2])
        for _ in range(20):
            self.step()

    def step(self) -> str:
        name = self.rng.choice(ACTS)
        act: Callable[[], None] = getattr(self, name)
        try:
            act()
        except OSError as error:  # into itself, not empty, not there any more
            return f"{name}:{error.errno}"
        return name


ACTS = [
    name
    for name in vars(Mutator)
    if name not in ("directories", "directory", "file", "free", "link", "data", "burst", "step")
    and not name.startswith("_")
]


def main() -> None:
    mutator = Mutator(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))
    signal.signal(signal.SIGCONT, lambda *_: mutator.new_names.clear())
    for _ in range(60):
        mutator.step()
    print("ready", flush=True)
    while True:
        print(mutator.step(), flush=True)
        if asked:
            mutator.burst()
            print("burst", asked.pop(), flush=True)
        while sum(1 for _ in os.walk(mutator.root)) > 60:
            mutator.remove_tree()


if __name__ == "__main__":
    main()
