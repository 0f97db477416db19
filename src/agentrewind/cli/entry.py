"""The entry point: runs the command and turns whatever goes wrong into one sentence and an exit code.

0 done, 1 it failed, 2 bad use, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from agentrewind.cli.group import group
from agentrewind.cli.text import printable
from agentrewind.compose.crash import arm
from agentrewind.compose.home import Home
from agentrewind.compose.secret import redactor
from agentrewind.core.errors import AgentRewindError, UsageError

DONE, FAILED, BAD_USE, INTERRUPTED = 0, 1, 2, 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main() -> NoReturn:
    """The program: runs the command that the arguments name, and exits."""
    _never_crash_on_text()
    arm()
    sys.exit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Writes one line to stderr where it can't be done; no traceback."""
    try:
        code = group.main(arguments, prog_name="agentrewind", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        return _closed()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the outermost edge: a person sees a sentence)
        return _said(error)
    return code if isinstance(code, int) else DONE


def _said(error: BaseException) -> int:
    """Say what went wrong in one sentence; the exit code."""
    match error:
        case click.ClickException():
            return _say(_bad_use(error), BAD_USE)
        case KeyboardInterrupt() | click.Abort():
            return _say("Interrupted.", INTERRUPTED)
        case UsageError():
            return _say(str(error), BAD_USE)
        case AgentRewindError():
            return _say(str(error), FAILED)
        case _:
            return _say(_unexpected(error), FAILED)


def _never_crash_on_text() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(text: str, code: int) -> int:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    line = "agentrewind: " + " ".join(printable(part) for part in text.split())
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns
            line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        print(line, file=sys.stderr, flush=True)
    return code


def _bad_use(error: click.ClickException) -> str:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "agentrewind"
    text = error.format_message()
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} `{command} --help` says how it is used."


def _closed() -> int:
    """Whoever read our output has left: end quietly, and let nothing be flushed into the closed pipe at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _unexpected(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        place = f" ({error.filename})" if error.filename else ""
        return f"No room left on the disk{place}. What was saved before is still there; free some space and try again."
    redact = redactor(os.environ).text
    report = _report(redact("".join(traceback.format_exception(error))))
    return redact(f"Something went wrong that should not: {type(error).__name__}: {error}.") + report


def _report(text: str) -> str:
    """Write a traceback down; the sentence that says where it is."""
    path = Home.of().reports / time.strftime("%Y%m%d-%H%M%S.txt", time.gmtime())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, "utf-8", "backslashreplace")
    except OSError:
        return ""
    return f" The details are in {path}."
