"""What is known of a workspace, kept equal to the disk by looking only where something may have changed.

Beside what a detector nominates, always compared are: files with several links (a write through a link from outside
raises no event), what was seen too recently to prove anything, what could not be read, and files that live processes
map shared or hold open for writing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests
from agentrewind.snapshots.detector import Nominated, Unknown
from agentrewind.snapshots.looking import Look
from agentrewind.snapshots.manifests import below
from agentrewind.snapshots.reading import inode_of
from agentrewind.snapshots.scan import Pry, Scan, Seen
from agentrewind.snapshots.whereabouts import Whereabouts
from agentrewind.snapshots.writers import Writers, held

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrewind.snapshots.detector import Detector
    from agentrewind.snapshots.manifests import Delta, Manifest
    from agentrewind.snapshots.reading import Sink
    from agentrewind.snapshots.rules import PathRules
    from agentrewind.snapshots.scan import Clocklike

WATCH, SCAN = "watch", "scan"
MOUNTED_INSIDE = "another file system is mounted inside the workspace"
CLOCK_WENT_BACK = "the clock went back"


@dataclass(frozen=True, slots=True)
class Manner:
    """How the last look found what it found: by `watch`, or by `scan` and why."""

    found_by: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where to look: an open directory, and what is needed to judge what stands there."""

    root: int
    rules: PathRules
    clock: Clocklike
    tick_ns: int
    mounts: frozenset[str] = frozenset()
    device: tuple[int, int] = (0, 0)
    progress: Callable[[int, int | None], None] | None = None

    def scan(
        self,
        sink: Sink,
        known: Seen,
        *,
        pry: Pry | None = None,
        entering: Callable[[int, str], None] | None = None,
    ) -> Scan:
        return Scan(
            self.root, self.rules, sink, known, self.clock, tick_ns=self.tick_ns, mounts=self.mounts, pry=pry,
            progress=self.progress, entering=entering,
        )  # fmt: skip

    def look(
        self, nominated: Nominated, sink: Sink, known: Seen, *, pry: Pry | None, entering: Callable[[int, str], None]
    ) -> Look:
        return Look(
            self.root, self.rules, sink, known, self.clock, tick_ns=self.tick_ns, mounts=self.mounts, pry=pry,
            progress=self.progress, entering=entering, nominated=nominated,
        )  # fmt: skip


