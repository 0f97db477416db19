"""What a restore would do, decided from values alone: the present state, the target state, nothing else.

A path is acted on only where both states know it. What is excluded or unreadable on either side stays as it is, and
so does everything below it; a directory that holds such a thing stays too. So does what is *held*: what somebody else
wrote and wants kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrewind.core.world import Act, Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.between import Overlaid
from agentrewind.snapshots.drift import LEFT, NONE
from agentrewind.snapshots.manifests import below
from agentrewind.snapshots.reading import inode_of
from agentrewind.snapshots.rules import PathClass, PathRules
from agentrewind.snapshots.scan import SOCKET, class_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from agentrewind.snapshots.drift import Drift
    from agentrewind.snapshots.scan import Seen


_UNKNOWN = frozenset((e.EXCLUDED, e.UNREADABLE))
_DEFAULT_RULES = PathRules()


@dataclass(frozen=True, slots=True)
class Difference:
    """The present and the target, and where to look for what differs."""

    live: Mapping[str, bytes]
    target: Mapping[str, bytes]
    paths: Collection[str]
    """Holds every path that differs."""
    gaps: Collection[str]
    """Holds every path that is excluded or unreadable on one of the sides."""


def compared(live: Mapping[str, bytes], target: Mapping[str, bytes]) -> Difference:
    """The difference between two states of which nothing else is known: every path is looked at."""
    gaps = {path for state in (live, target) for path, data in state.items() if data[1:2] in _UNKNOWN}
    paths = {path for path, data in target.items() if live.get(path) != data} | (live.keys() - target.keys())
    return Difference(live, target, paths, gaps)


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
    held: list[str] = field(default_factory=list)
    """Those of `kept` that stay because somebody else wrote them."""
    unsaved: list[Gap] = field(default_factory=list)
    """Must change, but what is there now could not be read, so it isn't saved."""
    blocked: list[Gap] = field(default_factory=list)
    """Can't be made equal without losing something that isn't saved."""


