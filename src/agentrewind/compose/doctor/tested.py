"""The table of what agentrewind was tried with, beside this file."""

from __future__ import annotations

import datetime as dt
import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tested:
    """A row: a package of Python's, or a program. What its fields say stands at the head of the table."""

    name: str
    since: str
    before: str
    how: str
    tried: str = ""
    on: dt.date | None = None
    gives: str = ""
    extra: str = ""

    def covers(self, version: str) -> bool:
        """Whether a version is among those that may be had."""
        return _number(self.since) <= _number(version) < _number(self.before)

    @property
    def told(self) -> str:
        """Which version was tried, and when."""
        return f"tried: {self.tried} on {self.on}" if self.tried else "not tried by a test of its own"


@functools.cache
def rows(kind: str) -> tuple[Tested, ...]:
    """The rows of a kind (`package`, `program`), in the order of the table."""
    table = tomllib.loads(Path(__file__).with_name("tested.toml").read_text("utf-8"))
    return tuple(Tested(name, **row) for name, row in table[kind].items())


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
