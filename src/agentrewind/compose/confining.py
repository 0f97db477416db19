"""The sandbox of a run: what was asked for, whether that works here, and where it is kept."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

from agentrewind.compose.home import Home
from agentrewind.compose.places import user_home
from agentrewind.core.errors import NO_ROOM, StorageFull, UsageError
from agentrewind.integrations.sandbox import cgroups, probe
from agentrewind.integrations.sandbox.side import prepare
from agentrewind.integrations.sandbox.spec import Confinement, Kind, Sandbox
from agentrewind.integrations.sandbox.view import shows, tools_of

CHOICES = ("auto", *get_args(Kind))
VARIABLE = "AGENTREWIND_SANDBOX"

LOST = (
    "Commands of the agent run without a sandbox: they can read and change whatever you can, and use the network; what"
    " they change outside of the workspace is not saved, and no rewind brings it back."
)


def chosen(kind: str, confinement: Confinement, *, outlasting: bool = False) -> tuple[Confinement, tuple[str, ...]]:
    """The confinement that is to be, and what its user has to be told.

    Raises:
        UsageError: what was asked for doesn't work here, with what to do.
    """
    if kind == "auto":
        found = probe.bubblewrap()
        if found.works:
            return replace(confinement, kind="session" if outlasting else "bwrap"), ()
        why = f"{LOST} ({found.what}.)" + (f" {found.remedy}" if found.remedy else "")
        return replace(confinement, kind="none"), (f"{why} `--sandbox none` says that this is what you want.",)
    confinement = replace(confinement, kind=cast("Kind", kind))
    check(confinement)
    return confinement, ()


def check(confinement: Confinement) -> None:
    """Raises: UsageError: it doesn't work here."""
    kind = confinement.kind
    if kind == "none":
        return
    found = probe.bubblewrap() if kind in ("bwrap", "session") else probe.engine(kind)
    if not found.works:
        remedy = f" {found.remedy}" if found.remedy else ""
        raise UsageError(f"--sandbox {kind} doesn't work here: {found.what}.{remedy}")
    for path in confinement.readable:
        if not os.path.exists(path):
            raise UsageError(f"There is nothing at {path}, which commands are to be allowed to read.")


@dataclass(frozen=True, slots=True)
class Confined:
    """A sandbox that is ready; `pids` are its processes that are no part of the agent's doing."""

    sandbox: Sandbox | None
    pids: tuple[int, ...] = ()


@contextmanager
def confined(
    home: Home,
    run_id: str,
    workspace: Path,
    confinement: Confinement,
    *,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> Iterator[Confined]:
    """The sandbox of a run, ready for its first command; afterwards nothing of it runs.

    Where the run came to nothing, nothing is left of its sandbox.

    Raises:
        UsageError: it can't be made. AgentError: its session can't be started.
    """
    if confinement.kind == "none":
        yield Confined(None)
        return
    check(confinement)
    try:
        sandbox = _made(home, run_id, workspace, confinement, environ)
    except BaseException:
        _without_a_run(home, run_id)
        raise
    if os.geteuid() == 0 and workspace.stat().st_uid != 0:
        say(
            f"{workspace} isn't root's, and in the sandbox root has no power over the files of others: the agent may"
            " not be able to change them. Run agentrewind as their owner."
        )
    try:
        yield from _running(sandbox, environ)
    finally:
        cgroups.removed(sandbox.cgroup)
        _without_a_run(home, run_id)


def _without_a_run(home: Home, run_id: str) -> None:
    if not home.run_dir(run_id).exists():
        forget(home, run_id)


def _running(sandbox: Sandbox, environ: Mapping[str, str]) -> Iterator[Confined]:
    if sandbox.confinement.kind != "session":
        yield Confined(sandbox)
        return
    from agentrewind.integrations.sandbox.session import Session

    session = Session(sandbox, environ)
    try:
        yield Confined(sandbox, session.pids)
    finally:
        session.close()


def _made(home: Home, run_id: str, workspace: Path, confinement: Confinement, environ: Mapping[str, str]) -> Sandbox:
    home.made()
    own, ours = str(user_home()), os.path.realpath(home.root)
    tools = tools_of(environ, own, str(workspace))
    if confinement.kind == "session":
        from agentrewind.integrations.sandbox.session import installation

        tools = (*tools, *installation())
    sandbox = Sandbox(
        confinement,
        str(workspace),
        str(home.sandbox_of(run_id)),
        place=confinement.place,
        tools=tuple(path for path in dict.fromkeys(tools) if path != own),
        hidden=(ours, own, *confinement.hidden),
        cgroup=cgroups.made(run_id, confinement.limits) if confinement.kind in ("bwrap", "session") else (),
    )
    try:
        prepare(sandbox)
    except OSError as error:
        cgroups.removed(sandbox.cgroup)
        if error.errno in NO_ROOM:
            raise StorageFull(f"No room for the sandbox in {sandbox.side}. Nothing was begun; free some.") from error
        raise UsageError(f"The sandbox can't be kept in {sandbox.side}: {error.strerror}.") from error
    return sandbox


def seen(check: str | None, sandbox: Sandbox | None) -> None:
    """Raises: UsageError: the check names something that is there and that the sandbox, in which it runs, doesn't show.

    What it runs may be what the agent wrote, so it runs where the agent's commands do.
    """
    if check is None or sandbox is None or sandbox.confinement.kind in ("docker", "podman"):
        return
    with suppress(ValueError):
        for word in shlex.split(check):
            if os.path.isabs(word) and os.path.exists(word) and not shows(sandbox, word):
                raise UsageError(
                    f"The check names {word}, which the sandbox doesn't show: allow it with --sandbox-read"
                    f" {shlex.quote(os.path.dirname(word))}, or put it into the workspace."
                )


def forget(home: Home, run_id: str) -> None:
    """Remove the side directory of a run, whatever modes its commands gave to what is in it."""

    def unlocked(function: Callable[..., object], path: str, _: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            if not os.path.islink(path) and os.path.isdir(path):
                os.chmod(path, stat.S_IRWXU)
                shutil.rmtree(path, ignore_errors=True)
            else:
                function(path)

    shutil.rmtree(home.sandbox_of(run_id), onerror=unlocked)
