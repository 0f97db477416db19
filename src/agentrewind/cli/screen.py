"""The terminal: where text goes, in which glyphs, and how long work shows that it is going on."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

from rich.console import Console
from rich.text import Text

WIDE = 160
"""Columns where the output isn't a terminal and `COLUMNS` doesn't say."""
QUIET_S = 1.0
"""A pause of this length separates one piece of work from the next."""
PATIENCE_S = 0.5
"""Work that ends sooner shows no progress."""


class _Screen(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def out() -> Console:
    """Results: standard output."""
    return _console(stderr=False)


def err() -> Console:
    """Progress and questions: standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else WIDE
    return _Screen(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


@dataclass(frozen=True, slots=True)
class Glyphs:
    here: str
    gone: str
    back: str
    bar: str
    to: str
    yes: str
    no: str
    dot: str
    more: str


_UNICODE = Glyphs("●", "○", "↩", "│", "→", "✓", "✗", "·", "…")
_ASCII = Glyphs("*", "o", "<-", "|", "->", "ok", "no", "-", "...")


def glyphs(console: Console) -> Glyphs:
    return _UNICODE if console.encoding.startswith("utf") else _ASCII


def sentence(text: str | Text, console: Console) -> None:
    """Print running text: wrapped between words on a terminal, one line elsewhere."""
    console.print(text, soft_wrap=not console.is_terminal)


def interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class ProgressLine:
    """A line on a terminal that long work updates: shown only after a moment, gone when the work is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._on = sys.stderr.isatty()
        self._last = self._piece = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._last > QUIET_S:  # the piece of work before this one has ended
            self.clear()
            self._piece = now
        elif self._on and now - self._piece >= PATIENCE_S:
            of = f" of {total:,}" if total else ""
            self._shown = True
            with suppress(OSError):
                print(f"\r\033[K{self._what}: {done:,}{of}", end="", file=sys.stderr, flush=True)
        self._last = now

    def clear(self) -> None:
        """Take the line away, so that something else can be printed."""
        if self._shown:
            self._shown = False
            with suppress(OSError):
                print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextmanager
def progress(what: str) -> Iterator[ProgressLine]:
    """For work whose end is known."""
    line = ProgressLine(what)
    try:
        yield line
    finally:
        line.clear()
