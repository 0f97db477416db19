"""Running one shell command for an agent: it can't wait for input, can't hang us through a child, can't flood us."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

OUTPUT_LIMIT = 100_000
"""How many bytes of a command's output are kept by default."""
GRACE_S = 2.0
"""How long a command that must end may take after TERM before KILL."""
TIMED_OUT = 124
"""The exit code of a command that was ended by its time-out, as that of timeout(1)."""
CANNOT_START = 126
"""The exit code of a command that could not be started, as that of a shell."""

_LATE_OUTPUT_S = 0.1
_POLL_S = 0.02
_LONGEST_WAIT_S = 3600.0  # poll(2) takes no more than 24 days
_CHUNK = 65_536
_ARGUMENT_LIMIT = 120_000
_REDIRECTIONS = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""What points git at another repository (`git rev-parse --local-env-vars`, less what is only configuration)."""
_KEY = re.compile(
    r"(^|_)API_?KEYS?$|_API_TOKEN$|_AUTH_TOKEN$|^HF_TOKEN$|^HUGGING_FACE_HUB_TOKEN$|^AWS_BEARER_TOKEN_BEDROCK$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `output` is stdout and stderr together, in the order of writing.

    `exit_code` is 128 + n for one that died of signal n, 124 after a time-out, 126 where it could not start.
    """

    exit_code: int
    output: str
    truncated: bool
    timed_out: bool
    seconds: float


