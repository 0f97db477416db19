"""Who says which paths may have changed: named ones, or "unknown", which means that everything is looked at.

A detector only nominates. Each path that it names is compared with what is known of it, and what it may miss by its
nature is compared besides, whatever it says (`Finder`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything may have changed: look at everything."""

    why: str


@dataclass(slots=True)
class Nominated:
    """Nothing else has changed."""

    paths: set[str] = field(default_factory=set)
    """Compare what stands there, and not what lies below."""
    trees: set[str] = field(default_factory=set)
    """Directories of which nothing is known: compare everything below as well."""
    forced: set[str] = field(default_factory=set)
    """Files whose bytes may differ although their signature doesn't."""
    inodes: set[tuple[int, int]] = field(default_factory=set)
    """Files whose bytes may differ although their signature doesn't, under whatever names they are here."""
    created: set[str] = field(default_factory=set)
    """Names given to files otherwise than by making one, writing and closing it: perhaps by linking."""
    moved_in: bool = False
    """Something came from outside."""

    def __bool__(self) -> bool:
        """Whether anything was named."""
        return bool(self.paths or self.trees or self.forced or self.inodes or self.created or self.moved_in)


class Detector(Protocol):
    """Asked at the boundary of a node, by one thread."""

    @property
    def tells(self) -> bool:
        """Whether the next look need not be a full scan, as far as is known."""

    def nominate(self) -> Nominated | Unknown:
        """All that may have changed since what was nominated was last taken in (`settled`)."""

    def begin(self, root: int) -> None:
        """Everything below the directory `root` is about to be looked at."""

    def entering(self, directory: int, path: str) -> None:
        """An open directory is about to be listed: what happens in it from now on must be nominated."""

    def settled(self) -> None:
        """The look that began with `nominate` or `begin` is complete and was taken in."""

    def close(self) -> None: ...


class Everything:
    """Detects nothing: every look is a full scan."""

    def __init__(self, why: str) -> None:
        self._unknown = Unknown(why)

    @property
    def tells(self) -> bool:
        return False

    def nominate(self) -> Unknown:
        return self._unknown

    def begin(self, root: int) -> None:
        pass

    def entering(self, directory: int, path: str) -> None:
        pass

    def settled(self) -> None:
        pass

    def close(self) -> None:
        pass
