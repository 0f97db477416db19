"""Running one shell command for an agent: it can't wait for input, can't hang us through a child, can't flood us."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentrewind.engine.output import Kept
from agentrewind.engine.started import Process, Start, follow

OUTPUT_LIMIT = 100_000
"""How many bytes of a command's output are kept by default."""
CANNOT_START = 126
"""The exit code of a command that could not be started, as that of a shell."""

ARGUMENT_LIMIT = 120_000
"""A command of fewer bytes can be a word of another one."""
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


class Commands(Protocol):
    """Where the commands of an agent run: beside us, or in a sandbox."""

    def run(
        self,
        command: str,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        timeout_s: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        pass_keys: Collection[str] = (),
    ) -> CommandResult:
        """Run `command` in a shell and return when it has ended. It has no input and no terminal.

        Of an output longer than `output_limit` bytes the head and the tail are returned, and a line between them that
        says how much is missing. A time-out, and any exception (Ctrl-C), ends it.
        """


class Unconfined:
    """Commands as the user's own."""

    def run(
        self,
        command: str,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        timeout_s: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        pass_keys: Collection[str] = (),
    ) -> CommandResult:
        """See `Commands`. It returns even if children of the command live on and hold its output.

        The command has a session of its own and `command_environ(environ, pass_keys)`. A child that it leaves running
        keeps running, and may go on writing to an output that nobody reads. A time-out, and any exception (Ctrl-C),
        ends the process group of the command: TERM, then KILL.
        """
        environ = command_environ(environ, pass_keys, cwd)
        return result_of(_in_a_shell(command, cwd, environ), cwd, timeout_s=timeout_s, output_limit=output_limit)


UNCONFINED = Unconfined()


def result_of(
    prepared: AbstractContextManager[Start], cwd: Path, *, timeout_s: float | None, output_limit: int
) -> CommandResult:
    """How a command ended that is started inside of `prepared`; OSError and ValueError mean that it can't be."""
    begun = time.monotonic()
    kept = Kept(output_limit)
    try:
        with prepared as start:
            exit_code, timed_out = follow(start, kept, timeout_s)
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
def _in_a_shell(command: str, cwd: Path, environ: dict[str, str]) -> Iterator[Start]:
    """The kernel refuses a word over 128 KiB, so a long command goes through a file."""
    shell = shutil.which("bash") or "sh"
    script = encoded(command)
    if len(script) < ARGUMENT_LIMIT:
        yield lambda sink: _started([shell, "-c", script], cwd, environ, sink)
        return
    with tempfile.NamedTemporaryFile(prefix="agentrewind-", suffix=".sh") as file:
        file.write(script)
        file.flush()
        yield lambda sink: _started([shell, file.name], cwd, environ, sink)


def encoded(command: str) -> bytes:
    """A command as the bytes that a shell gets."""
    try:
        return command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return command.encode("utf-8", "replace")


def _started(words: list[bytes | str], cwd: Path, environ: dict[str, str], sink: int) -> Process:
    return Process(
        subprocess.Popen(
            words,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    )
