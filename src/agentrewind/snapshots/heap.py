"""Giving memory back to the system."""

from __future__ import annotations

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """What was freed and would be kept for later, where the C library can give it back: after something large."""
    if _trim is not None:
        _trim(0)
