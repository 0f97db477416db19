"""An independent look at a directory tree: every byte and every attribute that must come back."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path


def describe(root: Path, *, ignore: tuple[str, ...] = ()) -> dict[str, dict[str, object]]:
    """Each path below `root` (and the root as `.`) with type, mode, owner, times, content, links, xattrs, holes."""
    found: dict[str, dict[str, object]] = {}
    groups: dict[tuple[int, int], list[str]] = {}
    top = os.fsencode(root)
    stack = [b""]
    while stack:
        rel = stack.pop()
        path = os.path.join(top, rel) if rel else top
        info = os.lstat(path)
        name = os.fsdecode(rel) or "."
        found[name] = _entry(path, info)
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            groups.setdefault((info.st_dev, info.st_ino), []).append(name)
        if stat.S_ISDIR(info.st_mode):
            names = [item for item in os.listdir(path) if os.fsdecode(item) not in ignore]
            stack += [os.path.join(rel, item) if rel else item for item in names]
    for names in groups.values():
        if len(names) > 1:
            for name in names:
                found[name]["links"] = sorted(names)
    return found


def _entry(path: bytes, info: os.stat_result) -> dict[str, object]:
    kind = stat.S_IFMT(info.st_mode)
    entry: dict[str, object] = {"kind": kind, "owner": (info.st_uid, info.st_gid), "mtime": info.st_mtime_ns}
    if kind == stat.S_IFLNK:
        entry["target"] = os.readlink(path)
        return entry
    entry["mode"] = stat.S_IMODE(info.st_mode)
    if kind == stat.S_IFREG:
        entry["size"] = info.st_size
        entry["sha256"] = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
        entry["holes"] = info.st_size > 65536 and info.st_blocks * 512 < info.st_size - 4096
    if kind in (stat.S_IFREG, stat.S_IFDIR):
        names = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user.")]
        entry["xattrs"] = {name: os.getxattr(path, name, follow_symlinks=False) for name in sorted(names)}
    return entry


def content(root: Path) -> dict[str, dict[str, object]]:
    """All that is there but the times, which differ between two runs."""
    return {
        name: {key: value for key, value in entry.items() if key != "mtime"} for name, entry in describe(root).items()
    }


def differences(left: dict[str, dict[str, object]], right: dict[str, dict[str, object]]) -> list[str]:
    """One line a path that isn't the same on both sides."""
    lines = []
    for name in sorted(left.keys() | right.keys()):
        a, b = left.get(name, {}), right.get(name, {})
        fields = [field for field in sorted(a.keys() | b.keys()) if a.get(field) != b.get(field)]
        if fields:
            lines.append(f"{name!r}: " + ", ".join(f"{field} {a.get(field)!r} != {b.get(field)!r}" for field in fields))
    return lines
