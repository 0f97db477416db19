"""What a restore would do, decided from values alone: the present state, the target state, nothing else.

A path is acted on only where both states know it. What is excluded or unreadable on either side stays as it is, and
so does everything below it; a directory that holds such a thing stays too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrewind.core.world import Act, Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.manifests import Manifest, below
from agentrewind.snapshots.reading import inode_of
from agentrewind.snapshots.scan import SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrewind.snapshots.scan import Seen


@dataclass(frozen=True, slots=True)
class FileStep:
    """One file of the target, under all its names: `base` is a present name whose inode is kept, if there is one."""

    paths: tuple[str, ...]
    data: bytes
    base: str | None
    rewrite: bool
    """Whether the bytes of `base` differ from the target's."""


@dataclass(slots=True)
class Plan:
    """In the order of the acts."""

    remove: list[str] = field(default_factory=list)
    """Deepest first; directories only go when they are empty by then."""
    make: list[str] = field(default_factory=list)
    """Directories, top down."""
    files: list[FileStep] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Symbolic links and FIFOs to create."""
    attributes: list[str] = field(default_factory=list)
    """Symbolic links and FIFOs of which only mode, owner or time differ."""
    directories: list[str] = field(default_factory=list)
    """Directories of which only attributes differ."""
    acts: list[Act] = field(default_factory=list)
    kept: list[Gap] = field(default_factory=list)
    unsaved: list[Gap] = field(default_factory=list)
    """Must change, but what is there now could not be read, so it isn't saved."""
    blocked: list[Gap] = field(default_factory=list)
    """Can't be made equal without losing something that isn't saved."""


