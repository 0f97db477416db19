"""Where the files are of which somebody else tells only the inode, or a name that isn't theirs here.

A process in another mount namespace (a sandbox) maps a file of the workspace under the name that it has there; one that
was removed has no name at all, and may live on under a second one. Finding such a file means looking through all that
is known, so what was found is remembered, and what was looked for in vain as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrewind.snapshots.reading import inode_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Inode = tuple[int, int]


class Whereabouts:
    """Remembers for each inode that was asked for the paths that it had; none where it isn't here."""

    def __init__(self) -> None:
        self._paths: dict[Inode, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._paths)

    def find(self, inodes: set[Inode], signatures: Mapping[str, bytes]) -> set[str]:
        """The paths at which these inodes are, as `signatures` has them."""
        known = self._paths
        if unknown := {inode for inode in inodes if not self._holds(inode, signatures)}:
            known.update(dict.fromkeys(unknown, ()))
            for path, signature in signatures.items():
                if (inode := inode_of(signature)) in unknown:
                    known[inode] = (*known[inode], path)
        return {path for inode in inodes for path in known[inode]}

    def _holds(self, inode: Inode, signatures: Mapping[str, bytes]) -> bool:
        paths = self._paths.get(inode)
        return paths is not None and all(p in signatures and inode_of(signatures[p]) == inode for p in paths)

    def named(self, inode: Inode, path: str) -> None:
        """Forget what was found, if this path isn't among it: it has the inode now."""
        if path not in self._paths.get(inode, (path,)):
            del self._paths[inode]

    def clear(self) -> None:
        self._paths.clear()
