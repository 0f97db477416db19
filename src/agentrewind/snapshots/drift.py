"""What somebody else wrote since our last look (faults.md, rule 2): found by comparing two states, nothing else.

A path drifted if its present isn't what the newest state that we recorded says. Whether that was a person, another
program or a process that an agent left behind can't be told, and doesn't matter: it isn't ours to throw away unasked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrewind.core.world import SnapshotId
from agentrewind.snapshots import entry as e

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrewind.snapshots.attribution import Whose
    from agentrewind.snapshots.manifests import Delta

_KNOWN = e.TRACKED | {b""}
_SQLITE = ("", "-wal", "-shm", "-journal")
LEFT = "left as it is"
EQUAL = "saved, and made equal to the target"


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of drift: left as it is, or saved like everything else and then made equal to the target.

    `since` is the snapshot that was the last look; None for the state that the workspace was last equal to, or went on
    from, whoever saved that.
    """

    keep: bool = False
    since: SnapshotId | None = None
    whose: Whose | None = None
    """What stays is told by who changed it last, and not by when."""


MADE_EQUAL = Policy()


@dataclass(frozen=True, slots=True)
class Drift:
    """Paths that changed since the last look, each with how."""

    since: SnapshotId | None = None
    paths: dict[str, str] = field(default_factory=dict)
    told: bool = False
    """The paths say all that there is to say."""

    def __contains__(self, path: str) -> bool:
        return path in self.paths

    def why(self, path: str) -> str:
        """How it differs from the last look, in words that begin a sentence about the path."""
        if self.told:
            return self.paths[path]
        return f"{self.paths[path]} since {f'snapshot {self.since[:12]}' if self.since else 'the last look'}"


NONE = Drift()


def found(delta: Delta, since: SnapshotId | None) -> Drift:
    """The drift in a step from the last look to the present."""
    return Drift(since, {path: how for path, old, new in delta if (how := _how(old, new))})


def _how(old: bytes | None, new: bytes | None) -> str:
    """Empty where it is no drift: nothing is known of one side, or only the time of a directory moved."""
    if not {e.kind_of(old), e.kind_of(new)} <= _KNOWN or e.same(old, new):
        return ""
    if old is None or new is None:
        return "new" if old is None else "removed"
    if e.kind_of(old) == e.kind_of(new) == e.DIRECTORY and e.without_time(old) == e.without_time(new):
        return ""
    return "" if e.same(e.with_leader(old, ""), e.with_leader(new, "")) else "changed"


def with_databases(drift: Drift, *states: Mapping[str, bytes]) -> Drift:
    """Drift of a SQLite database, its `-wal`, `-shm` or `-journal` is drift of all of them: they are one unit."""
    paths = dict(drift.paths)
    for path in drift.paths:
        base = next((path.removesuffix(end) for end in _SQLITE[1:] if path.endswith(end)), path)
        for other in (base + end for end in _SQLITE):
            if other not in paths and any(other in state for state in states):
                paths[other] = f"together with {path!r}, {drift.paths[path]}"
    return Drift(drift.since, paths, drift.told)
