"""What differs between two points of a run: files line by line, and messages."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentrewind.compose.runs import Run
from agentrewind.compose.secret import redactor
from agentrewind.core.edits import Message
from agentrewind.core.errors import UsageError
from agentrewind.core.records import MessageId
from agentrewind.core.world import Change, Changes, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.beneath import DIRECTORY, HANDLE, READ, opened
from agentrewind.snapshots.entry import Entry
from agentrewind.snapshots.rules import PathClass
from agentrewind.snapshots.scan import class_of
from agentrewind.snapshots.workspace import Absence, WorkspaceWorld

NOW = "now"
LARGEST = 400_000
"""Bytes of a file that is still compared line by line."""

_KINDS = {e.FILE: "file", e.DIRECTORY: "directory", e.SYMLINK: "symbolic link", e.FIFO: "pipe"}
_KIND_OF = {stat.S_IFREG: e.FILE, stat.S_IFDIR: e.DIRECTORY, stat.S_IFLNK: e.SYMLINK, stat.S_IFIFO: e.FIFO}
_NO_END = "\\ No newline at end of file"

Hide = Callable[[str], str]
What = Literal["text", "binary", "large", "private", "other"]


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One path. `lines` is a unified diff where `what` is text; `notes` say what else differs, in words."""

    status: str
    path: str
    what: What
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageDifference:
    """`same` messages stand in both; the others were taken away or came."""

    same: int = 0
    removed: tuple[Message, ...] = ()
    added: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """From one point to another. `total` is how many paths differ; `files` are the first of them."""

    files: tuple[FileDifference, ...]
    total: int
    messages: MessageDifference


def difference(run: Run, a: str, b: str) -> Difference:
    """What differs from just before step `a` to just before step `b`; either may be `now`.

    Raises:
        UnknownRecord: no such step. UsageError: it has no snapshot. StoreError: the workspace can't be compared.
    """
    with run.reading() as world:
        before, after = (_side(run, world, ref) for ref in (a, b))
        changes = _changes(world, before, after)
        hide = _hiding(run.workspace)
        files = tuple(_file(change, before, after, hide) for change in changes.items)
    return Difference(files, changes.total, _messages(run, a, b))


def snapshot_difference(world: WorkspaceWorld, a: str, b: str) -> tuple[tuple[FileDifference, ...], int]:
    """The same for two snapshots of a workspace, or a snapshot and `now`. Raises: SnapshotNotFound."""
    before, after = (_Live(world) if ref == NOW else _Saved(world, world.find(SnapshotId(ref)).id) for ref in (a, b))
    changes = _changes(world, before, after)
    hide = _hiding(world.root)
    return tuple(_file(change, before, after, hide) for change in changes.items), changes.total


def _hiding(workspace: Path) -> Hide:
    """Takes secrets out of what is shown of files; settings that can't be read stop nobody from looking."""
    try:
        return redactor(os.environ, workspace).text
    except UsageError:
        return redactor(os.environ).text


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Saved:
    """A snapshot."""

    world: WorkspaceWorld
    snapshot: SnapshotId

    def entry(self, path: str) -> Entry | None:
        return self.world.entry(self.snapshot, path)

    def read(self, path: str) -> bytes | Absence:
        return self.world.read(self.snapshot, path)


@dataclass(frozen=True, slots=True)
class _Live:
    """The workspace as it is. No link is followed, and private files are as hidden as in a snapshot."""

    world: WorkspaceWorld

    def entry(self, path: str) -> Entry | None:
        try:
            with self._opened(path, HANDLE) as fd:
                found = os.fstat(fd)
                target = os.readlink(b"", dir_fd=fd) if stat.S_ISLNK(found.st_mode) else b""
        except OSError:
            return None
        return Entry(
            _KIND_OF.get(stat.S_IFMT(found.st_mode), b"?"),
            stat.S_IMODE(found.st_mode),
            found.st_uid,
            found.st_gid,
            found.st_mtime_ns,
            found.st_size,
            target=target,
            flags=e.PRIVATE if class_of(self.world.rules, path) is PathClass.PRIVATE else 0,
        )

    def read(self, path: str) -> bytes | Absence:
        if class_of(self.world.rules, path) is PathClass.PRIVATE:
            return Absence.PRIVATE
        try:
            with self._opened(path, READ) as fd:
                return os.pread(fd, LARGEST + 1, 0)
        except OSError:
            return Absence.UNREADABLE

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        root = os.open(self.world.root, DIRECTORY)
        try:
            with opened(root, path, flags) as fd:
                yield fd
        finally:
            os.close(root)


