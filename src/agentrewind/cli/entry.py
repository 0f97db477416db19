"""The entry point: runs the command and turns whatever goes wrong into one sentence and an exit code.

0 done, 1 it failed, 2 bad use, 130 interrupted, 128 + n where signal n ended a run. A standard stream that is closed is
as good as the null device.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from agentrewind.cli import bad_use, streams
from agentrewind.cli.group import group
from agentrewind.cli.signals import AskedToEnd
from agentrewind.compose.crash import arm
from agentrewind.compose.home import Home
from agentrewind.compose.secret import SETTINGS_FILE, SecretSettings, known_secrets, settings_of
from agentrewind.core.errors import NO_ROOM, AgentRewindError, UsageError
from agentrewind.core.redact import Redactor
from agentrewind.ui.text import printable

DONE, FAILED, BAD_USE, INTERRUPTED = 0, 1, 2, 130
_ALMOST_NOTHING = 1 << 20
_NO_COMMAND: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # older versions of click print and exit


def main() -> NoReturn:
    """The program: runs the command that the arguments name, and exits."""
    streams.ready()
    try:
        arm()
    except UsageError as error:
        sys.exit(_Edge(()).said(error))
    sys.exit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Writes one line to stderr where it can't be done; no traceback."""
    edge = _Edge(sys.argv[1:] if arguments is None else arguments)
    try:
        code = group.main(arguments, prog_name="agentrewind", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        streams.give_up_output()
        return FAILED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the outermost edge: a person sees a sentence)
        return edge.said(error)
    return code if isinstance(code, int) else DONE


class _Edge:
    """Where the errors of one command become a sentence."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments

    def said(self, error: BaseException) -> int:
        """Say what went wrong in one sentence; the exit code."""
        if isinstance(error, _NO_COMMAND):
            click.echo(error.format_message(), err=True)
            return BAD_USE
        text, code = self._told(error)
        self._say(text)
        return code

    def _told(self, error: BaseException) -> tuple[str, int]:
        if isinstance(error, click.Abort) and error.__cause__ is not None:  # what click makes of a KeyboardInterrupt
            error = error.__cause__
        match error:
            case click.ClickException():
                told = bad_use.sentence(error, self._arguments), BAD_USE
            case AskedToEnd():
                told = f"Ended by {error.number.name}.", 128 + error.number
            case KeyboardInterrupt() | click.Abort():
                told = "Interrupted.", INTERRUPTED
            case UsageError():
                told = str(error), BAD_USE
            case AgentRewindError():
                told = str(error), FAILED
            case _:
                told = self._unexpected(error), FAILED
        return told

    def _say(self, text: str) -> None:
        streams.flush_or_give_up()
        clean = self._redact(text)
        line = "agentrewind: " + " ".join(printable(part) for part in clean.split())
        with suppress(OSError, ValueError):
            if sys.stderr.isatty():
                width = shutil.get_terminal_size().columns
                line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
            print(line, file=sys.stderr, flush=True)

    def _redact(self, text: str) -> str:
        """Without the secrets of the environment and of the directories that the command was about."""
        found = known_secrets(os.environ, None)
        patterns: list[re.Pattern[str]] = []
        for place in (os.curdir, *self._arguments):
            if place and os.path.isdir(place):
                settings = SecretSettings()
                with suppress(UsageError):
                    settings = settings_of(Path(place) / SETTINGS_FILE)
                found |= known_secrets({}, Path(place), settings)
                patterns += settings.patterns
        return Redactor(found, patterns).text(text)

    def _unexpected(self, error: BaseException) -> str:
        if isinstance(error, streams.OutputLost):
            return f"The output can't be written: {error.strerror}. What the command did is done."
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            what = "What was saved before is still there; free some space and try again."
            return f"No room left on the disk ({error.filename or _full_place()}). {what}"
        report = _report(self._redact("".join(traceback.format_exception(error))))
        return f"Something went wrong that should not: {type(error).__name__}: {error}.{report}"


def _full_place() -> str:
    """Which of the directories that we write to has no room, as far as can be told."""
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 (tempfile finds none that is full)
    places = [str(Home.of().root), temporary, os.path.abspath(os.curdir)]
    full = [place for place in places if _room(place) < _ALMOST_NOTHING]
    return " or ".join(dict.fromkeys(full or places))


def _room(place: str) -> int:
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return _ALMOST_NOTHING


def _report(text: str) -> str:
    """Write a traceback down; the sentence that says where it is."""
    path = Home.of().reports / time.strftime("%Y%m%d-%H%M%S.txt", time.gmtime())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, "utf-8", "backslashreplace")
    except OSError:
        return ""
    return f" The details are in {path}."
