"""The directories of which an overlay is stacked: what one of them changes, and several of them as one."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import opened, split
from agentrewind.snapshots.manifests import below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.scan import Seen

_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
_OWN = b"user.overlay."


@dataclass(slots=True)
class Layer:
    """What one layer does to the state below it."""

    entries: Manifest
    gone: set[str] = field(default_factory=set)
    """Removed, with all that lay below."""
    emptied: set[str] = field(default_factory=set)
    """Directories of which nothing from below shows through."""


def read_layer(upper: int, seen: Seen) -> Layer:
    """A scan of an upper directory as what it means."""
    layer = Layer({})
    for path, data in seen.entries.items():
        kind = data[1:2]
        if kind == e.EXCLUDED and _is_whiteout(upper, path):
            layer.gone.add(path)
            continue
        layer.entries[path] = _without_own_attributes(data)
        if path and (kind != e.DIRECTORY or _is_opaque(upper, path)):
            layer.emptied.add(path)
    return layer


def _is_whiteout(upper: int, path: str) -> bool:
    parent, name = split(path)
    with opened(upper, parent) as directory:
        st = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return stat.S_ISCHR(st.st_mode) and st.st_rdev == 0


def _is_opaque(upper: int, path: str) -> bool:
    with opened(upper, path) as directory:
        names = os.listxattr(directory)
        return any(name in names and os.getxattr(directory, name) == b"y" for name in _OPAQUE)


def _without_own_attributes(data: bytes) -> bytes:
    """Without the marks that an overlay of a plain user leaves in its layers."""
    if _OWN not in data:
        return data
    entry = e.decode(data)
    kept = [pair for pair in e.decode_xattrs(entry.xattrs) if not pair[0].startswith(_OWN)]
    return e.encode(replace(entry, xattrs=e.encode_xattrs(kept)))


def folded(state: Manifest, layer: Layer) -> Manifest:
    """The state that shows when `layer` lies on `state`."""
    covering = {path for path in layer.gone | layer.emptied if e.kind_of(state.get(path)) == e.DIRECTORY}
    kept = dict(state)
    if covering:
        kept = {path: data for path, data in state.items() if not below(path, covering)}
    for path in layer.gone:
        kept.pop(path, None)
    touched = (state.keys() - kept.keys()) | (layer.entries.keys() & state.keys())
    broken = {leader for path in touched if (leader := _leader(state[path]))}
    if broken:
        _regroup(kept, broken, layer.entries.keys())
    kept.update(layer.entries)
    return kept


_PLAIN = len(e.encode(e.Entry(e.FILE, content=bytes(32))))


def _leader(data: bytes) -> str:
    return e.decode(data).leader if data[1:2] == e.FILE and len(data) > _PLAIN else ""


def _regroup(state: Manifest, broken: set[str], replaced: Collection[str]) -> None:
    """A name of a linked file that was written or removed is no longer one of its names."""
    groups: dict[str, list[str]] = {}
    for path, data in state.items():
        leader = _leader(data)
        if leader in broken and path not in replaced:
            groups.setdefault(leader, []).append(path)
    for names in groups.values():
        leader = min(names) if len(names) > 1 else ""
        for path in names:
            state[path] = e.with_leader(state[path], leader)


def linked(state: Manifest) -> Iterator[str]:
    """Paths that are one of several names of a file."""
    return (path for path, data in state.items() if _leader(data))


def squash(layers: list[Path], to: Path) -> None:
    """Make in the new directory `to` one layer that does what `layers` (topmost first) do together.

    Files are linked, not copied: no layer is ever written to again.
    """
    to.mkdir(mode=0o700)
    for layer in reversed(layers):
        _lay(layer, to)


def _lay(layer: Path, on: Path) -> None:
    with os.scandir(layer) as found:
        for item in found:
            target = on / item.name
            if not item.is_dir(follow_symlinks=False):
                _clear(target)
                os.link(item.path, target, follow_symlinks=False)
                continue
            if not _is_directory(target) or any(_marked(layer / item.name, mark) for mark in _OPAQUE):
                _clear(target)
                target.mkdir(mode=0o700)
            _lay(layer / item.name, target)
    _copy_attributes(layer, on)


def _is_directory(path: Path) -> bool:
    return os.path.lexists(path) and stat.S_ISDIR(os.lstat(path).st_mode)


def _marked(directory: Path, mark: str) -> bool:
    return mark in os.listxattr(directory) and os.getxattr(directory, mark) == b"y"


def _clear(path: Path) -> None:
    if _is_directory(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy_attributes(source: Path, to: Path) -> None:
    """All of them, but a directory that hid what lies below goes on hiding it."""
    st, names = os.stat(source), os.listxattr(source)
    os.chown(to, st.st_uid, st.st_gid)
    for name in set(os.listxattr(to)) - {*names, *_OPAQUE}:
        os.removexattr(to, name)
    for name in names:
        os.setxattr(to, name, os.getxattr(source, name))
    os.chmod(to, stat.S_IMODE(st.st_mode))
    os.utime(to, ns=(st.st_atime_ns, st.st_mtime_ns))