_Side = _Saved | _Live


def _side(run: Run, world: WorkspaceWorld, ref: str) -> _Side:
    if ref == NOW:
        return _Live(world)
    snapshot = run.node(ref).began.snapshot
    if snapshot is None:
        raise UsageError(f"{ref} has no snapshot of the files: it failed when it was taken. Choose another step.")
    return _Saved(world, snapshot)


def _changes(world: WorkspaceWorld, before: _Side, after: _Side) -> Changes:
    match before, after:
        case _Saved(), _Saved():
            return world.diff(before.snapshot, after.snapshot)
        case _Saved(), _Live():
            return world.diff_live(before.snapshot)
        case _Live(), _Saved():
            found = world.diff_live(after.snapshot)
            swapped = {"A": "D", "D": "A"}
            items = tuple(Change(swapped.get(item.status, item.status), item.path) for item in found.items)
            return Changes(items, found.total)
    return Changes()


def _file(change: Change, before: _Side, after: _Side, hide: Hide) -> FileDifference:
    path = change.path
    old, new = before.entry(path), after.entry(path)
    notes = _notes(old, new)
    if any(entry is not None and entry.private for entry in (old, new)):
        return FileDifference(change.status, path, "private", (), notes)
    if not any(entry is not None and entry.kind == e.FILE for entry in (old, new)) or change.status == "P":
        return FileDifference(change.status, path, "other", (), notes)
    sizes = [entry.size for entry in (old, new) if entry is not None and entry.kind == e.FILE]
    if max(sizes) > LARGEST:
        return FileDifference(change.status, path, "large", (), notes)
    texts = _content(before, old, path), _content(after, new, path)
    if any(b"\0" in text for text in texts):
        return FileDifference(change.status, path, "binary", (), notes)
    lines = _unified(*(hide(text.decode("utf-8", "surrogateescape")) for text in texts))
    if not lines and texts[0] != texts[1]:
        notes = (*notes, "only a secret differs, which isn't shown")
    return FileDifference(change.status, path, "text", lines, notes)


def _content(side: _Side, entry: Entry | None, path: str) -> bytes:
    if entry is None or entry.kind != e.FILE:
        return b""
    found = side.read(path)
    return found if isinstance(found, bytes) else b""


def _unified(old: str, new: str) -> tuple[str, ...]:
    """The hunks of a unified diff, without the two lines that name the files."""
    found = difflib.unified_diff(_lines(old), _lines(new), lineterm="")
    return tuple(part for line in list(found)[2:] for part in line.split("\n"))


def _lines(text: str) -> list[str]:
    """Lines without their ends; the last one says where it has none."""
    if not text:
        return []
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n{_NO_END}"] if last else lines


def _notes(old: Entry | None, new: Entry | None) -> tuple[str, ...]:
    if old is None or new is None:
        kept = old or new
        return () if kept is None or kept.kind == e.FILE else (_kind(kept),)
    if old.kind != new.kind:
        return (f"{_kind(old)} -> {_kind(new)}",)
    notes = []
    if old.mode != new.mode:
        notes.append(f"mode {old.mode:o} -> {new.mode:o}")
    if (old.uid, old.gid) != (new.uid, new.gid):
        notes.append(f"owner {old.uid}:{old.gid} -> {new.uid}:{new.gid}")
    if old.target != new.target:
        notes.append(f"link to {os.fsdecode(old.target)} -> {os.fsdecode(new.target)}")
    if old.kind == e.FILE and old.size != new.size:
        notes.append(f"size {old.size:,} -> {new.size:,}")
    return tuple(notes)


def _kind(entry: Entry) -> str:
    return _KINDS.get(entry.kind, "something that isn't saved")


# --- messages ---------------------------------------------------------------------------------------------------------


def _messages(run: Run, a: str, b: str) -> MessageDifference:
    old, new = _ids(run, a), _ids(run, b)
    removed: list[MessageId] = []
    added: list[MessageId] = []
    same = 0
    for tag, a_from, a_to, b_from, b_to in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            same += a_to - a_from
        else:
            removed += old[a_from:a_to]
            added += new[b_from:b_to]
    return MessageDifference(same, tuple(map(run.content, removed)), tuple(map(run.content, added)))


def _ids(run: Run, ref: str) -> tuple[MessageId, ...]:
    """The messages that the model call at or before a step had sent."""
    tree = run.tree
    start = tree.head if ref == NOW else run.node(ref).uid
    call = next((node for node in tree.ancestors(start) if node.is_llm), None)
    return () if call is None else tree.messages(call.uid)
