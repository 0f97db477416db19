r"""A command in the foreground of the user's terminal, as if it had been started by the shell itself.

It is in our process group: what the terminal sends (Ctrl-C, Ctrl-\, Ctrl-Z, a change of size, a hang-up) reaches it
without us. What somebody sends to us alone is sent on to it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from agentrewind.core.errors import UsageError

PASSED_ON = frozenset(
    {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM}
)
_WAITED_FOR = PASSED_ON | {signal.SIGCHLD}
_FROM_KERNEL = 0x80
"""`SI_KERNEL` (sigaction(2)): the terminal sent it, and so to all of its foreground group."""
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


@contextmanager
def signals_held() -> Iterator[set[int]]:
    """Inside, this thread keeps signals for `sigwaitinfo`; gives the mask that was, for programs that are started."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    ends = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started us may ignore it; then nothing would come
    try:
        yield set(before)
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if ends is None else ends)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_child(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command to its end, with our standard streams; its exit code, 128 + n where signal n ended it.

    While it runs, processes that it leaves behind (they come to us, the subreaper) are waited for too.

    Raises:
        UsageError: it can't be started.
    """
    with signals_held() as mask:
        pid = _start(command, environ, mask)
        status = None
        while status is None:
            got = signal.sigwaitinfo(_WAITED_FOR)
            if got.si_signo == signal.SIGCHLD:
                status = _reap(pid)
            elif got.si_code != _FROM_KERNEL:
                with suppress(ProcessLookupError):
                    os.kill(pid, got.si_signo)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _start(command: Sequence[str], environ: Mapping[str, str], mask: set[int]) -> int:
    try:
        return os.posix_spawnp(command[0], list(command), environ, setsigmask=mask, setsigdef=_PYTHON_IGNORES)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{command[0]!r} can't be started: {why}.") from error


def _reap(child: int) -> int | None:
    """Wait for all that has ended; the status of `child` where it is among them."""
    found = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                found = status
    return found


def describe(code: int) -> str:
    """How a command ended, as a sentence."""
    if code <= 128:  # noqa: PLR2004 (a shell's way to say which signal)
        return f"The command ended with exit code {code}."
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return f"The command ended with exit code {code}."
    return f"The command was ended by {name}."
