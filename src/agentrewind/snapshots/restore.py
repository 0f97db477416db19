"""One pass of a restore: carrying out a plan, each act only on what still is what the live snapshot holds.

Everything happens through directory descriptors that were reached without following a link. What turns out to be
something else than was saved isn't touched; it is a conflict, and the caller saves the present again and plans anew.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.world import Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.access import OWNER_ALL, loosen
from agentrewind.snapshots.attributes import Attributes
from agentrewind.snapshots.beneath import HANDLE, handle_path, opened, split
from agentrewind.snapshots.files import Files
from agentrewind.snapshots.present import Conflict, Present
from agentrewind.snapshots.reading import HashingSink

if TYPE_CHECKING:
    from agentrewind.snapshots.cloning import Donor
    from agentrewind.snapshots.contents import Contents
    from agentrewind.snapshots.plan import FileStep, Plan
    from agentrewind.snapshots.scan import Seen

_CONFLICTS = frozenset(
    (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EBUSY)
)

_PROGRESS_EVERY = 64

_REMOVED = named("snapshot.restore-removed")
_DIRECTORY_MADE = named("snapshot.restore-directory-made")
_OTHER_MADE = named("snapshot.restore-other-made")
_DIRECTORY_SETTLED = named("snapshot.restore-directory-settled")


@dataclass(slots=True)
class Outcome:
    touched: bool = False
    conflicts: list[Gap] = field(default_factory=list)
    lossy: dict[str, set[str]] = field(default_factory=dict)
    """Path to the names of the attributes that couldn't be set."""


class Pass:
    """Carry out one plan below `root`."""

    def __init__(
        self,
        root: int,
        contents: Contents,
        *,
        seen: Seen,
        target: Mapping[str, bytes],
        plan: Plan,
        meanwhile: Callable[[], object] = lambda: None,
        progress: Callable[[int, int | None], None] | None = None,
        donor: Donor | None = None,
    ) -> None:
        """`meanwhile` is called every now and then; `donor` as in `Files`."""
        self._root = root
        self._progress = progress
        self._meanwhile = meanwhile
        self._done = 0
        self._contents = contents
        self._live = seen.entries
        self._target = target
        self._plan = plan
        self._present = Present(root, seen, HashingSink(contents.keys))
        self._attributes = Attributes(contents)
        self._files = Files(
            root,
            self._present,
            contents,
            self._attributes,
            removed=frozenset(plan.remove),
            touching=self._touch,
            changed=self._changed,
            donor=donor,
        )
        self._outcome = Outcome(lossy=self._attributes.lossy)
        self._settle: set[str] = set(plan.directories)
        self._held = frozenset(plan.held)
        self.loosened: dict[str, int] = {}

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
        self._done += 1
        if self._done % _PROGRESS_EVERY == 0:
            self._meanwhile()
            if self._progress is not None:
                self._progress(self._done, max(self._done, len(self._plan.acts)))
        try:
            try:
                act(path)
            except PermissionError:
                if not self._loosen_above(path):
                    raise
                act(path)
        except Conflict as conflict:
            self._outcome.conflicts.append(Gap(path, str(conflict)))
        except OSError as error:
            if error.errno not in _CONFLICTS:
                raise
            self._outcome.conflicts.append(Gap(path, error.strerror or "something else stands there"))

    def _loosen_above(self, path: str) -> bool:
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
        self._touch()
        return True

    def _touch(self) -> None:
        self._outcome.touched = True

    def _changed(self, path: str) -> None:
        self._touch()
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
                self._files.take_away(directory, path, name, st)
        self._changed(path)
        reach(_REMOVED)

    def _is_directory(self, path: str) -> bool:
        data = self._live.get(path)
        return e.kind_of(data) == e.DIRECTORY or (data is not None and e.is_volatile_directory(data))

    def _make(self, path: str) -> None:
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            os.mkdir(name, OWNER_ALL, dir_fd=directory)
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
            self._attributes.set_by_name(directory, name, path, entry)

    def _other_attributes(self, path: str) -> None:
        parent, name = split(path)
        with opened(self._root, parent) as directory:
            self._present.check(directory, name, os.stat(name, dir_fd=directory, follow_symlinks=False), path)
            self._touch()
            self._attributes.set_by_name(directory, name, path, e.decode(self._target[path]))

    def _file_step(self, step: FileStep, _: str) -> None:
        entry = e.decode(step.data)
        base = step.base
        if base is None:
            base = step.paths[0]
            self._files.make(base, entry)
        elif step.rewrite:
            self._files.rewrite(base, entry)
        else:
            self._files.set_attributes(base, entry)
        for path in step.paths:
            if path != base:
                self._act(path, partial(self._files.link, base))

    def _settle_directory(self, path: str) -> None:
        """A directory's own attributes, after everything in it; those that it had, where somebody else's are kept."""
        data = (self._live if path in self._held else self._target).get(path)
        mode = self.loosened.pop(path, None)
        try:
            with opened(self._root, path, HANDLE) as fd:
                if data is not None and e.kind_of(data) == e.DIRECTORY:
                    self._touch()
                    self._attributes.set(fd, path, e.decode(data))
                elif mode is not None:
                    os.chmod(handle_path(fd), mode)
        except OSError as error:
            if error.errno not in _CONFLICTS:
                raise
            if data is not None:
                self._outcome.conflicts.append(Gap(path, "is not a directory any more"))
        reach(_DIRECTORY_SETTLED)
