"""The present state of a workspace: every path looked at, every file that may have changed read.

Nothing is followed out of the root, nothing that vanishes or stays busy fails the scan, and what can't be read is said
to be unreadable, never absent.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from agentrewind.core.world import Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import READ, open_beneath, opened, split
from agentrewind.snapshots.entry import Entry
from agentrewind.snapshots.reading import ATTEMPTS, SIGNATURE, Sink, attributes_of, signature, take_file
from agentrewind.snapshots.rules import PathClass, PathRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrewind.snapshots.manifests import Manifest

_GONE = frozenset((errno.ENOENT, errno.ESTALE))
_OTHER_KIND = frozenset((errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.ENOTDIR))
_DENIED = frozenset((errno.EACCES, errno.EPERM))
_VOLATILE_NOTE = struct.Struct("<QQqq")
_HASHED_WHEN_EXCLUDED = 1 << 20
_LISTED_WHEN_EXCLUDED = 10_000
_PROGRESS_EVERY = 4096
_VOLATILE_DIRECTORY = e.encode(Entry(e.VOLATILE))
SQLITE = ("", "-wal", "-shm", "-journal")
"""What the names of the files of one database end in."""
SOCKET = "a socket: noted, not kept"
_WITHOUT_GAPS = frozenset(b"".join(e.TRACKED))
_KINDS = {stat.S_IFSOCK: SOCKET, stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(slots=True)
class Seen:
    """What one scan saw."""

    entries: Manifest = field(default_factory=dict)
    signatures: dict[str, bytes] = field(default_factory=dict)
    racy: set[str] = field(default_factory=set)
    """Paths whose signature proves nothing yet: changed too recently, or while being read."""
    links: dict[tuple[int, int], tuple[int, list[str]]] = field(default_factory=dict)
    """Of files with several links: the link count, and the paths that are in the world and kept."""
    unstable: list[Gap] = field(default_factory=list)
    clock_ns: int = 0
    latest_ns: int = 0
    """The latest change time among all paths: a lower bound of the file system's clock."""
    gaps: set[str] = field(default_factory=set)
    """Paths that are excluded or unreadable, or kept without something."""
    again: set[str] = field(default_factory=set)
    """Paths without a signature that may change without anybody's being told: unreadable, or excluded with several
    links.
    """
    volatile: int = 0
    """How many cache files, and directories of them, there are."""

    def copy(self) -> Seen:
        """With signatures of its own."""
        return replace(self, signatures=dict(self.signatures), racy=set(self.racy))


class Clocklike(Protocol):
    def now_ns(self, latest_seen_ns: int) -> int: ...


@dataclass(slots=True)
class Pry:
    """Opens what its owner may not read, for a restore that is about to set its mode anyway."""

    loosen: Callable[[str], int | None]
    """Make the path readable; its mode before, or None where that can't be done."""
    modes: dict[str, int] = field(default_factory=dict)

    def __call__(self, path: str) -> bool:
        if path in self.modes:
            return False
        mode = self.loosen(path)
        if mode is None:
            return False
        self.modes[path] = mode
        return True


