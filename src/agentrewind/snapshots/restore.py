"""One pass of a restore: carrying out a plan, each act only on what still is what the live snapshot holds.

Everything happens through directory descriptors that were reached without following a link. What turns out to be
something else than was saved isn't touched; it is a conflict, and the caller saves the present again and plans anew.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import RestoreRefused, SnapshotDamaged
from agentrewind.core.world import Gap
from agentrewind.snapshots import beneath
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import HANDLE, handle_path, opened, split
from agentrewind.snapshots.entry import CHUNK, SMALL, ZERO_ID, Entry
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.private import Unsealable
from agentrewind.snapshots.reading import HashingSink, inode_of, is_zero, read_xattrs, signature, without_ctime
from agentrewind.snapshots.scan import is_as_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.plan import FileStep, Plan
    from agentrewind.snapshots.scan import Seen
    from agentrewind.snapshots.store import Store

_BLOCK = 4096
_PREFETCHED_BYTES = 32 << 20
_SPARE_BYTES = 1 << 20
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_IN_PLACE = frozenset((errno.ETXTBSY, errno.EACCES, errno.EPERM))
_CONFLICTS = frozenset(
    (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EBUSY)
)
_NO_XATTRS = frozenset((errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.ERANGE, errno.E2BIG))
_OWNER_ALL = 0o700

_DISPLACED = named("snapshot.restore-displaced")
_REMOVED = named("snapshot.restore-removed")
_DIRECTORY_MADE = named("snapshot.restore-directory-made")
_FILE_OPENED = named("snapshot.restore-file-opened")
_FILE_WRITTEN = named("snapshot.restore-file-written")
_TEMPORARY_WRITTEN = named("snapshot.restore-temporary-written")
_EXCHANGED = named("snapshot.restore-exchanged")
_LINKED = named("snapshot.restore-linked")
_OTHER_MADE = named("snapshot.restore-other-made")
_ATTRIBUTES_SET = named("snapshot.restore-attributes-set")
_DIRECTORY_SETTLED = named("snapshot.restore-directory-settled")


class Conflict(Exception):
    """Something else stands there than was saved; it was not touched."""


@dataclass(slots=True)
class Outcome:
    touched: bool = False
    conflicts: list[Gap] = field(default_factory=list)
    lossy: dict[str, set[str]] = field(default_factory=dict)
    """Path to the names of the attributes that couldn't be set."""


