"""The standard streams as we find them: closed, full, left by their reader."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_STANDARD = (0, 1, 2)
_ANY_TEXT = "backslashreplace"


def ready() -> None:
    """Put the standard streams into a state in which text can be printed.

    One that is closed is wanted by nobody: it becomes the null device. That also keeps a file that we open from taking
    its number, and from being written to in its place. No text makes printing fail.
    """
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            os.set_inheritable(null, True)  # noqa: FBT003 (it is called so)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _Output.instead_of(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors=_ANY_TEXT)


class OutputLost(OSError):
    """Standard output can't be written."""


class _Output(io.TextIOWrapper):
    """Standard output whose errors can be told from those of other files. A reader who left stays `BrokenPipeError`."""

    @classmethod
    def instead_of(cls, stream: io.TextIOWrapper) -> _Output:
        encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
        return cls(stream.detach(), encoding, _ANY_TEXT, line_buffering=lines, write_through=through)

    def write(self, text: str, /) -> int:
        with _told_apart():
            return super().write(text)

    def flush(self) -> None:
        with _told_apart():
            super().flush()


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, OutputLost):
        raise
    except OSError as error:
        raise OutputLost(error.errno, error.strerror) from error


def flush_or_give_up() -> None:
    """Write what is left to write to standard output; where that can't be done, let nothing of it be left for later."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up_output()
    except ValueError:  # somebody closed it
        pass


def give_up_output() -> None:
    """Let nothing more be written to standard output, not at exit either."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