def run_command(
    command: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    timeout_s: float | None = None,
    output_limit: int = OUTPUT_LIMIT,
    pass_keys: Collection[str] = (),
) -> CommandResult:
    """Run `command` in a shell and return when it has ended, even if children of it live on and hold its output.

    The command has no input, a session of its own and `command_environ(environ, pass_keys)`. A child that it leaves
    running keeps running, and may go on writing to an output that nobody reads. Of an output longer than
    `output_limit` bytes the head and the tail are returned, and a line between them that says how much is missing.

    A time-out, and any exception (Ctrl-C), ends the process group of the command: TERM, then KILL.
    """
    begun = time.monotonic()
    kept = _Kept(output_limit)
    try:
        with _shell(command) as words:
            exit_code, timed_out = _run(words, cwd, command_environ(environ, pass_keys, cwd), timeout_s, kept)
    except (OSError, ValueError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        kept.add(f"The command could not be started in {cwd}: {why}.\n".encode(errors="replace"))
        exit_code, timed_out = CANNOT_START, False
    return CommandResult(exit_code, kept.text(), kept.left_out > 0, timed_out, time.monotonic() - begun)


def command_environ(
    environ: Mapping[str, str], pass_keys: Collection[str] = (), cwd: Path | None = None
) -> dict[str, str]:
    """`environ` for a command: no model provider's keys but those named, no pagers, no prompts, no foreign git."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _REDIRECTIONS and (name in pass_keys or not _KEY.search(name))
    }
    kept |= {"GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "GIT_PAGER": "cat"}
    if cwd is not None:
        kept["PWD"] = str(cwd)
    return kept


@contextlib.contextmanager
def _shell(command: str) -> Iterator[list[bytes | str]]:
    """The words that run `command`. The kernel refuses a word over 128 KiB, so a long one goes through a file."""
    shell = shutil.which("bash") or "sh"
    script = _encoded(command)
    if len(script) < _ARGUMENT_LIMIT:
        yield [shell, "-c", script]
        return
    with tempfile.NamedTemporaryFile(prefix="agentrewind-", suffix=".sh") as file:
        file.write(script)
        file.flush()
        yield [shell, file.name]


def _encoded(command: str) -> bytes:
    try:
        return command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return command.encode("utf-8", "replace")


_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def _run(
    words: list[bytes | str], cwd: Path, environ: dict[str, str], timeout_s: float | None, kept: _Kept
) -> tuple[int, bool]:
    # A pipe and not a file: a program that opens /dev/stdout or /dev/stderr by name would truncate a file, and one
    # that writes without end would fill the disk.
    source, sink = os.pipe()
    try:
        try:
            # A Ctrl-C while it is being started would leave it running with nobody who knows it.
            with _interruptions_held() as held:
                process = subprocess.Popen(
                    words,
                    cwd=cwd,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
                running = _Running(process, source, kept)
        finally:
            os.close(sink)
        return running.finish(timeout_s, held)
    finally:
        os.close(source)


def _hold(
    held: list[Callable[[], object]],
    handler: Callable[[int, FrameType | None], object],
    number: int,
    frame: FrameType | None,
) -> None:
    held.append(functools.partial(handler, number, frame))


@contextlib.contextmanager
def _interruptions_held() -> Iterator[list[Callable[[], object]]]:
    """Inside, what handles Ctrl-C and its like isn't called; the list holds the calls to make up for afterwards."""
    held: list[Callable[[], object]] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    usual = {number: signal.getsignal(number) for number in _INTERRUPTIONS}
    mine = {number: handler for number, handler in usual.items() if callable(handler)}
    for number, handler in mine.items():
        signal.signal(number, functools.partial(_hold, held, handler))
    try:
        yield held
    finally:
        for number, handler in mine.items():
            signal.signal(number, handler)


class _Running:
    """A started command, its output pipe, and what is kept of the output."""

    def __init__(self, process: subprocess.Popen[bytes], source: int, kept: _Kept) -> None:
        os.set_blocking(source, False)
        self._process = process
        self._source = source
        self._kept = kept
        self._open = True
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (OSError, AttributeError):  # an old kernel, a sandbox or another system: we ask every 20 ms
            self._pidfd = -1

    def finish(self, timeout_s: float | None, held: Sequence[Callable[[], object]] = ()) -> tuple[int, bool]:
        """Wait for the end: (exit code, whether we had to end it). `held` is called first; where it raises, we end."""
        try:
            for call in held:
                call()
            ended = self._pump_until_ended(timeout_s)
            if not ended:
                self._end()
        except BaseException:
            self._end()
            raise
        finally:
            code = self._process.wait()
            if self._pidfd >= 0:
                os.close(self._pidfd)
        self._drain()
        if not ended:
            return TIMED_OUT, True
        return (code if code >= 0 else 128 - code), False

    def _pump_until_ended(self, timeout_s: float | None) -> bool:
        """Read output until the command has ended (True) or the time is up (False)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._has_ended():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._wait(left)
            self._read()
        return True

    def _has_ended(self) -> bool:
        """The process is not reaped, so that its number, and that of its group, can't mean another one yet."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _wait(self, seconds: float | None) -> None:
        poll = select.poll()
        if self._open:
            poll.register(self._source, select.POLLIN)
        if self._pidfd >= 0:
            poll.register(self._pidfd, select.POLLIN)
        else:
            seconds = _POLL_S if seconds is None else min(seconds, _POLL_S)
        poll.poll(None if seconds is None else min(seconds, _LONGEST_WAIT_S) * 1000 + 1)

    def _read(self) -> bool:
        """Take one chunk of what is there; whether there was one."""
        try:
            chunk = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return False
        self._kept.add(chunk)
        self._open = bool(chunk)
        return self._open

    def _end(self) -> None:
        try:
            self._signal(signal.SIGTERM)
            self._pump_until_ended(GRACE_S)
        finally:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _drain(self) -> None:
        """Take what was written before the end; leave the pipe to a reader where a child still holds it."""
        deadline = time.monotonic() + _LATE_OUTPUT_S
        while self._open and (left := deadline - time.monotonic()) > 0:
            if not self._read():
                poll = select.poll()
                poll.register(self._source, select.POLLIN)
                poll.poll(left * 1000)
        if self._open:
            _leave_a_reader(self._source)


def _leave_a_reader(source: int) -> None:
    """Start a process that reads `source` to its end and forgets it.

    Without it a server that the command left running would die of SIGPIPE, or block, at its next line of log. It is a
    process of its own because it must outlive us; the shell in between ends at once and is waited for.
    """
    os.set_blocking(source, True)
    with contextlib.suppress(OSError):
        subprocess.run(
            ["sh", "-c", "exec 3<&0 </dev/null; cat <&3 >/dev/null 2>&1 &"],
            cwd="/",
            env={"PATH": os.defpath},
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )


@dataclass(slots=True)
class _Kept:
    """The first and the last half of `limit` bytes of a stream, whatever its length."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = max(self.limit // 2 - len(self._head), 0)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self.limit + _CHUNK:
            del self._tail[: -self.limit]

    @property
    def left_out(self) -> int:
        return max(self.total - self.limit, 0)

    def text(self) -> str:
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        tail = self._tail[len(self._tail) - (self.limit - len(self._head)) :]
        head, tail = _without_torn_end(self._head), _without_torn_start(tail)
        missing = self.total - len(head) - len(tail)
        line = f"\n[... {missing:,} bytes of output left out here ...]\n"
        return head.decode("utf-8", "replace") + line + tail.decode("utf-8", "replace")


def _without_torn_end(data: bytearray) -> bytearray:
    """`data` without a UTF-8 character that the cut tore."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # noqa: PLR2004 the first byte of a character of several
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4  # noqa: PLR2004
            return data[:-back] if size > back else data
        if byte < 0x80:  # noqa: PLR2004
            return data
    return data


def _without_torn_start(data: bytearray) -> bytearray:
    at = 0
    while at < min(3, len(data)) and 0x80 <= data[at] < 0xC0:  # noqa: PLR2004
        at += 1
    return data[at:]
