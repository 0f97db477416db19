"""The workspace of the demo: the library in `shelfmark-1.1/`, six received records made on the spot, a git history."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

RECORDS = Path("tests/records")
RECEIVED = RECORDS / "received"
NANOSECONDS = 1_000_000_000
_DATE = "2026-01-05T09:00:00+00:00"


@dataclass(frozen=True, slots=True)
class Original:
    """What a file was before anything ran: taken here, apart from any snapshot."""

    path: Path
    sha256: str
    mtime_ns: int
    mode: int

    @classmethod
    def of(cls, root: Path, path: Path) -> Original:
        status = os.lstat(root / path)
        return cls(path, hashlib.sha256((root / path).read_bytes()).hexdigest(), status.st_mtime_ns, status.st_mode)


def lay_out(root: Path) -> tuple[Original, ...]:
    """Put the library into `root`, which is empty or doesn't exist, and return what the received records are.

    Each of these holds random bytes in the very place that a repair drops, so no copy of them exists anywhere.
    """
    for path, content in _shipped(files(__package__) / "shelfmark-1.1"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    received = _received()
    (root / RECEIVED).mkdir()
    for number, (name, content) in enumerate(received.items(), 1):
        (root / RECEIVED / name).write_bytes(content)
        came_ns = (500_000_000 + number * 2_345_678) * NANOSECONDS + number * 111_111_111
        os.utime(root / RECEIVED / name, ns=(came_ns, came_ns))
    originals = tuple(Original.of(root, RECEIVED / name) for name in received)
    seals = "".join(f"{item.sha256} {item.mtime_ns} {item.path.name}\n" for item in originals)
    (root / RECORDS / "SEALS").write_text(seals, encoding="utf-8")
    _commit(root)
    return originals


def _shipped(directory: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for item in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if item.name == "__pycache__":
            continue
        name = prefix + item.name.replace("dot_", ".", 1)
        if item.is_dir():
            yield from _shipped(item, name + "/")
        else:
            yield name, item.read_bytes()


def _received() -> dict[str, bytes]:
    """Six records, each with one defect."""
    return {
        "boat.rec": b"mark: VM321 .B6\ntitle: A boat of planks\nreceived: 1985-12-02\nnote: " + _random_text(),
        "drums.rec": b"mark: QA76.9 .D35\ntitle: " + _random_text() + b"\ntitle: Drums\n" + _end("1986-02-01"),
        "eclipse.rec": b"mark: QB541 .E2\ntitle: The eclipse of " + _random_text() + b"\n%%\n",
        "facade.rec": b"mark: NA2840 .F3\ntitle: Fa\xe7ade\nnote: " + _high_bytes() + b"\n" + _end("1986-04-27"),
        "garden.rec": b"mark: SB453 .G37\ntitle: A garden\n" + _mixed_lines() + _end("1986-05-24"),
        "harbour.rec": b"mark: VK369 .H4\ntitle: Harbour lights\n" + _end("1986-06-20") + _high_bytes(),
    }


def _end(received: str) -> bytes:
    return b"received: " + received.encode() + b"\n%%\n"


def _random_text() -> bytes:
    return secrets.token_hex(16).encode()


def _high_bytes() -> bytes:
    return bytes(0xC0 | byte & 0x3F for byte in secrets.token_bytes(48))


def _mixed_lines() -> bytes:
    """A note of many lines; which of them end in CR LF is a matter of chance, but the first does."""
    ends = [1, *(byte & 1 for byte in secrets.token_bytes(63))]
    return b"".join(b"note: bed %d%s" % (number, b"\r\n" if end else b"\n") for number, end in enumerate(ends, 1))


def _commit(root: Path) -> None:
    """Make it a git repository with one commit, where there is a git that can. The received records are ignored."""
    git = shutil.which("git")
    if git is None:
        return
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Version 1.1"]):
        command = [git, "-c", "init.defaultBranch=main", *words]
        if subprocess.run(command, cwd=root, env=_git_environ(root), check=False, capture_output=True).returncode:
            shutil.rmtree(root / ".git", ignore_errors=True)
            return


def _git_environ(root: Path) -> dict[str, str]:
    """Nothing of the user's git plays a part: no hooks, no signing, no templates, no name."""
    person = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Shelf Mark"), ("EMAIL", "shelf@example.org"), ("DATE", _DATE))
    }
    return person | {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(root),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TEMPLATE_DIR": "",
    }
