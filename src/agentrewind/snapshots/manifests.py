"""States and steps between them: the body of a manifest record, and what differs between two states.

A manifest is `path -> encoded entry`. A step holds the old and the new entry of each path that changed, so that it can
be walked both ways; every so often a record holds the whole state as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentrewind.core.world import CHANGES_KEPT, Change, Changes, Coverage, Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import split
from agentrewind.snapshots.entry import Malformed

Manifest = dict[str, bytes]
Delta = list[tuple[str, bytes | None, bytes | None]]

_LENGTHS = struct.Struct("<III")
_SECTIONS = struct.Struct("<IQ")
_NONE = 0xFFFFFFFF


def encode(head: bytes, delta: Delta, full: Manifest | None) -> bytes:
    """Head, then the step, then the whole state if it is given."""
    steps = b"".join([_step(*item) for item in delta])
    whole = b"" if full is None else b"".join([_step(path, None, data) for path, data in full.items()])
    return _SECTIONS.pack(len(head), len(steps)) + head + steps + whole


def _step(path: str, old: bytes | None, new: bytes | None) -> bytes:
    name = e.encode_text(path)
    lengths = _LENGTHS.pack(len(name), _NONE if old is None else len(old), _NONE if new is None else len(new))
    return b"".join((lengths, name, old or b"", new or b""))


def head_of(body: bytes) -> bytes:
    """Raises: Malformed."""
    size = _sections(body)[0]
    return body[_SECTIONS.size : _SECTIONS.size + size]


def delta_of(body: bytes) -> Delta:
    """Raises: Malformed."""
    head, steps = _sections(body)
    start = _SECTIONS.size + head
    return _steps(body, start, start + steps)


def full_of(body: bytes) -> Manifest:
    """Raises: Malformed."""
    head, steps = _sections(body)
    whole = _steps(body, _SECTIONS.size + head + steps, len(body))
    state = {path: new for path, _, new in whole if new is not None}
    if len(state) != len(whole):
        raise Malformed("a state names a path twice")
    return state


def _sections(body: bytes) -> tuple[int, int]:
    try:
        head, steps = _SECTIONS.unpack_from(body)
    except struct.error as error:
        raise Malformed("a manifest ends too early") from error
    if _SECTIONS.size + head + steps > len(body):
        raise Malformed("a manifest ends too early")
    return head, steps


def _steps(body: bytes, at: int, end: int) -> Delta:
    delta: Delta = []
    try:
        while at < end:
            names, olds, news = _LENGTHS.unpack_from(body, at)
            at += _LENGTHS.size
            path = e.check_path(e.decode_text(body[at : at + names]))
            at += names
            old, at = _optional(body, at, olds)
            new, at = _optional(body, at, news)
            delta.append((path, old, new))
    except struct.error as error:
        raise Malformed("a manifest ends too early") from error
    if at != end:
        raise Malformed("a manifest ends in the middle of a path")
    return delta


def _optional(body: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    """Raises: Malformed."""
    if size == _NONE:
        return None, at
    data = body[at : at + size]
    if size < e.LEAST or (data[1:2] == e.FILE and size < e.LEAST_OF_FILE):
        raise Malformed("an entry ends too early")
    if size > (e.LEAST_OF_FILE if data[1:2] == e.FILE else e.LEAST):
        e.decode(data)  # more than numbers: names, texts
    return data, at + size


def apply(manifest: Manifest, delta: Delta, *, backwards: bool) -> None:
    """Take one step in place.

    Raises:
        Malformed: the step doesn't fit the state.
    """
    for path, old, new in delta:
        before, after = (new, old) if backwards else (old, new)
        if manifest.get(path) != before:
            raise Malformed(f"a step changes {path!r} from something that it was not")
        if after is None:
            del manifest[path]
        else:
            manifest[path] = after


def difference(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Delta:
    """The step from one state to the other."""
    if old is new or old == new:
        return []
    before = old.get
    delta: Delta = [(path, before(path), data) for path, data in new.items() if before(path) != data]
    if len(old) + sum(was is None for _, was, _ in delta) != len(new):
        delta += [(path, old[path], None) for path in old.keys() - new.keys()]
    return delta


def joined(steps: Iterable[Delta]) -> Delta:
    """Several steps, one after the other, as one: without what they take back again."""
    ends: dict[str, tuple[bytes | None, bytes | None]] = {}
    for step in steps:
        for path, old, new in step:
            ends[path] = (ends[path][0] if path in ends else old, new)
    return [(path, old, new) for path, (old, new) in ends.items() if old != new]


def fingerprint(manifest: Manifest) -> int:
    return e.add(0, sum(e.weight(path, data) for path, data in manifest.items()), 0)


def moved_fingerprint(before: int, delta: Delta) -> int:
    plus = sum(e.weight(path, new) for path, _, new in delta if new is not None)
    minus = sum(e.weight(path, old) for path, old, _ in delta if old is not None)
    return e.add(before, plus, minus)


@dataclass(frozen=True, slots=True)
class Totals:
    """How many tracked entries a state has, and how many bytes of files."""

    entries: int = 0
    bytes: int = 0

    def moved(self, delta: Delta) -> Totals:
        entries, size = self.entries, self.bytes
        for _, old, new in delta:
            for data, sign in ((old, -1), (new, 1)):
                if data is not None and data[1:2] in e.TRACKED:
                    entries += sign
                    if data[1:2] == e.FILE:
                        size += sign * e.size_of(data)
        return Totals(entries, size)


def below(path: str, tops: set[str] | frozenset[str]) -> bool:
    """Whether an ancestor of `path` is one of `tops` (the root, `""`, counts as one)."""
    if not tops:
        return False
    while path:
        path = split(path)[0]
        if path in tops:
            return True
    return False


def unreadable_in(delta: Delta) -> set[str]:
    return {path for path, old, new in delta if e.UNREADABLE in (e.kind_of(old), e.kind_of(new))}


def changes(delta: Delta) -> Changes:
    """What a person would call the changes of a step.

    Left out: what is excluded, volatile or unreadable on either side (nothing is known about it, so it is never
    "deleted"), and a directory of which only the time moved because something in it changed.
    """
    unknown = unreadable_in(delta)
    found: dict[str, str] = {}
    quiet: list[str] = []
    explained: set[str] = set()
    for path, old, new in delta:
        status = _status(old, new)
        if status != "P" and path:
            explained.add(split(path)[0])
        if status == "P" and _only_time_of_directory(old, new):
            quiet.append(path)
        elif status and not below(path, unknown):
            found[path] = status
    found.update((path, "P") for path in quiet if path not in explained and not below(path, unknown))
    first = sorted(found)[:CHANGES_KEPT]
    deleted = sum(status == "D" for status in found.values())
    return Changes(tuple(Change(found[path], path) for path in first), len(found), deleted)


def _status(old: bytes | None, new: bytes | None) -> str:
    before, after = e.kind_of(old), e.kind_of(new)
    if not {before, after} <= e.TRACKED | {b""}:
        return ""
    if e.same(old, new):
        return ""
    if old is None or new is None:
        return "A" if old is None else "D"
    if before != after:
        return "T"
    return "P" if e.holds_the_same(old, new) else "M"


def _only_time_of_directory(old: bytes | None, new: bytes | None) -> bool:
    if old is None or new is None or e.kind_of(old) != e.DIRECTORY:
        return False
    return e.without_time(old) == e.without_time(new)


def coverage(manifest: Manifest, totals: Totals, unstable: tuple[Gap, ...] = ()) -> Coverage:
    """What a state holds and what it doesn't, read off its entries."""
    gaps: dict[bytes, list[Gap]] = {e.EXCLUDED: [], e.UNREADABLE: [], e.VOLATILE: []}
    lossy: list[Gap] = []
    for path, data in manifest.items():
        if data[1:2] in gaps:
            gaps[data[1:2]].append(Gap(path, e.decode(data).why))
        elif data[0] & e.LOSSY:
            lossy.append(Gap(path, e.lost(data)))
    return Coverage(
        totals.entries, totals.bytes, tuple(sorted(gaps[e.EXCLUDED], key=_by_path)),
        tuple(sorted(gaps[e.UNREADABLE], key=_by_path)), unstable=unstable, lossy=tuple(sorted(lossy, key=_by_path)),
        volatile=len(gaps[e.VOLATILE]),
    )  # fmt: skip


def _by_path(gap: Gap) -> str:
    return gap.path
