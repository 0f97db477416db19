"""How much room a store may take: a limit of its own, and a floor under the free space of the disk."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrewind.core.errors import StorageFull, UsageError
from agentrewind.core.sizes import size

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WARN_AT = 0.9
FLOOR_BYTES = 200_000_000
FLOOR_SHARE = 0.01
_UNITS = {"": 1, "B": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)


def parse_size(text: str | int) -> int:
    """Bytes: `500 MB`, `2G`, `1.5 GiB`, or a number of bytes.

    Raises:
        UsageError: it is something else.
    """
    found = _SIZE.fullmatch(str(text))
    if found is None or isinstance(text, bool):
        raise UsageError(f"{text!r} is not a size. Write it like `500 MB`, `2 GB` or `1.5 GiB`.")
    number, unit, binary = found.groups()
    power = "_KMGT".index(unit.upper()) if unit else 0
    return int(float(number) * (1024 if binary else 1000) ** power)


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_size`: bytes of the store, None for no limit. `min_free`: bytes that stay free on its disk; None for 200 MB
    or a hundredth of the disk, whichever is less.
    """

    max_size: int | None = None
    min_free: int | None = None


class Budget:
    """Watches one store while it grows."""

    def __init__(self, packs: Path, limits: Limits, warn: Callable[[str], None] | None = None) -> None:
        self._packs = packs
        self._limits = limits
        self._warn = warn
        self._used = 0
        self._near = False
        self.warnings: list[str] = []
        """What a person should know, each thing once."""

    def say(self, text: str) -> None:
        """Tell a person, and keep it among the warnings."""
        self.warnings.append(text)
        if self._warn is not None:
            self._warn(text)

    def begin(self) -> None:
        """An append starts: look at what is there."""
        if self._limits.max_size is not None:
            self._used = used(self._packs)

    def admit(self, count: int) -> None:
        """Let `count` bytes be written.

        Raises:
            StorageFull: they would exceed the limit, or leave too little of the disk free. Nothing was written.
        """
        self._within_limit(count)
        self._above_floor(count)
        self._used += count

    def _within_limit(self, count: int) -> None:
        limit = self._limits.max_size
        if limit is None:
            return
        total = self._used + count
        if total > limit:
            raise StorageFull(
                f"The snapshots of this workspace would take {size(total)}, and their limit is {size(limit)}. Earlier"
                " snapshots are as they were, and so is the workspace. Make room with `agentrewind store gc`, or raise"
                " `max_size` under [store] in agentrewind.toml."
            )
        if total > limit * WARN_AT and not self._near:
            self._near = True
            self.say(
                f"The snapshots of this workspace take {size(total)} of the {size(limit)} that they may"
                " (`max_size` under [store] in agentrewind.toml). `agentrewind store gc` makes room."
            )

    def _above_floor(self, count: int) -> None:
        free, floor = room(self._packs, self._limits)
        if free - count < floor:
            raise StorageFull(
                f"{self._packs.parent}: this snapshot would leave less than {size(floor)} of the disk free"
                f" ({size(free)} are). Earlier snapshots are as they were, and so is the workspace. Make room on the"
                " disk, with `agentrewind store gc` for example, or set `min_free` under [store] in agentrewind.toml."
            )


def room(directory: Path, limits: Limits) -> tuple[int, int]:
    """Free bytes of the disk, and how many of them are to stay free."""
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    if limits.min_free is not None:
        return free, limits.min_free
    return free, min(FLOOR_BYTES, int(disk.f_blocks * disk.f_frsize * FLOOR_SHARE))


def used(packs: Path) -> int:
    """Bytes in the packs."""
    with os.scandir(packs) as found:
        return sum(item.stat(follow_symlinks=False).st_size for item in found)
