"""Where the programs of a task run: the reference, the checks. A sandbox is handed in from above; this is the shape."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentrewind.engine.commands import UNCONFINED, CommandResult, Commands


@dataclass(frozen=True, slots=True)
class Room:
    """A place with a workspace in it, in which commands run."""

    commands: Commands
    workspace: Path
    """On the host."""
    at: str
    """The path of the workspace as the commands see it."""

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run a command in the workspace, with an environment that is the same on every machine."""
        return self.commands.run(command, cwd=self.workspace, environ=environ(), timeout_s=timeout_s)


class Rooms(Protocol):
    """Makes rooms."""

    def __call__(
        self, workspace: Path, *, at: str, read_only: bool = False, readable: Sequence[Path] = ()
    ) -> AbstractContextManager[Room]:
        """A room around a workspace, which is seen at `at` if that can be; what is `readable` keeps its path.

        With `read_only` nothing that runs inside can change the workspace.
        """


@contextlib.contextmanager
def unconfined(workspace: Path, *, at: str, read_only: bool = False, readable: Sequence[Path] = ()) -> Iterator[Room]:
    """Without a sandbox, for machines that have none: the workspace keeps its path, and a copy is what is read only."""
    del at, readable
    if not read_only:
        yield Room(UNCONFINED, workspace, str(workspace))
        return
    with tempfile.TemporaryDirectory(prefix="agentrewind-judged-") as place:
        copy = Path(place) / "app"
        copy_of(workspace, copy)
        yield Room(UNCONFINED, copy, str(copy))


def copy_of(workspace: Path, target: Path) -> None:
    """Copy all that can be copied: a pipe, or what may not be read, is left out. Names of one file stay that."""
    with contextlib.suppress(shutil.Error):  # raised at the end, when the rest is there
        shutil.copytree(workspace, target, symlinks=True, copy_function=_Copier())


class _Copier:
    """Copies a file, or links it where it was copied under another name."""

    def __init__(self) -> None:
        self._copied: dict[tuple[int, int], str] = {}

    def __call__(self, source: str, target: str) -> None:
        status = os.stat(source, follow_symlinks=False)
        first = self._copied.setdefault((status.st_dev, status.st_ino), target)
        if first == target:
            shutil.copy2(source, target, follow_symlinks=False)
        else:
            os.link(first, target)


def environ() -> dict[str, str]:
    """The variables that everything of a task runs with: nothing of the user's settings plays a part."""
    first = os.path.join(os.path.realpath(sys.base_prefix), "bin")
    return {
        "PATH": os.pathsep.join(dict.fromkeys((first, "/usr/local/bin", "/usr/bin", "/bin"))),
        "HOME": tempfile.gettempdir(),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def python() -> str:
    """The interpreter that runs builders and checks, outside of any virtual environment."""
    return os.path.realpath(sys.executable)
