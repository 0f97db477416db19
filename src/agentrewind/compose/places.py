"""Which directory may be a workspace, and what its own settings say."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from agentrewind.compose.home import HOME_VARIABLE, Home
from agentrewind.core.errors import WorkspaceRefused

ALLOW_WORD = "--allow-home"


def workspace_path(path: str | os.PathLike[str], home: Home, *, allow_home: bool = False) -> Path:
    """The real path of a directory that may be a workspace.

    Raises:
        WorkspaceRefused: its name is empty; it isn't a directory of ours; it is `/`; it holds the home directory,
            without the explicit word for that; or it and our own directory lie inside each other.
    """
    real = Path(os.path.realpath(named(path, "workspace")))
    if not real.exists():
        raise WorkspaceRefused(f"There is no directory {os.fspath(path)!r}. A workspace must exist already.")
    if not real.is_dir():
        raise WorkspaceRefused(f"{os.fspath(path)!r} is not a directory. A workspace is one.")
    if not os.access(real, os.R_OK | os.W_OK | os.X_OK):
        raise WorkspaceRefused(f"You may not read and write {os.fspath(path)!r}. Choose a workspace that is yours.")
    if real == Path(real.anchor):
        raise WorkspaceRefused("/ is the whole machine. Name the directory of one project as the workspace.")
    broad = _holds_home(real)
    if broad and not allow_home:
        raise WorkspaceRefused(
            f"{real} is {broad}: every step would save all of it, and a rewind would change all of it. Name the"
            f" directory of one project, or say {ALLOW_WORD} if that is what you want."
        )
    _apart(real, Path(os.path.realpath(home.root)))
    return real


def named(path: str | os.PathLike[str], what: str) -> Path:
    """The path that somebody gave; an empty one, of an unset variable say, means nothing and not the current directory.

    Raises:
        WorkspaceRefused: it is empty.
    """
    if not os.fspath(path):
        raise WorkspaceRefused(f"The name of the {what} is empty. Name a directory; `.` is the current one.")
    return Path(path)


def user_home() -> Path:
    """The real path of the home directory of this user."""
    named = os.environ.get("HOME")
    if not named:
        try:
            named = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            named = "/"
    return Path(os.path.realpath(named))


def _holds_home(real: Path) -> str:
    users = user_home()
    if real == users:
        return "your home directory"
    return "above your home directory" if real in users.parents else ""


def _apart(workspace: Path, ours: Path) -> None:
    if workspace == ours or ours in workspace.parents:
        raise WorkspaceRefused(
            f"{workspace} lies inside {ours}, where agentrewind keeps its own data. Choose another workspace."
        )
    if workspace in ours.parents:
        raise WorkspaceRefused(
            f"agentrewind keeps its data in {ours}, inside the workspace {workspace}, and would save itself."
            f" Set {HOME_VARIABLE} to a directory outside of it."
        )
