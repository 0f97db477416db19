"""Text from anywhere, made safe for a terminal, a page or a JSON reader."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

_BIDI = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """One line in which nothing controls a terminal: control characters and undecodable bytes as escapes."""
    if text.isprintable():
        return text
    return "".join(character if _harmless(character) else _escape(character) for character in text)


def printable_block(text: str) -> str:
    """The same for text of several lines: line ends stay, tabs become spaces."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n"))


def one_line(text: str) -> str:
    """The first line that says something, safe to print."""
    return printable(next((line.strip() for line in text.splitlines() if line.strip()), ""))


def path_name(path: str) -> str:
    """A path in a workspace, safe to print; its root is `.`."""
    return printable(path) or "."


def short_id(snapshot: str | None) -> str:
    """Enough of the id of a snapshot to name it."""
    return (snapshot or "none")[:12]


def _harmless(character: str) -> bool:
    return (character.isprintable() or character == "\u00a0") and character not in _BIDI


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 (a byte that surrogateescape carries)
        return f"\\x{code - 0xDC00:02x}"
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}.get(character)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")  # noqa: PLR2004 (Latin-1 ends)


def plural(count: int, one: str, many: str = "") -> str:
    """`1 file`, `1,204 files`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"  # noqa: PLR2004


def local_time(nanoseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds // 1_000_000_000))


def as_json(value: Any) -> str:
    """One JSON text in ASCII: names with undecodable bytes keep them as escapes of lone surrogates."""
    return json.dumps(value, indent=2)


def listed(names: Iterable[str], total: int, most: int = 3) -> str:
    """`a.py, b.py and 3 more`."""
    shown = list(names)[:most]
    rest = total - len(shown)
    return ", ".join(map(printable, shown)) + (f" and {rest:,} more" if rest > 0 and shown else "")
