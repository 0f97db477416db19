"""Which ways to keep a workspace there are on this machine, tried rather than guessed, and what each costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrewind.snapshots.backends import btrfs, overlay, reflink, repository

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Found:
    """Whether `backend` can keep this workspace, why not, and what it costs and is good for."""

    backend: str
    available: bool
    why_not: str
    cost: str


def probe(workspace: Path, store: Path) -> list[Found]:
    """Every backend for `workspace` with a store at `store`, in the order in which a person should consider them.

    Leaves nothing behind. What is tried is a file cloned and an overlay mounted where nobody sees it.
    """
    reasons = {
        "main": "",
        "reflink": reflink.why_not(workspace, store),
        "btrfs": btrfs.why_not(workspace, store),
        "overlayfs": overlay.why_not(workspace, store),
        "git": repository.why_not(),
    }
    return [Found(name, not why, why, _COSTS[name]) for name, why in reasons.items()]


_COSTS = {
    "main": "a step costs what changed; everything is kept; the default",
    "reflink": "as main by scanning, and large files take no room until they are written",
    "btrfs": "a snapshot and a restore cost a look at every path, a fork nothing; the workspace must be a subvolume and"
    " nobody may stand inside",
    "overlayfs": "a step costs what changed and a mount, a fork a mount; nobody may stand inside, hard links part, the"
    " first byte to a large file copies it",
    "git": "one object a file; loses times, modes, attributes, hard links, empty directories and nested repositories",
}
