"""Secrets that don't stand in a text as they are: escaped, percent-encoded, in hex or base64."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

_LEAST = 10
"""Characters of base64 by which a value is known: 60 of its bits."""
_SHORTEST = 24
"""Characters of the first line of a run of base64 that is looked into."""
_LONGEST = 200_000
_URL_SAFE = str.maketrans("+/", "-_")
_RUN = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/]{24,200000}+(?:\r?\n[A-Za-z0-9+/]{4,100}+){0,2000}+|[A-Za-z0-9_-]{24,200000}+)"
    r"={0,2}+(?![A-Za-z0-9+/_=-])"
)


def forms(value: str) -> set[str]:
    """A value and the ways in which programs write it: in JSON (also JSON within JSON), in URLs, in hex, in base64
    (whatever stands before and behind it in what was encoded).
    """
    escaped = {json.dumps(value, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False)}
    escaped |= {json.dumps(text)[1:-1] for text in escaped}
    data = value.encode("utf-8", "surrogatepass")
    return {
        value,
        *escaped,
        quote(data, safe=""),
        quote_plus(data),
        data.hex(),
        data.hex().upper(),
        *_in_base64(data),
    }


def _in_base64(data: bytes) -> Iterator[str]:
    """The part that doesn't depend on the bytes around it, for each place in a group of three."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode("ascii")
        core = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(core) >= _LEAST:
            yield core
            yield core.translate(_URL_SAFE)


def unwrapped(text: str, holds_secret: Callable[[str], bool], mark: str) -> str:
    """`text` with `mark` in place of each run of base64 whose content is a text that holds a secret."""

    def replaced(match: re.Match[str]) -> str:
        found = _decoded(match[0])
        return mark if found is not None and holds_secret(found) else match[0]

    if max(map(len, text.split()), default=0) < _SHORTEST:  # words are found sooner than runs
        return text
    return _RUN.sub(replaced, text)


def _decoded(run: str) -> str | None:
    """The ASCII text that a run of base64 stands for; None where it is none."""
    if len(run) > _LONGEST:
        return None
    whole = "".join(run.split()).rstrip("=")
    if len(whole) % 4 == 1:
        return None
    try:
        data = base64.b64decode(
            whole + "=" * (-len(whole) % 4), altchars=b"-_" if "-" in whole or "_" in whole else None
        )
        text = data.decode("ascii")
    except (binascii.Error, ValueError):
        return None
    return text if text.replace("\n", "").replace("\r", "").replace("\t", "").isprintable() else None