class _Planner:
    def __init__(
        self, difference: Difference, seen: Seen, held: Drift, caches: Collection[str], rules: PathRules
    ) -> None:
        self._caches = caches
        self._rules = rules
        self._live, self._target = difference.live, difference.target
        self._difference, self._seen, self._held = difference, seen, held
        self._plan = Plan()
        self._files: set[str] = set()
        self._untouchable = {path for path in difference.gaps if self._is_unknown(path) and not self._gives_way(path)}
        self._standing: frozenset[str] = frozenset()
        self._anchors: set[str] = set()
        self._yielding: set[str] = set()
        """Anchors that stay for the sake of what is held only."""
        self._replaced: set[str] = set()

    def _is_unknown(self, path: str) -> bool:
        return not {e.kind_of(self._live.get(path)), e.kind_of(self._target.get(path))}.isdisjoint(_UNKNOWN)

    def plan(self) -> Plan:
        differing = sorted(p for p in self._difference.paths if not e.same(self._live.get(p), self._target.get(p)))
        ours = [path for path in differing if self._is_ours(path)]
        self._anchor(path for path in self._difference.gaps if e.kind_of(self._live.get(path)) in _UNKNOWN)
        self._anchor(gap.path for gap in self._plan.kept if gap.path not in self._held)
        unyielding = frozenset(self._anchors)
        self._anchor(self._plan.held)
        self._yielding = self._anchors - unyielding
        ours = [path for path in ours if not self._stays_for_what_it_holds(path)]
        self._standing = frozenset(self._plan.held)
        wanted = self._regrouped(ours)
        for path in wanted:
            self._decide(path)
        self._plan.remove.reverse()
        self._decide_files()
        return self._plan

    def _regrouped(self, wanted: list[str]) -> list[str]:
        """Where a name of a linked file is held, the others are a file of their own: the target names it after them."""
        held = [self._target.get(path) for path in self._standing]
        leaders = {e.decode(data).leader for data in held if data is not None} - {""}
        if not leaders:
            return wanted
        groups: dict[str, list[str]] = {}
        for path in sorted(self._target):
            leader = e.decode(self._target[path]).leader
            if leader in leaders:
                groups.setdefault(leader, []).append(path)
        own: dict[str, bytes] = {}
        for leader, names in groups.items():
            paths = [path for path in names if self._is_within_reach(path)]
            if not self._held_with_all_names(leader, paths):
                own.update(self._apart(paths, set(names)))
        self._target = Overlaid(self._target, [(path, None, data) for path, data in own.items()])
        others = [path for path in wanted if path not in own and path not in self._plan.held]
        return sorted(others + [path for path, data in own.items() if not e.same(self._live.get(path), data)])

    def _apart(self, paths: list[str], group: set[str]) -> dict[str, bytes]:
        """What those names of a file are to be without the ones that are held. A name that is already linked with those
        stays so, where they have this very content.
        """
        linked = {path for path in paths if self._is_linked_as_it_shall_be(path, group)}
        rest = [path for path in paths if path not in linked]
        leader = rest[0] if len(rest) > 1 else ""
        return {
            **{path: self._live[path] for path in linked},
            **{path: e.with_leader(self._target[path], leader) for path in rest},
        }

    def _is_linked_as_it_shall_be(self, path: str, group: set[str]) -> bool:
        live = self._live.get(path)
        if live is None or e.kind_of(live) != e.FILE:
            return False
        _, names = self._seen.links.get(inode_of(self._seen.signatures[path]), (1, [path]))
        alike = e.same(e.with_leader(live, ""), e.with_leader(self._target[path], ""))
        return alike and not self._standing.isdisjoint(names) and group.issuperset(names)

    def _stays_for_what_it_holds(self, path: str) -> bool:
        """A directory that the target hasn't, but in which something is held."""
        if path not in self._yielding or e.kind_of(self._target.get(path)) == e.DIRECTORY:
            return False
        self._hold(path, f"holds something that somebody else wrote: this directory is {LEFT}")
        return True

    def _held_with_all_names(self, leader: str, paths: list[str]) -> bool:
        """A linked file is private if one of its names is. Apart from all such names its content would lie in the open,
        under another id, so then all names of the file stay together.
        """
        if not self._target[leader][0] & e.PRIVATE or any(map(self._is_private_by_name, paths)):
            return False
        for path in paths:
            if not e.same(self._live.get(path), self._target[path]):
                self._hold(path, f"another name of a private file of which one is {LEFT}")
        return True

    def _is_private_by_name(self, path: str) -> bool:
        return class_of(self._rules, path) is PathClass.PRIVATE

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
        if path in self._held or e.UNREADABLE in kinds:
            self._stands(path, live, target)
            return False
        if e.EXCLUDED in kinds:
            return self._excluded(path, live, target)
        if e.VOLATILE in kinds:
            return self._volatile(path, kinds)
        if target is not None and live is None and is_git_lock(path):
            self._keep(path, "a git lock file of a process that is gone: not brought back")
            return False
        return self._has_a_place(path, target)

    def _has_a_place(self, path: str, target: bytes | None) -> bool:
        """Whether the directory of a path of the target will be there: not where what is held stands in its stead."""
        at = path
        while target is not None and self._held.paths and at:
            at = split(at)[0]
            if at in self._held and e.kind_of(self._live.get(at)) != e.DIRECTORY:
                self._hold(path, f"lies below {at!r}, which is {self._held.why(at)}: not brought back")
                return False
        return True

    def _hold(self, path: str, why: str) -> None:
        self._keep(path, why)
        self._plan.held.append(path)

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

    def _stands(self, path: str, live: bytes | None, target: bytes | None) -> None:
        """What is held or unreadable stays."""
        if path in self._held:
            self._hold(path, f"{self._held.why(path)}: {LEFT}")
        elif e.kind_of(target) == e.UNREADABLE:
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
        if live == e.VOLATILE or path in self._caches:
            return True
        if live and target == e.VOLATILE and not self._both_directories(path):
            self._keep(path, "volatile in the target, kept now: left as it is")
        return False

    def _both_directories(self, path: str) -> bool:
        return e.kind_of(self._live.get(path)) == e.DIRECTORY and e.is_volatile_directory(self._target[path])

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
            leader = e.decode(self._target[path]).leader
            if (leader or path) not in done:
                done.add(leader or path)
                self._decide_group(groups[leader] if leader else (path,), removed)

    def _groups(self) -> dict[str, tuple[str, ...]]:
        """All names of each linked file of the target, if one of those to be written is linked at all."""
        if not any(e.decode(self._target[path]).leader for path in self._files):
            return {}
        groups: dict[str, list[str]] = {}
        for path, data in self._target.items():
            if data[1:2] == e.FILE and (leader := e.decode(data).leader):
                groups.setdefault(leader, []).append(path)
        return {
            leader: tuple(sorted(path for path in paths if self._is_within_reach(path)))
            for leader, paths in groups.items()
        }

    def _is_within_reach(self, path: str) -> bool:
        return path not in self._standing and path not in self._untouchable and not below(path, self._untouchable)

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


def plan(
    difference: Difference,
    seen: Seen,
    held: Drift = NONE,
    caches: Collection[str] = (),
    rules: PathRules = _DEFAULT_RULES,
) -> Plan:
    """What to do to make the present (which `seen` has just seen) equal to the target, but for what is held. `caches`
    are volatile, although they were saved; `rules` say what would be private by its own name.
    """
    return _Planner(difference, seen, held, caches, rules).plan()