@dataclass(slots=True)
class Finder:
    """Holds what was seen (`seen`, changed in place by each look) beside a base state from which it is counted."""

    detector: Detector
    seen: Seen
    apart: dict[str, bytes | None] = field(default_factory=dict)
    """What the base has, None for nothing, at each path where `seen` has something else."""
    manner: Manner = Manner()
    _writers: Writers = field(default_factory=Writers)
    _suspects: set[str] = field(default_factory=set)
    """Files that somebody holds open for writing under a name that is gone: compared each time."""
    _whereabouts: Whereabouts = field(default_factory=Whereabouts)

    def look(self, ground: Ground, sink: Sink, *, keeps: bool, pry: Pry | None = None) -> None:
        """Bring `seen` up to date; contents go to `sink`.

        `keeps`: the sink keeps what it is given. Where it doesn't, contents that the base hasn't are read again by the
        next look. If this raises, nothing is forgotten: the next look has it all to do.
        """
        mapped = self._writers.nominate(ground.root, ground.device)
        self._distrust_mapped(mapped)
        found = self._nominated(ground)
        if isinstance(found, Nominated):
            found.paths |= self._suspects
            found.forced |= mapped.forced
            found = self._look(ground, found, sink, pry)
        if isinstance(found, Unknown):
            self.detector.begin(ground.root)
            scan = ground.scan(sink, self.seen, pry=pry, entering=self.detector.entering)
            self._replace(scan.run())
            if self.detector.tells:
                self._suspect(ground)
            self.manner = Manner(SCAN, found.why)
        self.detector.settled()
        self._writers.settled()
        if not keeps:
            self.distrust()

    def quiet(self) -> bool:
        """Whether nothing was nominated since the last look, and there is nothing that changes without being told of:
        no file with several links, none that couldn't be read, none that a process is known to map.

        What was seen too recently to prove anything doesn't count: what changes it from now on is told of.
        """
        seen, told = self.seen, self.detector.nominate()
        untold = self.apart or seen.links or seen.again or seen.unstable or self._suspects
        return isinstance(told, Nominated) and not told and not untold and not self._mapped_here()

    def _mapped_here(self) -> bool:
        mapped, seen = self._writers.mapped(), self.seen
        return bool(mapped.forced & seen.entries.keys() or self._whereabouts.find(mapped.inodes, seen.signatures))

    def _nominated(self, ground: Ground) -> Nominated | Unknown:
        return Unknown(MOUNTED_INSIDE) if ground.mounts else self.detector.nominate()

    def _distrust_mapped(self, mapped: Nominated) -> None:
        seen = self.seen
        seen.racy |= mapped.forced & seen.entries.keys()
        for inode in mapped.inodes & seen.links.keys():
            seen.racy.update(seen.links[inode][1])
        as_named = {inode_of(seen.signatures[path]) for path in mapped.forced & seen.signatures.keys()}
        seen.racy |= self._whereabouts.find(mapped.inodes - as_named, seen.signatures)

    def _look(self, ground: Ground, found: Nominated, sink: Sink, pry: Pry | None) -> Nominated | Unknown:
        self.seen.racy |= found.forced & self.seen.entries.keys()
        look = ground.look(found, sink, self.seen, pry=pry, entering=self.detector.entering)
        if look.went_back:
            return Unknown(CLOCK_WENT_BACK)
        fresh = look.run()
        odd = look.is_odd()
        self._merge(fresh, look.looked)
        if odd:
            self._suspect(ground)
            look = ground.look(
                Nominated(set(self._suspects)), sink, self.seen, pry=pry, entering=self.detector.entering
            )
            self._merge(look.run(), look.looked)
        self.manner = Manner(WATCH)
        return found

    def _suspect(self, ground: Ground) -> None:
        """Find the files that are held open for writing under names that aren't theirs: what is written to them is told
        of under those, or not at all.
        """
        signatures = self.seen.signatures
        odd = {
            inode
            for inode, names in held(ground.root).items()
            if not any(name in signatures and inode_of(signatures[name]) == inode for name in names)
        }
        self._suspects &= signatures.keys()
        if odd:
            self._suspects |= {path for path, sig in signatures.items() if inode_of(sig) in odd}

    def distrust(self) -> None:
        """Have the contents that the base hasn't read again by the next look: they may not be in the store."""
        self.seen.racy |= self.apart.keys() & self.seen.entries.keys()

    def _merge(self, fresh: Seen, looked: set[str]) -> None:
        seen, entries = self.seen, self.seen.entries
        for path in looked:
            old, new, sig = entries.get(path), fresh.entries.get(path), fresh.signatures.get(path)
            if new is not None:
                entries[path] = new
            elif old is not None:
                del entries[path]
            if sig is not None:
                seen.signatures[path] = sig
                if self._whereabouts:
                    self._whereabouts.named(inode_of(sig), path)
            else:
                seen.signatures.pop(path, None)
            if old != new:
                seen.volatile += _is_cache(new) - _is_cache(old)
                self._moved(path, old, new)
        if seen.gaps or fresh.gaps:
            seen.gaps = (seen.gaps - looked) | fresh.gaps
        seen.racy, seen.links, seen.again, seen.unstable = fresh.racy, fresh.links, fresh.again, fresh.unstable
        seen.clock_ns = fresh.clock_ns
        seen.latest_ns = max(seen.latest_ns, fresh.latest_ns)

    def _moved(self, path: str, old: bytes | None, new: bytes | None) -> None:
        if path not in self.apart:
            self.apart[path] = old
        elif self.apart[path] == new:
            del self.apart[path]

    def _replace(self, fresh: Seen) -> None:
        step = manifests.difference(self.seen.entries, fresh.entries)
        self.seen = fresh
        self._whereabouts.clear()
        for path, old, new in step:
            self._moved(path, old, new)

    # The base

    def delta(self) -> Delta:
        """The step from the base to what is there."""
        entries = self.seen.entries
        return [(path, old, entries.get(path)) for path, old in self.apart.items()]

    def base_is(self, base: Manifest) -> None:
        """Count from this state."""
        self.apart = {path: old for path, old, _ in manifests.difference(base, self.seen.entries)}

    def base_moved(self, step: Delta) -> None:
        """Count from the state that this step leads to from the base."""
        entries = self.seen.entries
        for path, _, new in step:
            if entries.get(path) == new:
                self.apart.pop(path, None)
            else:
                self.apart[path] = new

    # Trust, but verify

    def audit(self, ground: Ground, sink: Sink) -> int:
        """Compare everything with what is known; how many paths differ although nobody nominated them. They are taken
        over as they are.
        """
        self.look(ground, sink, keeps=False)
        if self.manner.found_by != WATCH:
            return 0
        expected = self.seen
        fresh = ground.scan(sink, expected).run()
        meanwhile = self.detector.nominate()
        wrong = [path for path, _, _ in manifests.difference(expected.entries, fresh.entries)]
        self._replace(fresh)
        self.distrust()
        if isinstance(meanwhile, Unknown):
            return 0
        told = meanwhile.paths | meanwhile.forced | expected.racy | expected.again
        linked = {path for _, paths in expected.links.values() for path in paths}
        return sum(path not in told | linked and not _in(path, meanwhile.trees) for path in wrong)


def _in(path: str, trees: set[str]) -> bool:
    return path in trees or below(path, trees)


def _is_cache(data: bytes | None) -> bool:
    return data is not None and data[1:2] == e.VOLATILE
