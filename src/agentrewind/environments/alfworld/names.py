"""What things are called: `drawer 2` for `Drawer_bar__minus_00_dot_16_bar_…`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

SEPARATOR = "_bar_"


def names(ids: Iterable[str]) -> dict[str, str]:
    """A name for each id, numbered by kind: the last in the order of ids is 1 (as ALFWorld's demangler has it)."""
    ordered = sorted(set(ids))
    left = Counter(_kind(name) for name in ordered if SEPARATOR in name)
    found = {}
    for name in ordered:
        kind = _kind(name)
        found[name] = f"{kind} {left[kind]}" if SEPARATOR in name else f"{name} "
        left[kind] -= SEPARATOR in name
    return found


def _kind(name: str) -> str:
    kind = name.split(SEPARATOR, 1)[0]
    return f"{kind}basin" if "basin" in name and SEPARATOR in name else kind