class Scan:
    """One pass over the tree below `root` (a directory descriptor)."""

    def __init__(
        self,
        root: int,
        rules: PathRules,
        sink: Sink,
        known: Seen,
        clock: Clocklike,
        *,
        tick_ns: int,
        mounts: frozenset[str] = frozenset(),
        pry: Pry | None = None,
        progress: Callable[[int, int | None], None] | None = None,
        entering: Callable[[int, str], None] | None = None,
    ) -> None:
        """`entering` is told of each open directory, and its path, before it is listed."""
        self._root = root
        self._rules = rules
        self._sink = sink
        self._known = known
        self._mounts = mounts
        self._pry = pry
        self._progress = progress
        self._entering = entering
        self._device = os.fstat(root).st_dev
        self._seen = Seen(clock_ns=clock.now_ns(known.latest_ns))
        self._trusted_before = self._seen.clock_ns - tick_ns
        self._went_back = self._seen.clock_ns < known.clock_ns
        self._todo: list[tuple[str, PathClass]] = []
        self._linked: dict[tuple[int, int], list[tuple[str, bytes, PathClass, int]]] = {}
        self._volatile_directories: dict[str, bytes] = {}
        self._promoted: list[str] = []
        self._read: list[str] = []

    def run(self) -> Seen:
        self._todo.append(("", PathClass.TRACKED))
        self._walk()
        self._settle()
        return self._seen

    def _walk(self) -> None:
        while self._todo:
            self._directory(*self._todo.pop())

    def _settle(self) -> None:
        """What can only be said when everything was looked at."""
        self._settle_links()
        self._settle_sqlite()
        self._settle_volatile_directories()
        seen = self._seen
        for path, data in seen.entries.items():
            if data[1] in _WITHOUT_GAPS and not data[0] & e.LOSSY:  # nearly all
                continue
            if data[1:2] == e.VOLATILE:
                seen.volatile += 1
            elif data[1:2] not in e.TRACKED or data[0] & e.LOSSY:
                seen.gaps.add(path)
        seen.again.intersection_update(seen.gaps)

    # Directories

    def _directory(self, path: str, cls: PathClass) -> None:
        try:
            fd = self._open_directory(path)
        except OSError as error:
            if path and error.errno in _GONE:
                return
            if path and error.errno in (errno.ENOTDIR, errno.ELOOP):
                self._revisit(path)
            else:
                self._unreadable(path, f"this directory can't be opened: {error.strerror}")
            return
        try:
            st = os.fstat(fd)
            if st.st_dev != self._device:
                self._excluded(path, "another file system is mounted here")
                return
            if self._entering is not None:
                self._entering(fd, path)
            self._list(path, fd, cls, st)
        finally:
            os.close(fd)

    def _open_directory(self, path: str) -> int:
        try:
            return open_beneath(self._root, path)
        except PermissionError:
            if self._pry is None or not self._pry(path):
                raise
            return open_beneath(self._root, path)

    def _list(self, path: str, fd: int, cls: PathClass, st: os.stat_result) -> None:
        """Enter everything in the directory; once more if it changed meanwhile, as often as a file is read."""
        for _ in range(ATTEMPTS):
            before, todo = signature(st), len(self._todo)
            try:
                self._names(path, fd, cls)
            except OSError as error:
                self._drop_below(path, todo)
                self._unreadable(path, f"this directory can't be listed: {error.strerror}")
                return
            st = os.fstat(fd)
            if signature(st) == before:
                break
            self._drop_below(path, todo)
        else:
            self._names(path, fd, cls)
            self._seen.unstable.append(Gap(path, "this directory kept changing while it was listed"))
        self._enter_directory(path, fd, cls, st)

    def _drop_below(self, path: str, todo: int) -> None:
        del self._todo[todo:]
        prefix = path + "/" if path else ""
        for found in [p for p in self._seen.entries if p.startswith(prefix) and p and "/" not in p[len(prefix) :]]:
            del self._seen.entries[found]
            self._seen.signatures.pop(found, None)
            self._seen.racy.discard(found)
        for inode, members in list(self._linked.items()):
            self._linked[inode] = [m for m in members if split(m[0])[0] != path]

    def _enter_directory(self, path: str, fd: int, cls: PathClass, st: os.stat_result) -> None:
        sig = signature(st)
        if (
            self._is_known(path, sig)
            and self._known.entries[path][1:2] == e.DIRECTORY
            and cls is not PathClass.VOLATILE
        ):
            self._enter(path, self._known.entries[path], sig)
            return
        mode = stat.S_IMODE(st.st_mode)
        if self._pry is not None:
            mode = self._pry.modes.get(path, mode)
        xattrs, lost = attributes_of(fd)
        data = e.encode(Entry(e.DIRECTORY, mode, st.st_uid, st.st_gid, st.st_mtime_ns, xattrs=xattrs, flags=lost))
        if cls is PathClass.VOLATILE:
            self._volatile_directories[path] = data
            data = _VOLATILE_DIRECTORY
        self._enter(path, data, sig, st)

    def _names(self, path: str, fd: int, cls: PathClass) -> None:
        """The hot loop: for an unchanged path one `stat`, one comparison."""
        prefix = path + "/" if path else ""
        seen, known = self._seen, self._known
        entries, signatures = seen.entries, seen.signatures
        known_signature, known_entries, known_racy = known.signatures.get, known.entries, known.racy
        quick = not self._went_back and not self._mounts and cls is not PathClass.VOLATILE
        latest, pack = seen.latest_ns, SIGNATURE.pack
        with os.scandir(fd) as found:
            for item in found:
                name = item.name
                where = prefix + name
                if item.is_dir(follow_symlinks=False):
                    self._subdirectory(where, name, cls)
                    continue
                try:
                    st = item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._unreadable(where, f"can't be looked at: {error.strerror}")
                    continue
                changed = st.st_ctime_ns
                if changed > latest:  # noqa: PLR1730 (a call for each file is a twentieth of a scan)
                    latest = changed
                sig = pack(st.st_dev, st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, changed)
                if quick and known_signature(where) == sig and st.st_nlink == 1 and where not in known_racy:
                    entries[where] = known_entries[where]
                    signatures[where] = sig
                else:
                    self._look(fd, where, name, st, cls)
        seen.latest_ns = latest
        if self._progress is not None and entries:
            self._progress(len(entries), None)

    def _subdirectory(self, path: str, name: str, parent: PathClass) -> None:
        cls = self._rules.of(path, name, parent, is_directory=True)
        if path in self._mounts:
            self._excluded(path, "another file system is mounted here")
        elif cls is PathClass.EXCLUDED:
            self._excluded(path, "excluded by a rule", self._note_of_directory(path))
        else:
            self._todo.append((path, cls))

    # One path

    def _look(self, directory: int, path: str, name: str, st: os.stat_result, parent: PathClass) -> None:
        cls = self._rules.of(path, name, parent, is_directory=False)
        for _ in range(ATTEMPTS):
            try:
                self._dispatch(directory, path, name, st, cls)
            except OSError as error:
                if error.errno in _GONE:
                    return
                if error.errno not in _OTHER_KIND:
                    self._unreadable(path, f"can't be read: {error.strerror}")
                    return
            else:
                break
            try:  # something else stands there by now
                st = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except OSError:
                return
        else:
            self._unreadable(path, "kept changing its type")
        if parent is PathClass.VOLATILE and e.kind_of(self._seen.entries.get(path)) != e.VOLATILE:
            self._promoted.append(split(path)[0])

    def _dispatch(self, directory: int, path: str, name: str, st: os.stat_result, cls: PathClass) -> None:
        kind = stat.S_IFMT(st.st_mode)
        sig = signature(st)
        if path in self._mounts:
            self._excluded(path, "something is mounted over this file")
        elif kind in _KINDS:
            self._excluded(path, _KINDS[kind])
        elif cls is PathClass.EXCLUDED:
            self._excluded(path, "excluded by a rule", self._note_of_file(directory, name, st))
            if st.st_nlink > 1:
                self._seen.again.add(path)
        elif kind == stat.S_IFREG and st.st_nlink > 1:
            self._linked.setdefault((st.st_dev, st.st_ino), []).append((path, sig, cls, st.st_nlink))
        elif self._is_known(path, sig) and (cls is not PathClass.VOLATILE or kind == stat.S_IFREG):
            self._enter(path, self._known.entries[path], sig)
        elif kind == stat.S_IFREG and cls is PathClass.VOLATILE:
            note = _VOLATILE_NOTE.pack(st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
            self._enter(path, e.encode(Entry(e.VOLATILE, note=note)), sig, st)
        elif kind == stat.S_IFREG:
            self._file(directory, path, name, private=cls is PathClass.PRIVATE)
        elif kind == stat.S_IFLNK:
            target = os.fsencode(os.readlink(name, dir_fd=directory))
            entry = Entry(e.SYMLINK, 0, st.st_uid, st.st_gid, st.st_mtime_ns, target=target)
            self._enter(path, e.encode(entry), sig, st)
        elif kind == stat.S_IFIFO:
            entry = Entry(e.FIFO, stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns)
            self._enter(path, e.encode(entry), sig, st)
        else:  # a directory by now
            self._todo.append((path, cls))

    def _file(self, directory: int, path: str, name: str, *, private: bool) -> None:
        fd = self._open_file(directory, path, name)
        try:
            taken = take_file(fd, self._sink, private=private)
        finally:
            os.close(fd)
        data = taken.entry
        if self._pry is not None and path in self._pry.modes:
            data = e.with_mode(data, self._pry.modes[path])
        self._enter(path, data, taken.signature, taken.stat)
        self._read.append(path)
        if taken.stat.st_nlink > 1:
            self._linked.setdefault((taken.stat.st_dev, taken.stat.st_ino), []).append(
                (path, taken.signature, PathClass.PRIVATE if private else PathClass.TRACKED, taken.stat.st_nlink)
            )
        if not taken.stable:
            self._seen.racy.add(path)
            self._seen.unstable.append(Gap(path, "kept changing while it was read; kept as last read"))

    def _open_file(self, directory: int, path: str, name: str) -> int:
        try:
            return os.open(name, READ, dir_fd=directory)
        except PermissionError:
            if self._pry is None or not self._pry(path):
                raise
            return os.open(name, READ, dir_fd=directory)

    def _is_known(self, path: str, sig: bytes) -> bool:
        """The trust rule: an equal signature that was old enough when its content was read."""
        return (
            self._known.signatures.get(path) == sig
            and path not in self._known.racy
            and not (self._went_back and self._is_recent(sig))
        )

    def _is_recent(self, sig: bytes) -> bool:
        mtime: int
        ctime: int
        mtime, ctime = struct.unpack("<qq", sig[-16:])
        return max(mtime, ctime) >= self._trusted_before

    def _enter(self, path: str, data: bytes, sig: bytes, st: os.stat_result | None = None) -> None:
        """`st` where the path was looked at anew, rather than known."""
        seen = self._seen
        seen.entries[path] = data
        seen.signatures[path] = sig
        if st is not None:
            if max(st.st_mtime_ns, st.st_ctime_ns) >= self._trusted_before:
                seen.racy.add(path)
            if self._pry is not None and path in self._pry.modes:
                seen.racy.add(path)
            seen.latest_ns = max(seen.latest_ns, st.st_ctime_ns)

    def _unreadable(self, path: str, why: str) -> None:
        self._seen.entries[path] = e.encode(Entry(e.UNREADABLE, why=why))
        self._seen.again.add(path)

    # What is excluded

    def _excluded(self, path: str, why: str, note: bytes = b"") -> None:
        self._seen.entries[path] = e.encode(Entry(e.EXCLUDED, why=why, note=note))

    def _note_of_file(self, directory: int, name: str, st: os.stat_result) -> bytes:
        """A keyed hash of a small file's content, of a larger one's size and time."""
        if stat.S_ISREG(st.st_mode) and st.st_size <= _HASHED_WHEN_EXCLUDED:
            try:
                fd = os.open(name, READ, dir_fd=directory)
            except OSError:
                pass
            else:
                try:
                    return self._sink.keys.note(b"content" + os.pread(fd, _HASHED_WHEN_EXCLUDED, 0))
                finally:
                    os.close(fd)
        return self._sink.keys.note(b"stat%d %d %d" % (st.st_mode, st.st_size, st.st_mtime_ns))

    def _note_of_directory(self, path: str) -> bytes:
        """A keyed hash of names, sizes and times below, of the first ten thousand."""
        hashing = self._sink.keys.noting()
        todo, left = [path], _LISTED_WHEN_EXCLUDED
        while todo and left > 0:
            where = todo.pop()
            try:
                with opened(self._root, where) as fd, os.scandir(fd) as found:
                    if self._entering is not None:
                        self._entering(fd, where)
                    for item in sorted(found, key=lambda item: item.name)[:left]:
                        left -= 1
                        st = item.stat(follow_symlinks=False)
                        is_directory = stat.S_ISDIR(st.st_mode)
                        size, mtime = (0, 0) if is_directory else (st.st_size, st.st_mtime_ns)
                        below = f"{where}/{item.name}"
                        hashing.update(b"%s\0%d %d %d\n" % (os.fsencode(below), st.st_mode, size, mtime))
                        if is_directory and st.st_dev == self._device:
                            todo.append(below)
            except OSError:
                hashing.update(b"unreadable")
        return hashing.digest()[:16]

    # After the walk

    def _settle_links(self) -> None:
        """Files with several links: read once, named as a group where several of the names are in the world."""
        for inode, members in self._linked.items():
            if members:
                self._settle_group(inode, members)

    def _settle_group(self, inode: tuple[int, int], members: list[tuple[str, bytes, PathClass, int]]) -> None:
        private = any(cls is PathClass.PRIVATE for _, _, cls, _ in members)
        paths = sorted({path for path, *_ in members})
        leader = paths[0] if len(paths) > 1 else ""
        data = self._known_content(members, private=private)
        sig, nlink = members[0][1], members[0][3]
        recent = False
        if data is None:
            data, sig, nlink, recent = self._read_linked(inode, paths, private=private)
            if data is None:
                return
        data = e.with_leader(data, leader)
        for path in paths:
            self._seen.entries[path] = data
            self._seen.signatures[path] = sig
            if recent:
                self._seen.racy.add(path)
        self._seen.links[inode] = (nlink, paths)

    def _known_content(self, members: list[tuple[str, bytes, PathClass, int]], *, private: bool) -> bytes | None:
        """The known entry, if every name says that nothing has changed."""
        data = None
        for path, sig, _, _ in members:
            data = self._known.entries.get(path)
            if e.kind_of(data) != e.FILE or not self._is_known(path, sig):
                return None
        return data if data is not None and bool(data[0] & e.PRIVATE) == private else None

    def _read_linked(
        self, inode: tuple[int, int], paths: list[str], *, private: bool
    ) -> tuple[bytes | None, bytes, int, bool]:
        why = "its link could not be read"
        for path in paths:
            try:
                with opened(self._root, path, READ) as fd:
                    st = os.fstat(fd)
                    if (st.st_dev, st.st_ino) != inode:
                        continue
                    taken = take_file(fd, self._sink, private=private)
            except OSError as error:
                why = f"can't be read: {error.strerror}"
                if error.errno in _DENIED and self._pry is not None and self._pry(path):
                    return self._read_linked(inode, paths, private=private)
                continue
            self._read.append(path)
            if not taken.stable:
                self._seen.unstable.append(Gap(path, "kept changing while it was read; kept as last read"))
            data = taken.entry
            mode = next((self._pry.modes[p] for p in paths if p in self._pry.modes), None) if self._pry else None
            if mode is not None:
                data = e.with_mode(data, mode)
            recent = not taken.stable or self._is_recent(taken.signature) or mode is not None
            return data, taken.signature, taken.stat.st_nlink, recent
        for path in paths:
            self._look_again(path, why)
        return None, b"", 0, False

    def _look_again(self, path: str, why: str) -> None:
        """A name of a group that no longer is what the walk saw: absent if it is gone, else unreadable."""
        try:
            parent, name = split(path)
            with opened(self._root, parent) as directory:
                os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError:
            pass
        self._unreadable(path, why)

    def _settle_sqlite(self) -> None:
        """A database and its `-wal`, `-shm` and `-journal` are one unit: as long as one of them changes while another
        is read, all that changed are read again.
        """
        for base in {sqlite_base(path) for path in self._read}:
            unit = [base + suffix for suffix in SQLITE if base + suffix in self._seen.entries]
            if len(unit) > 1 and not self._unit_settles(unit):
                self._seen.unstable.append(Gap(base, "this database kept changing while it was read"))

    def _unit_settles(self, unit: list[str]) -> bool:
        for _ in range(ATTEMPTS):
            changed = [path for path in unit if not self._is_as_read(path)]
            if not changed:
                return True
            for path in changed:
                self._revisit(path)
            self._settle_links()
        return False

    def _is_as_read(self, path: str) -> bool:
        parent, name = split(path)
        try:
            with opened(self._root, parent) as directory:
                st = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return path not in self._seen.entries
        return self._seen.signatures.get(path) == signature(st)

    def _revisit(self, path: str) -> None:
        """Look once more at a path that is something else by now; one that is gone is absent."""
        parent, name = split(path)
        self._seen.entries.pop(path, None)
        self._seen.signatures.pop(path, None)
        try:
            with opened(self._root, parent) as directory:
                st = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if not stat.S_ISDIR(st.st_mode):
                    above = class_of(self._rules, parent, is_directory=True) if parent else PathClass.TRACKED
                    self._look(directory, path, name, st, above)
        except OSError as error:
            if error.errno not in _GONE | {errno.ENOTDIR, errno.ELOOP}:
                self._unreadable(path, f"can't be read: {error.strerror}")

    def _settle_volatile_directories(self) -> None:
        """A cache directory that holds something to be kept is itself kept."""
        for path in self._promoted:
            at = path
            while at in self._volatile_directories:
                self._seen.entries[at] = self._volatile_directories.pop(at)
                at = split(at)[0]


def sqlite_base(path: str) -> str:
    """The name of the database, if `path` is one of its files."""
    if path.endswith(SQLITE[1:]):
        return path[: path.rindex("-")]
    return path


def class_of(rules: PathRules, path: str, *, is_directory: bool = False) -> PathClass:
    """The class of a path, from the root down."""
    cls = PathClass.TRACKED
    parts = path.split("/")
    for depth, name in enumerate(parts):
        inner = depth < len(parts) - 1
        cls = rules.of("/".join(parts[: depth + 1]), name, cls, is_directory=inner or is_directory)
        if cls is PathClass.EXCLUDED:
            break
    return cls