class _Planner:
    def __init__(self, live: Manifest, target: Manifest, seen: Seen) -> None:
        self._live, self._target, self._seen = live, target, seen
        self._plan = Plan()
        self._files: set[str] = set()
        self._untouchable = {
            path for state in (live, target) for path, data in state.items() if data[1:2] in (e.UNREADABLE, e.EXCLUDED)
        }
        self._untouchable -= {path for path in self._untouchable if self._gives_way(path)}
        self._anchors: set[str] = set()
        self._replaced: set[str] = set()

    def plan(self) -> Plan:
        differing = sorted(
            {path for path, data in self._target.items() if not e.same(self._live.get(path), data)}
            | (self._live.keys() - self._target.keys())
        )
        wanted = [path for path in differing if self._is_ours(path)]
        self._anchor(path for path, data in self._live.items() if data[1:2] in (e.EXCLUDED, e.UNREADABLE))
        self._anchor(gap.path for gap in self._plan.kept)
        for path in wanted:
            self._decide(path)
        self._plan.remove.reverse()
        self._decide_files()
        return self._plan

    def _anchor(self, paths: Iterable[str]) -> None:
        for path in paths:
            at = path
            while at and self._stays(path):
                at = split(at)[0]
                if at in self._anchors:
                    break
                self._anchors.add(at)

    def _stays(self, path: str) -> bool:
        """Whether something at `path` will still be there, so that its directory must be."""
        return path in self._live and path not in self._replaced

    def _is_ours(self, path: str) -> bool:
        """Whether to act on a differing path; if not, says what becomes of it."""
        live, target = self._live.get(path), self._target.get(path)
        kinds = e.kind_of(live), e.kind_of(target)
        if below(path, self._untouchable):
            if self._known_below_unreadable(path, kinds):
                self._plan.unsaved.append(Gap(path, "lies in a directory that can't be read now"))
            return False
        if e.UNREADABLE in kinds:
            self._unreadable(path, live, target)
            return False
        if e.EXCLUDED in kinds:
            return self._excluded(path, live, target)
        if e.VOLATILE in kinds:
            return self._volatile(path, kinds)
        if target is not None and live is None and is_git_lock(path):
            self._keep(path, "a git lock file of a process that is gone: not brought back")
            return False
        return True

    def _known_below_unreadable(self, path: str, kinds: tuple[bytes, bytes]) -> bool:
        """The target holds something below a directory that is unreadable at present only."""
        if kinds[1] not in e.TRACKED:
            return False
        at = path
        while at:
            at = split(at)[0]
            if e.kind_of(self._target.get(at)) in (e.UNREADABLE, e.EXCLUDED):
                return False
            if e.kind_of(self._live.get(at)) == e.UNREADABLE:
                return True
        return False

    def _keep(self, path: str, why: str) -> None:
        self._plan.kept.append(Gap(path, why))

    def _unreadable(self, path: str, live: bytes | None, target: bytes | None) -> None:
        if e.kind_of(target) == e.UNREADABLE:
            self._keep(path, "could not be read when the snapshot was taken: left as it is")
        elif live is not None:
            self._plan.unsaved.append(Gap(path, e.decode(live).why))

    def _excluded(self, path: str, live: bytes | None, target: bytes | None) -> bool:
        if self._gives_way(path):
            self._replaced.add(path)
            return True
        if live is not None and e.decode(live).why == SOCKET:
            self._keep(path, "a socket: left as it is")
        elif live is None:
            if e.decode(target or b"").why != SOCKET:
                self._keep(path, "excluded, and gone since the target: nothing to bring back")
        elif target is None:
            self._keep(path, "excluded, and new since the target: left as it is")
        elif e.kind_of(live) == e.kind_of(target):
            self._keep(path, "excluded, and has changed since the target: left as it is")
        else:
            self._keep(path, "excluded on one side only: left as it is")
        return False

    def _gives_way(self, path: str) -> bool:
        """A socket holds nothing, so it may be replaced by what the target has there."""
        live = self._live.get(path)
        is_socket = live is not None and e.kind_of(live) == e.EXCLUDED and e.decode(live).why == SOCKET
        return is_socket and e.kind_of(self._target.get(path)) in e.TRACKED

    def _volatile(self, path: str, kinds: tuple[bytes, bytes]) -> bool:
        live, target = kinds
        if live == e.VOLATILE:
            return True
        if live and target == e.VOLATILE:
            self._keep(path, "volatile in the target, kept now: left as it is")
        return False

    def _decide(self, path: str) -> None:
        live, target = self._live.get(path), self._target.get(path)
        before, after = self._kind_now(live), e.kind_of(target)
        if after == e.VOLATILE:
            if before != e.DIRECTORY:
                self._remove(path)
            return
        if not after or (before and before != after) or (before == e.SYMLINK and self._other_text(live, target)):
            if path in self._anchors and before == e.DIRECTORY:
                self._anchored(path, after)
                return
            self._remove(path, replaced=bool(after))
            before = b""
        if after == e.FILE:
            self._files.add(path)
        elif after == e.DIRECTORY:
            (self._plan.directories if before else self._plan.make).append(path)
            self._act("attributes" if before else "create", path)
        elif after:
            (self._plan.attributes if before else self._plan.others).append(path)
            self._act("attributes" if before else "create", path)

    @staticmethod
    def _kind_now(live: bytes | None) -> bytes:
        """The type of what stands there; a volatile path is a file if it has a signature of one."""
        kind = e.kind_of(live)
        if kind == e.VOLATILE and live is not None:
            return b"-" if e.decode(live).note else e.DIRECTORY
        return b"-" if kind == e.EXCLUDED else kind

    @staticmethod
    def _other_text(live: bytes | None, target: bytes | None) -> bool:
        return live is not None and target is not None and e.decode(live).target != e.decode(target).target

    def _anchored(self, path: str, after: bytes) -> None:
        why = "holds something that is excluded or could not be read"
        if after:
            self._plan.blocked.append(Gap(path, f"must become something else, but {why}"))
        else:
            self._keep(path, f"was not there, but {why}: this directory stays")

    def _remove(self, path: str, *, replaced: bool = False) -> None:
        self._plan.remove.append(path)
        if not replaced:
            self._act("remove", path)

    def _act(self, what: str, path: str) -> None:
        if self._plan.remove and self._plan.remove[-1] == path and what == "create":
            what = "replace"
        self._plan.acts.append(Act(what, path))

    # Files and their links

    def _decide_files(self) -> None:
        removed = frozenset(self._plan.remove)
        groups = self._groups()
        done: set[str] = set()
        for path in sorted(self._files):
            leader = e.decode(self._target[path]).leader or path
            if leader not in done:
                done.add(leader)
                self._decide_group(groups.get(leader, (path,)), removed)

    def _groups(self) -> dict[str, tuple[str, ...]]:
        """All names of each linked file of the target, if one of those to be written is linked at all."""
        if not any(e.decode(self._target[path]).leader for path in self._files):
            return {}
        groups: dict[str, list[str]] = {}
        for path, data in self._target.items():
            if data[1:2] == e.FILE and (leader := e.decode(data).leader):
                groups.setdefault(leader, []).append(path)
        return {
            leader: tuple(
                sorted(path for path in paths if path not in self._untouchable and not below(path, self._untouchable))
            )
            for leader, paths in groups.items()
        }

    def _decide_group(self, paths: tuple[str, ...], removed: frozenset[str]) -> None:
        data = self._target[paths[0]]
        base = self._base(paths, e.content_of(data), removed)
        rewrite = base is None or e.content_of(self._live[base]) != e.content_of(data)
        self._plan.files.append(FileStep(paths, data, base, rewrite))
        inode = None if base is None else inode_of(self._seen.signatures[base])
        for path in paths:
            self._act(self._file_act(path, removed, inode, rewrite=rewrite), path)

    def _file_act(self, path: str, removed: frozenset[str], inode: tuple[int, int] | None, *, rewrite: bool) -> str:
        if path not in self._live:
            return "create"
        if path in removed or inode is None or inode_of(self._seen.signatures[path]) != inode:
            return "replace"
        return "write" if rewrite else "attributes"

    def _base(self, paths: tuple[str, ...], content: bytes, removed: frozenset[str]) -> str | None:
        """A present name whose inode may be written through: all its links are names of this very file."""
        fit = [path for path in paths if path not in removed and self._may_write_through(path, paths, removed)]
        same = [path for path in fit if e.content_of(self._live[path]) == content]
        return next(iter(same or fit), None)

    def _may_write_through(self, path: str, paths: tuple[str, ...], removed: frozenset[str]) -> bool:
        if e.kind_of(self._live.get(path)) != e.FILE:
            return False
        inode = inode_of(self._seen.signatures[path])
        links, names = self._seen.links.get(inode, (1, [path]))
        left = [name for name in names if name not in removed]
        return links - (len(names) - len(left)) == len(left) and set(left) <= set(paths)


def is_git_lock(path: str) -> bool:
    """A `*.lock` inside a `.git`, but for hooks: whoever held it is gone, and it would only block the next command."""
    if not path.endswith(".lock"):
        return False
    parts = path.split("/")
    return ".git" in parts[:-1] and "hooks" not in parts


def plan(live: Manifest, target: Manifest, seen: Seen) -> Plan:
    """What to do to make `live` (which `seen` has just seen) equal to `target`."""
    return _Planner(live, target, seen).plan()
