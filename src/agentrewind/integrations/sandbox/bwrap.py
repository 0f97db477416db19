"""The words that start bubblewrap."""

from __future__ import annotations

from collections.abc import Iterator

from agentrewind.integrations.sandbox.spec import Sandbox
from agentrewind.integrations.sandbox.view import Mount, view

PROGRAM = "bwrap"


def words(sandbox: Sandbox, cwd: str, *, seccomp: int, status: int, nested: bool, lasting: bool = False) -> list[str]:
    """Bubblewrap with all its options; the command follows.

    `seccomp` and `status` are descriptors: of the filter (-1: there is none for this machine), and for the number of
    the first process inside. `nested`: this bubblewrap can refuse user namespaces inside (from 0.8 on). `lasting`: it
    stays when the thread that started it ends, and its first process is the command.
    """
    return [
        PROGRAM,
        # Not only by the filter: with a user namespace come all the capabilities in it. Without one (a setuid
        # bubblewrap) there would be no sandbox: it is asked for, and not only tried.
        *("--unshare-all", "--unshare-user", "--new-session", "--cap-drop", "ALL"),
        *(["--disable-userns"] if nested else []),
        *(["--as-pid-1"] if lasting else ["--die-with-parent"]),
        *(["--share-net"] if sandbox.confinement.network else []),
        *("--hostname", "sandbox"),
        *("--proc", "/proc", "--dev", "/dev"),  # first: something that is seen may lie below /dev/shm
        *(word for mount in view(sandbox) for word in _mounted(mount)),
        *("--dir", "/var", "--symlink", "../tmp", "/var/tmp"),  # noqa: S108 (inside)
        *("--dir", "/run", "--symlink", "../run", "/var/run"),
        # As the real root one may write below /proc/sys without any capability.
        *("--remount-ro", "/proc", "--remount-ro", "/"),
        *(["--seccomp", str(seccomp)] if seccomp >= 0 else []),
        *("--json-status-fd", str(status)),
        *("--chdir", cwd),
        "--",
    ]


def _mounted(mount: Mount) -> Iterator[str]:
    match mount.how:
        case "read":
            yield from ("--ro-bind", mount.source, mount.at)
        case "write":
            yield from ("--bind", mount.source, mount.at)
        case "link":
            yield from ("--symlink", mount.source, mount.at)
        case "nothing":
            yield from ("--tmpfs", mount.at, "--remount-ro", mount.at)
