"""Named points at which a test may kill this process. Nothing happens unless one is armed.

Names are `<part>.<what has just happened>`, registered where they stand, so that a test can walk all of them.
"""

from __future__ import annotations

from collections.abc import Callable

_names: set[str] = set()
_armed: tuple[str, int, Callable[[], None]] | None = None


def named(name: str) -> str:
    """Register a crash point at import time and return its name."""
    _names.add(name)
    return name


def names() -> tuple[str, ...]:
    """All registered names of the modules imported so far, sorted."""
    return tuple(sorted(_names))


def arm(name: str, act: Callable[[], None], *, after: int = 0) -> None:
    """Call `act` when `name` is reached for the time number `after` + 1."""
    global _armed  # noqa: PLW0603
    _armed = (name, after, act)


def disarm() -> None:
    global _armed  # noqa: PLW0603
    _armed = None


def reach(name: str) -> None:
    """Say that the point has been reached."""
    global _armed  # noqa: PLW0603
    if _armed is None or _armed[0] != name:
        return
    armed_name, left, act = _armed
    if left:
        _armed = (armed_name, left - 1, act)
    else:
        act()
