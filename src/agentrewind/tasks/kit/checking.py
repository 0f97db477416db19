"""For the checks of a task: looking at a workspace that somebody else has worked in, where anything may be wrong.

A check is a function of an `App` that returns where its criterion holds and raises `Unsatisfied` where it doesn't. Any
other exception means that the check itself is broken: so whatever an agent may have left, the methods here turn it into
`Unsatisfied`. The workspace can't be written; `scratch` makes a copy that can.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_LARGEST = 64 << 20
_RUN_S = 40.0


class Unsatisfied(Exception):
    """The criterion doesn't hold; the text says why, for the runner."""


def need(condition: object, why: str) -> None:
    """Raises: Unsatisfied: the condition doesn't hold."""
    if not condition:
        raise Unsatisfied(why)


def same(found: object, wanted: object, what: str) -> None:
    """Raises: Unsatisfied: they differ, in value or in type."""
    need(type(found) is type(wanted) and found == wanted, f"{what} is {found!r:.300} and should be {wanted!r:.300}")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Done:
    """How a program ended."""

    code: int
    out: str
    err: str


class App:
    """A workspace, and the values that it is measured by."""

    def __init__(self, root: str, expected_file: str) -> None:
        self.root = Path(root)
        self._expected_file = expected_file

    @functools.cached_property
    def expected(self) -> Any:
        """The frozen values of the task."""
        return json.loads(Path(self._expected_file).read_text(encoding="utf-8"))["values"]

    # --- files

    def data(self, path: str) -> bytes:
        """The bytes of a regular file."""
        whole = self.root / path
        try:
            need(whole.is_file(), f"there is no file {path}")
            need(whole.stat().st_size <= _LARGEST, f"{path} is huge")
            return whole.read_bytes()
        except (OSError, ValueError) as error:
            raise Unsatisfied(f"{path} can't be read: {error}") from error

    def digest(self, path: str) -> str:
        return sha256(self.data(path))

    def text(self, path: str) -> str:
        try:
            return self.data(path).decode()
        except UnicodeDecodeError as error:
            raise Unsatisfied(f"{path} is no UTF-8") from error

    def json(self, path: str) -> Any:
        try:
            return json.loads(self.text(path))
        except (ValueError, RecursionError) as error:
            raise Unsatisfied(f"{path} is no JSON: {error}") from error

    def rows(self, path: str, columns: Sequence[str]) -> list[dict[str, str]]:
        """The rows of a CSV file with exactly these columns."""
        try:
            reader = csv.reader(io.StringIO(self.text(path), newline=""), strict=True)
            head, *rows = list(reader) or [[]]
        except csv.Error as error:
            raise Unsatisfied(f"{path} is no CSV: {error}") from error
        same(head, list(columns), f"the head of {path}")
        need(all(len(row) == len(head) for row in rows), f"{path} has a row with another number of columns")
        return [dict(zip(head, row, strict=True)) for row in rows]

    def names(self, path: str, pattern: str = "*") -> list[str]:
        """The names of the files right in a directory, sorted; none where there is no such directory."""
        try:
            return sorted(item.name for item in (self.root / path).glob(pattern) if item.is_file())
        except OSError as error:
            raise Unsatisfied(f"{path} can't be listed: {error}") from error

    # --- programs

    def run(self, *words: str, at: str = "", data: bytes = b"", timeout_s: float = _RUN_S) -> Done:
        """Run a program in the workspace. One that hangs, or can't be started, leaves the criterion unsatisfied."""
        try:
            done = subprocess.run(
                words, cwd=self.root / at, input=data, capture_output=True, timeout=timeout_s, check=False
            )
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            raise Unsatisfied(f"{words[:3]} could not be run: {error}") from error
        return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def python(self, *words: str, at: str = "", data: bytes = b"") -> Done:
        return self.run(sys.executable, "-B", *words, at=at, data=data)

    def answers(self, probe: str, data: bytes, who: str) -> Any:
        """What a Python program that tries `who` prints when it is given `data`: as JSON, or as text where it is none.

        Raises: Unsatisfied: it breaks off.
        """
        done = self.python("-c", probe, data=data)
        need(done.code == 0, f"{who} breaks off: {done.err[-600:]}")
        try:
            return json.loads(done.out)
        except ValueError:
            return done.out

    def tests_pass(self, directory: str, at: str = "") -> None:
        """Raises: Unsatisfied: the unit tests there don't pass, or there are none."""
        done = self.python("-m", "unittest", "discover", "-s", directory, at=at)
        need(done.code == 0 and re.search(r"^Ran [1-9]", done.err, re.MULTILINE), f"unit tests: {done.err[-800:]}")

    def git(self, repository: str, *words: str, data: bytes = b"") -> bytes:
        """What git prints about a repository in the workspace, when it is given `data`."""
        settings = ["-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
        command = ["git", *settings, *words]
        try:
            where = self.root / repository
            done = subprocess.run(command, cwd=where, input=data, capture_output=True, timeout=_RUN_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unsatisfied(f"git {words[0]} in {repository}: {error}") from error
        need(
            done.returncode == 0,
            f"git {' '.join(words)[:200]} in {repository}: {done.stderr.decode(errors='replace')[-300:]}",
        )
        return done.stdout

    @contextmanager
    def scratch(self, *paths: str) -> Iterator[App]:
        """A copy of the workspace, or of these paths of it, that can be written."""
        with tempfile.TemporaryDirectory() as place:
            target = Path(place) / "app"
            try:
                for path in paths or (".",):
                    _copy(self.root / path, target / path)
            except OSError as error:
                raise Unsatisfied(f"the workspace can't be copied: {str(error)[:300]}") from error
            try:
                yield App(str(target), self._expected_file)
            except Unsatisfied as unmet:  # what it says must not depend on where the copy was
                raise Unsatisfied(str(unmet).replace(place, "")) from unmet

    @contextmanager
    def database(self, path: str) -> Iterator[sqlite3.Connection]:
        """A copy of an SQLite database, with what lies beside it; what goes wrong inside leaves it unsatisfied."""
        beside = [path + end for end in ("-wal", "-shm", "-journal") if (self.root / (path + end)).is_file()]
        self.data(path)
        with self.scratch(path, *beside) as copy:
            try:
                with closing(sqlite3.connect(copy.root / path)) as connection:
                    connection.row_factory = sqlite3.Row
                    yield connection
            except sqlite3.Error as error:
                raise Unsatisfied(f"{path}: {error}") from error


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        with suppress(shutil.Error):  # raised at the end: all is there but what nobody can copy, a pipe for example
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def field(value: Any, path: str, kind: type[T]) -> T:
    """What stands at `a.b.c` in parsed JSON. Raises: Unsatisfied: nothing does, or something of another type."""
    for name in path.split("."):
        need(isinstance(value, Mapping) and name in value, f"there is no {path}")
        value = value[name]
    need(type(value) is kind, f"{path} is {value!r:.200}, which is no {kind.__name__}")
    found: T = value
    return found


def objects(value: Any, what: str) -> list[dict[str, Any]]:
    """A parsed list of JSON objects. Raises: Unsatisfied: it is something else."""
    need(isinstance(value, list) and all(isinstance(item, dict) for item in value), f"{what} is no list of objects")
    found: list[dict[str, Any]] = value
    return found


def line_of(text: str, key: str) -> str:
    """What a line `key: value` of a text says; `- ` or `* ` before it and `**` or backticks around it don't matter.

    Raises:
        Unsatisfied: there is no such line, or more than one.
    """
    pattern = rf"^[ \t]*(?:[-*][ \t]+)?[*`]*{re.escape(key)}[*`]*:[*`]*[ \t]*(.*?)[ \t]*$"
    found = re.findall(pattern, text, re.MULTILINE | re.IGNORECASE)
    need(len(found) == 1, f"there are {len(found)} lines `{key}: ...`")
    return str(found[0]).strip("`*")


def inside(root: Path, path: str) -> bool:
    """Whether something is there, be it a link that leads nowhere."""
    return os.path.lexists(root / path)
