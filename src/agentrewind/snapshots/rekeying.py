"""A target state as the present rules would name its contents.

A file's content id depends on whether it is private. Where the rules have changed since a snapshot was taken, the ids
of the files that changed class are computed anew, so that equal bytes compare as equal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentrewind.core.errors import SnapshotDamaged
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.reading import HashingSink
from agentrewind.snapshots.rules import PathClass
from agentrewind.snapshots.scan import class_of
from agentrewind.snapshots.sealing import Unsealable

if TYPE_CHECKING:
    from agentrewind.snapshots.entry import Entry
    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.rules import PathRules


def rekeyed(target: Manifest, rules: PathRules, contents: Contents) -> Manifest:
    """`target`, with the files whose class has changed under their new ids; `contents` learns where those lie.

    Raises:
        SnapshotDamaged: such a file can't be read from the store.
    """
    files = {path: data for path, data in target.items() if e.kind_of(data) == e.FILE}
    private = {path for path in files if class_of(rules, path) is PathClass.PRIVATE}
    leaders = {e.decode(files[path]).leader for path in private} - {""}
    changed: Manifest = {}
    for path, data in files.items():
        entry = e.decode(data)
        wanted = path in private or entry.leader in leaders
        if wanted != entry.private:
            try:
                changed[path] = e.encode(_rekeyed(entry, contents, private=wanted))
            except (ObjectMissing, ObjectDamaged, Unsealable) as error:
                raise SnapshotDamaged(
                    f"{path!r} can't be read from the store: {error}. Nothing was touched."
                ) from error
    return {**target, **changed} if changed else target


def _rekeyed(entry: Entry, contents: Contents, *, private: bool) -> Entry:
    sink = HashingSink(contents.keys)
    if entry.size > e.SMALL:
        chunks = [_alias(name, contents, sink, private=private) for name in contents.chunks(entry)]
        content = sink.put(b"".join(chunks), private=private)
        contents.hold(content, b"".join(chunks))
    else:
        content = _alias(entry.content, contents, sink, private=private)
    xattrs = entry.xattrs
    if xattrs:
        xattrs = contents.keys.seal(xattrs) if private else contents.keys.unseal(xattrs)
    return replace(entry, content=content, xattrs=xattrs, flags=entry.flags ^ e.PRIVATE)


def _alias(name: bytes, contents: Contents, sink: HashingSink, *, private: bool) -> bytes:
    if name == e.ZERO_ID:
        return name
    fresh = sink.put(contents.get(name), private=private)
    contents.alias(fresh, name)
    return fresh