class Contents:
    """The objects of a plan: all read and compared before the first act, the small ones kept for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[bytes, bytes] = {}
        self._aliases: dict[bytes, bytes] = {}
        self._room = _PREFETCHED_BYTES
        self.keys = store.keys
        self.place = store.place

    def alias(self, name: bytes, stored: bytes) -> None:
        """Read `stored` where `name` is asked for."""
        self._aliases[name] = stored

    def hold(self, name: bytes, data: bytes) -> None:
        """Have `data` at hand under `name`."""
        self._kept[name] = data

    def get(self, name: bytes) -> bytes:
        """Raises: ObjectMissing, ObjectDamaged."""
        data = self._kept.get(name)
        return self._store.get(self._aliases.get(name, name)) if data is None else data

    def chunks(self, entry: Entry) -> list[bytes]:
        """The ids of a large file's chunks."""
        ids = self.get(entry.content)
        if len(ids) != -(-entry.size // CHUNK) * 32:
            raise ObjectDamaged("a list of chunks doesn't fit the size of its file")
        return [ids[at : at + 32] for at in range(0, len(ids), 32)]

    def check(self, steps: list[FileStep], target: str) -> None:
        """Read and compare every object that the plan needs.

        Raises:
            SnapshotDamaged: with the paths whose objects are missing or wrong.
        """
        bad: list[str] = []
        for step in sorted(steps, key=lambda step: self._store.place(e.content_of(step.data))):
            if step.rewrite:
                try:
                    self.check_file(e.decode(step.data))
                except (ObjectMissing, ObjectDamaged) as error:
                    bad.append(f"{step.paths[0]!r} ({error})")
        if bad:
            raise SnapshotDamaged(
                f"Snapshot {target} can't be brought back: {'; '.join(bad[:10])}"
                f"{f' and {len(bad) - 10} more' if len(bad) > 10 else ''}. Nothing was touched."  # noqa: PLR2004
            )

    def check_file(self, entry: Entry) -> int:
        """Read all objects of a file; how many. Raises: ObjectMissing, ObjectDamaged."""
        self.xattrs(entry)
        data = self._keep(entry.content)
        if entry.size <= SMALL:
            if len(data) != entry.size:
                raise ObjectDamaged("an object doesn't have the size of its file")
            return 1
        names = {name for name in self.chunks(entry) if name != ZERO_ID}
        for name in names:
            self._keep(name)
        return 1 + len(names)

    def _keep(self, name: bytes) -> bytes:
        data = self.get(name)
        if name not in self._kept and len(data) <= self._room:
            self._kept[name] = data
            self._room -= len(data)
        return data

    def xattrs(self, entry: Entry) -> list[tuple[bytes, bytes]]:
        if not entry.xattrs:
            return []
        try:
            return e.decode_xattrs(self._store.keys.unseal(entry.xattrs) if entry.private else entry.xattrs)
        except (Unsealable, e.Malformed) as error:
            raise ObjectDamaged(str(error)) from error


class Pass:
    """Carry out one plan below `root`."""

    def __init__(self, root: int, contents: Contents, *, seen: Seen, target: Manifest, plan: Plan) -> None:
        self._root = root
        self._contents = contents
        self._seen = seen.copy()  # our own acts are noted in it, and must not pass for something that was read
        self._live = seen.entries
        self._target = target
        self._plan = plan
        self._outcome = Outcome()
        self._sink = HashingSink(contents.keys)
        self._settle: set[str] = set(plan.directories)
        self._let_go: set[str] = set()
        self.loosened: dict[str, int] = {}
        self._euid = os.geteuid()

    # Before anything is touched

    def check(self) -> None:
        """Refuse what can be known to fail.

        Raises:
            RestoreRefused: immutable files, directories that we may not write, no room; nothing was touched.
        """
        refused = [*self._plan.blocked, *self._immutable(), *self._forbidden()]
        if refused:
            raise RestoreRefused(
                "This restore can't be carried out: "
                + "; ".join(f"{gap.path!r} {gap.why}" for gap in refused[:10])
                + ". Nothing was touched."
            )
        self._check_room()

    def _structural(self) -> list[str]:
        """Paths whose directory is written to."""
        files = [
            path
            for step in self._plan.files
            for path in step.paths
            if step.base is None or path not in self._live or self._inode(path) != self._inode(step.base)
        ]
        return [*self._plan.remove, *self._plan.make, *self._plan.others, *files]

    def _inode(self, path: str) -> bytes:
        return self._seen.signatures.get(path, b"")[:16]

    def _immutable(self) -> Iterator[Gap]:
        paths = [*self._plan.remove, *self._plan.attributes, *self._plan.directories]
        paths += [path for step in self._plan.files for path in step.paths]
        parents = {split(path)[0] for path in self._structural()}
        for path in sorted({path for path in [*paths, *parents] if path in self._live}):
            parent, name = split(path)
            with contextlib.suppress(OSError), opened(self._root, parent) as directory:
                if beneath.is_immutable(directory, name):
                    yield Gap(path, "is marked immutable or append-only (see lsattr)")

    def _forbidden(self) -> Iterator[Gap]:
        """Directories in which a plain user may not make, rename or remove anything, whatever mode he sets."""
        by_parent: dict[str, list[str]] = {}
        for path in self._structural():
            by_parent.setdefault(split(path)[0], []).append(path)
        for parent, paths in sorted(by_parent.items()):
            if parent in self._live and self._euid != 0:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    yield from self._forbidden_in(parent, paths)

    def _forbidden_in(self, parent: str, paths: list[str]) -> Iterator[Gap]:
        try:
            with opened(self._root, parent, HANDLE) as fd:
                st = os.fstat(fd)
                writable = os.access(handle_path(fd), os.W_OK | os.X_OK, effective_ids=True)
        except PermissionError:
            return  # below a directory that we own and will open
        if st.st_uid == self._euid:
            return
        if not writable:
            yield Gap(parent, "belongs to another user, and we may not write in it")
        elif st.st_mode & stat.S_ISVTX:
            for path in paths:
                data = self._live.get(path)
                if data is not None and e.kind_of(data) in e.TRACKED and e.decode(data).uid != self._euid:
                    yield Gap(path, "belongs to another user, in a directory where only he may remove it")

    def _check_room(self) -> None:
        needed = 0
        for step in self._plan.files:
            if step.rewrite:
                size = self._blocks(e.decode(step.data))
                old = e.size_of(self._live[step.base]) if step.base is not None else 0
                needed += max(0, size - old)
        room = os.fstatvfs(self._root)
        free = room.f_bavail * room.f_frsize
        if needed and needed + _SPARE_BYTES > free:
            raise RestoreRefused(
                f"This restore needs {needed:,} bytes on the workspace's file system and {free:,} are free. Nothing was"
                " touched. Make room and try again."
            )
        if room.f_flag & os.ST_RDONLY and self._plan.acts:
            raise RestoreRefused("The workspace is on a file system that is mounted read-only. Nothing was touched.")

    def _blocks(self, entry: Entry) -> int:
        """Bytes on disk, roughly."""
        if entry.sparse and entry.size > SMALL:
            return CHUNK * sum(name != ZERO_ID for name in self._contents.chunks(entry))
        return entry.size

    # The acts

    def run(self) -> Outcome:
        """Do it all, apart from conflicts, which are left alone and named.

        Raises:
            OSError: the system refuses something that was not to be foreseen; the pass stopped there.
        """
        plan = self._plan
        for path in plan.remove:
            self._act(path, self._remove)
        for path in plan.make:
            self._act(path, self._make)
        place = self._contents.place
        for step in sorted(plan.files, key=lambda step: place(e.content_of(step.data))):
            self._act(step.paths[0] if step.base is None else step.base, partial(self._file_step, step))
        for path in plan.others:
            self._act(path, self._make_other)
        for path in plan.attributes:
            self._act(path, self._other_attributes)
        for path in sorted(self._settle | self.loosened.keys(), key=lambda path: (-path.count("/"), not path)):
            self._settle_directory(path)
        return self._outcome

    def _act(self, path: str, act: Callable[[str], None]) -> None:
        try:
            try:
                act(path)
            except PermissionError:
                if not self.loosen_above(path):
                    raise
                act(path)
        except Conflict as conflict:
            self._outcome.conflicts.append(Gap(path, str(conflict)))
        except OSError as error:
            if error.errno not in _CONFLICTS:
                raise
            self._outcome.conflicts.append(Gap(path, error.strerror or "something else stands there"))

    def loosen_above(self, path: str) -> bool:
        """Give ourselves access to the directories above `path` that we own; whether anything was changed."""
        changed = False
        parts = path.split("/")[:-1] if path else []
        for depth in range(len(parts) + 1):
            changed |= self._loosen("/".join(parts[:depth]))
        return changed

    def _loosen(self, directory: str) -> bool:
        try:
            mode = loosen(self._root, directory)
        except OSError:
            return False
        if mode is None:
            return False
        self.loosened.setdefault(directory, mode)
        self._outcome.touched = True
        return True

    def _changed(self, path: str) -> None:
        self._outcome.touched = True
        parent = split(path)[0]
        if parent != path:
            self._settle.add(parent)

    def _remove(self, path: str) -> None:
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            st = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(st.st_mode):
                if not self._is_directory(path):
                    raise Conflict("is a directory by now")
                os.rmdir(name, dir_fd=directory)
            elif e.kind_of(self._live[path]) == e.EXCLUDED:
                if not stat.S_ISSOCK(st.st_mode):
                    raise Conflict("is not a socket any more")
                os.unlink(name, dir_fd=directory)
            else:
                self._take_away(directory, path, name, st)
        self._changed(path)
        reach(_REMOVED)

    def _is_directory(self, path: str) -> bool:
        data = self._live.get(path)
        return e.kind_of(data) == e.DIRECTORY or (data is not None and e.is_volatile_directory(data))

    def _take_away(self, directory: int, path: str, name: str, st: os.stat_result) -> None:
        """Move it aside, look at it once more where nobody finds it any longer, and only then let it go."""
        if not self._is_as_saved(directory, name, st, path):
            raise Conflict("has changed meanwhile")
        aside = _temporary_name()
        beneath.rename_to_free_name(directory, name, aside)
        reach(_DISPLACED)
        self._drop_displaced(directory, path, aside, lambda: beneath.rename_to_free_name(directory, aside, name))

    def _drop_displaced(self, directory: int, path: str, aside: str, put_back: Callable[[], object]) -> None:
        st = os.stat(aside, dir_fd=directory, follow_symlinks=False)
        if not is_as_seen(directory, aside, st, path=path, seen=self._seen, sink=self._sink, moved=True):
            put_back()
            raise Conflict("has changed meanwhile")
        os.unlink(aside, dir_fd=directory)
        self._own_act(path)

    def _is_as_saved(self, directory: int, name: str, st: os.stat_result, path: str) -> bool:
        return is_as_seen(directory, name, st, path=path, seen=self._seen, sink=self._sink)

    def _own_act(self, path: str) -> None:
        """The other names of a linked file: their change time moved by what we did ourselves."""
        self._let_go.add(path)
        sig = self._seen.signatures.get(path)
        if sig is None:
            return
        inode = inode_of(sig)
        for name in self._seen.links.get(inode, (0, []))[1]:
            self._refresh(name)

    def _refresh(self, path: str) -> None:
        parent, name = split(path)
        with contextlib.suppress(OSError), opened(self._root, parent) as directory:
            now = signature(os.stat(name, dir_fd=directory, follow_symlinks=False))
            if without_ctime(now) == without_ctime(self._seen.signatures.get(path, b"")):
                self._seen.signatures[path] = now

    def _make(self, path: str) -> None:
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            os.mkdir(name, _OWNER_ALL, dir_fd=directory)
        self._changed(path)
        self._settle.add(path)
        reach(_DIRECTORY_MADE)

    def _make_other(self, path: str) -> None:
        entry = e.decode(self._target[path])
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            if entry.kind == e.SYMLINK:
                os.symlink(os.fsdecode(entry.target), name, dir_fd=directory)
            else:
                os.mkfifo(name, entry.mode & 0o777, dir_fd=directory)
            self._changed(path)
            reach(_OTHER_MADE)
            self._attributes_by_name(directory, name, path, entry)

    def _other_attributes(self, path: str) -> None:
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            st = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not self._is_as_saved(directory, name, st, path):
                raise Conflict("has changed meanwhile")
            self._outcome.touched = True
            self._attributes_by_name(directory, name, path, e.decode(self._target[path]))

    def _attributes_by_name(self, directory: int, name: str, path: str, entry: Entry) -> None:
        if entry.kind != e.SYMLINK:
            fd = os.open(name, HANDLE, dir_fd=directory)
            try:
                self._set_attributes(fd, path, entry)
            finally:
                os.close(fd)
            return
        st = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if (st.st_uid, st.st_gid) != (entry.uid, entry.gid):
            try:
                os.chown(name, entry.uid, entry.gid, dir_fd=directory, follow_symlinks=False)
            except PermissionError:
                self._lose(path, "owner")
        os.utime(name, ns=(st.st_atime_ns, entry.mtime_ns), dir_fd=directory, follow_symlinks=False)
        reach(_ATTRIBUTES_SET)

    # Files

    def _file_step(self, step: FileStep, _: str) -> None:
        entry = e.decode(step.data)
        base = step.base
        if base is None:
            base = step.paths[0]
            self._new_file(base, entry)
        elif step.rewrite:
            if not self._in_place(base, entry, e.decode(self._live[base])):
                self._new_file(base, entry)
        else:
            self._attributes_in_place(base, entry)
        for path in step.paths:
            if path != base:
                self._act(path, partial(self._link, base))

    def _in_place(self, path: str, entry: Entry, old: Entry) -> bool:
        """Rewrite the very inode; False where it can't be opened for that."""
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            try:
                fd = os.open(name, _WRITE, dir_fd=directory)
            except OSError as error:
                if error.errno in _NOT_IN_PLACE:
                    return False
                raise
            try:
                st = os.fstat(fd)
                self._may_write_through(directory, name, st, path)
                self._outcome.touched = True
                reach(_FILE_OPENED)
                self._pour(fd, entry, old)
                reach(_FILE_WRITTEN)
                self._set_attributes(fd, path, entry)
            finally:
                os.close(fd)
            self._note_written(path, directory, name)
        return True

    def _may_write_through(self, directory: int, name: str, st: os.stat_result, path: str) -> None:
        """Raises: Conflict: it isn't what was saved, or somebody has linked it meanwhile, perhaps from outside."""
        if not self._is_as_saved(directory, name, st, path):
            raise Conflict("has changed meanwhile")
        links, names = self._seen.links.get((st.st_dev, st.st_ino), (1, [path]))
        if st.st_nlink != links - sum(other in self._let_go for other in names):
            raise Conflict("has another link by now")

    def _note_written(self, path: str, directory: int, name: str) -> None:
        """What we wrote is from now on what we expect to find."""
        now = signature(os.stat(name, dir_fd=directory, follow_symlinks=False))
        for other in self._seen.links.get(inode_of(now), (0, [path]))[1]:
            self._seen.signatures[other] = now
            self._seen.racy.discard(other)

    def _attributes_in_place(self, path: str, entry: Entry) -> None:
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            fd = os.open(name, HANDLE, dir_fd=directory)
            try:
                self._may_write_through(directory, name, os.fstat(fd), path)
                self._outcome.touched = True
                self._set_attributes(fd, path, entry)
            finally:
                os.close(fd)
            self._note_written(path, directory, name)

    def _new_file(self, path: str, entry: Entry) -> None:
        """A new inode: under its name where that is free, else beside it and then exchanged."""
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            if path not in self._live or path in self._plan.remove:
                self._fill_new(directory, name, path, entry)
                self._changed(path)
                reach(_FILE_WRITTEN)
                return
            fresh = _temporary_name()
            ours = self._fill_new(directory, fresh, path, entry)
            reach(_TEMPORARY_WRITTEN)
            with _discarding(directory, fresh, ours):
                self._swap_in(directory, path, name, fresh)

    def _fill_new(self, directory: int, name: str, path: str, entry: Entry) -> int:
        """Make a whole new file; its inode number. Nothing is left of it if that fails."""
        fd = os.open(name, _CREATE, 0o600, dir_fd=directory)
        try:
            ours = os.fstat(fd).st_ino
            self._outcome.touched = True
            reach(_FILE_OPENED)
            with _discarding(directory, name, ours):
                self._pour(fd, entry, None)
                self._set_attributes(fd, path, entry)
        finally:
            os.close(fd)
        return ours

    def _swap_in(self, directory: int, path: str, name: str, fresh: str) -> None:
        """Put `fresh` where the saved file stands; what it displaces must be just that.

        Raises:
            Conflict: it was something else, and is back in its place.
        """
        st = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not self._is_as_saved(directory, name, st, path):
            raise Conflict("has changed meanwhile")
        self._changed(path)
        if not beneath.exchange(directory, fresh, name):
            os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
            self._own_act(path)
            return
        reach(_EXCHANGED)
        self._drop_displaced(directory, path, fresh, lambda: beneath.exchange(directory, fresh, name))

    def _link(self, base: str, path: str) -> None:
        (from_parent, from_name), (parent, name) = split(base), split(path)
        with opened(self._root, from_parent) as source, opened(self._root, parent) as directory:
            original = os.stat(from_name, dir_fd=source, follow_symlinks=False)
            if path not in self._live or path in self._plan.remove:
                os.link(from_name, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
            else:
                present = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if (present.st_dev, present.st_ino) == (original.st_dev, original.st_ino):
                    return
                fresh = _temporary_name()
                os.link(from_name, fresh, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
                with _discarding(directory, fresh, original.st_ino):
                    self._swap_in(directory, path, name, fresh)
        self._changed(path)
        reach(_LINKED)

    def _pour(self, fd: int, entry: Entry, old: Entry | None) -> None:
        """Make the open file's bytes the entry's; `old` is what it holds now, None for a new file."""
        if entry.size <= SMALL:
            self._pour_chunk(fd, 0, self._contents.get(entry.content), entry, fresh=old is None)
        else:
            self._pour_chunks(fd, entry, old)
        os.ftruncate(fd, entry.size)

    def _pour_chunks(self, fd: int, entry: Entry, old: Entry | None) -> None:
        present: list[bytes] = []
        if old is not None and old.size > SMALL and (entry.sparse or not old.sparse):
            with contextlib.suppress(ObjectMissing, ObjectDamaged):
                present = self._contents.chunks(old)
                present = present[: old.size // CHUNK]
        for number, name in enumerate(self._contents.chunks(entry)):
            size = min(CHUNK, entry.size - number * CHUNK)
            if size == CHUNK and number < len(present) and present[number] == name:
                continue
            data = bytes(size) if name == ZERO_ID else self._contents.get(name)
            self._pour_chunk(fd, number * CHUNK, data, entry, fresh=old is None)

    def _pour_chunk(self, fd: int, at: int, data: bytes, entry: Entry, *, fresh: bool) -> None:
        if not entry.sparse:
            _write_all(fd, data, at)
            return
        for start, end, zero in _runs(data):
            if not zero or (not fresh and not beneath.punch_hole(fd, at + start, end - start)):
                _write_all(fd, data[start:end], at + start)

    # Attributes

    def _set_attributes(self, fd: int, path: str, entry: Entry) -> None:
        """Owner, extended attributes, mode, time, in the order in which none undoes another."""
        handle = handle_path(fd)
        st = os.stat(handle)
        if (st.st_uid, st.st_gid) != (entry.uid, entry.gid):
            self._chown(handle, path, entry)
        if entry.kind != e.FIFO:
            self._set_xattrs(handle, path, entry, st)
        if stat.S_IMODE(os.stat(handle).st_mode) != entry.mode:
            try:
                os.chmod(handle, entry.mode)
            except PermissionError:
                self._lose(path, "mode")
            if stat.S_IMODE(os.stat(handle).st_mode) != entry.mode:
                self._lose(path, "mode")
        self._set_time(handle, path, st.st_atime_ns, entry.mtime_ns)
        reach(_ATTRIBUTES_SET)

    def _chown(self, handle: str, path: str, entry: Entry) -> None:
        try:
            os.chown(handle, entry.uid, entry.gid)
        except PermissionError:
            self._lose(path, "owner")
            with contextlib.suppress(PermissionError):
                os.chown(handle, -1, entry.gid)

    def _set_time(self, handle: str, path: str, atime_ns: int, mtime_ns: int) -> None:
        try:
            os.utime(handle, ns=(atime_ns, mtime_ns))
        except PermissionError:
            self._lose(path, "times")
            return
        if os.stat(handle).st_mtime_ns != mtime_ns:
            self._lose(path, "times")

    def _set_xattrs(self, handle: str, path: str, entry: Entry, st: os.stat_result) -> None:
        wanted = dict(self._contents.xattrs(entry))
        present = dict(e.decode_xattrs(read_xattrs(handle)))
        if wanted == present:
            return
        if self._euid != 0 and not st.st_mode & stat.S_IWUSR:
            os.chmod(handle, stat.S_IMODE(st.st_mode) | stat.S_IWUSR)
        try:
            for name in present.keys() - wanted.keys():
                os.removexattr(handle, name)
            for name, value in wanted.items():
                if present.get(name) != value:
                    os.setxattr(handle, name, value)
        except OSError as error:
            if error.errno not in _NO_XATTRS:
                raise
            self._lose(path, "xattrs")

    def _lose(self, path: str, what: str) -> None:
        self._outcome.lossy.setdefault(path, set()).add(what)

    def _settle_directory(self, path: str) -> None:
        """A directory's own attributes, after everything in it."""
        data = self._target.get(path)
        mode = self.loosened.pop(path, None)
        try:
            with opened(self._root, path, HANDLE) as fd:
                if data is not None and e.kind_of(data) == e.DIRECTORY:
                    self._outcome.touched = True
                    self._set_attributes(fd, path, e.decode(data))
                elif mode is not None:
                    os.chmod(handle_path(fd), mode)
        except OSError as error:
            if error.errno not in _CONFLICTS:
                raise
            if data is not None:
                self._outcome.conflicts.append(Gap(path, "is not a directory any more"))
        reach(_DIRECTORY_SETTLED)


@contextlib.contextmanager
def _discarding(directory: int, name: str, ours: int) -> Iterator[None]:
    """On failure remove `name`, if it still is the inode that we made: after an exchange it may be a user's file."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino == ours:
                os.unlink(name, dir_fd=directory)
        raise


def loosen(root: int, path: str, *, write: bool = True) -> int | None:
    """Give ourselves all access to something that we own; its mode before, None if that changes nothing."""
    with opened(root, path, HANDLE) as fd:
        st = os.fstat(fd)
        mode = stat.S_IMODE(st.st_mode)
        needed = _OWNER_ALL if stat.S_ISDIR(st.st_mode) else stat.S_IRUSR | (stat.S_IWUSR if write else 0)
        if st.st_uid != os.geteuid() or mode & needed == needed or stat.S_ISLNK(st.st_mode):
            return None
        os.chmod(handle_path(fd), mode | needed)
        return mode


def set_mode(root: int, path: str, mode: int) -> None:
    with contextlib.suppress(OSError), opened(root, path, HANDLE) as fd:
        os.chmod(handle_path(fd), mode)


def _temporary_name() -> str:
    return f".agentrewind-{secrets.token_hex(8)}.tmp"


def _write_all(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view = view[written:]
        at += written


def _runs(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Start and end of each run of blocks, and whether it is all zeros."""
    start, state = 0, None
    for at in range(0, len(data), _BLOCK):
        zero = is_zero(data[at : at + _BLOCK])
        if state is not None and zero != state:
            yield start, at, state
            start = at
        state = zero
    if state is not None:
        yield start, len(data), state
