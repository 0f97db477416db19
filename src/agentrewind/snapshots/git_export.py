"""Snapshots as commits of a new bare git repository, so that `git log`, `git diff` and any remote work on them.

Written by `git fast-import` with nothing of the user's: no configuration, hooks, templates or `GIT_*` variables. The
same snapshots give the same commits. Private files are left out; what git can't hold is said in a note of each commit.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from agentrewind.core.errors import SnapshotDamaged, SnapshotNotFound, StoreError, UsageError
from agentrewind.core.world import Gap
from agentrewind.snapshots import entry as e
from agentrewind.snapshots import manifests
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.entry import CHUNK, SMALL, ZERO_ID
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from agentrewind.core.world import Snapshot, SnapshotId
    from agentrewind.snapshots.entry import Entry
    from agentrewind.snapshots.manifests import Manifest
    from agentrewind.snapshots.store import Store

LARGEST = 2 << 30
"""Files above this size are left out: git reads each as one piece."""
NAMED = 10
_WHO = b"AgentRewind <agentrewind@localhost>"
_REFUSED = frozenset((".git", "git~1"))
_INVISIBLE = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_EXECUTABLE = 0o100
_MODES = {False: 0o644, True: 0o755}
_ALWAYS = "Not kept by git: times, owners."


@dataclass(frozen=True, slots=True)
class Exported:
    """How many commits were written, and which snapshots could not be."""

    commits: int
    left_out: tuple[Gap, ...] = ()


def export_git(
    store: Store,
    names: Sequence[SnapshotId],
    to: Path,
    *,
    titles: Mapping[SnapshotId, str] | None = None,
    progress: Callable[[int, int | None], None] = lambda *_: None,
) -> Exported:
    """Write each of `names` as a commit into the new bare repository `to`; its parent is the nearest of them that it
    goes back to. The branch `main` is the last one, and `refs/snapshots/ID` is each. `titles` are first lines.

    Raises:
        UsageError: `to` isn't new or empty, or there is no git here. StoreError: git failed. Nothing is left behind.
    """
    _make_sure_empty(to)
    partial = to.with_name(f".{to.name}.{secrets.token_hex(4)}.partial")
    try:
        _git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", os.fspath(partial))
        done = _import(store, names, partial, titles or {}, progress)
        os.rename(partial, to)
    except FileNotFoundError as error:
        raise UsageError(f"This needs the program git, or the directory {to.parent}: {error.strerror}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return done


def _make_sure_empty(to: Path) -> None:
    if os.path.lexists(to) and (to.is_symlink() or not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} is there already; an export needs a new or empty directory. Nothing was touched.")


def _environ() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0",
    }  # fmt: skip


def _git(*arguments: str) -> None:
    done = subprocess.run(
        ["git", *arguments], env=_environ(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        raise StoreError(f"git {arguments[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")


def _import(
    store: Store,
    names: Sequence[SnapshotId],
    repository: Path,
    titles: Mapping[SnapshotId, str],
    progress: Callable[[int, int | None], None],
) -> Exported:
    with tempfile.TemporaryFile() as said:
        arguments = ["git", f"--git-dir={repository}", "fast-import", "--quiet", "--done", "--date-format=raw"]
        process = subprocess.Popen(
            arguments, env=_environ(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said
        )
        assert process.stdin is not None
        try:
            with process.stdin as stream:
                done = _Writer(store, stream, set(names), titles).write(names, progress)
        except BrokenPipeError:
            done = None
        finally:
            if process.stdin.closed is False:
                process.kill()
            code = process.wait()
        if code or done is None:
            said.seek(0)
            raise StoreError(f"git fast-import failed: {said.read().decode('utf-8', 'replace').strip()[:500]}")
        return done


class _Writer:
    """The stream for `git fast-import`."""

    def __init__(
        self, store: Store, stream: IO[bytes], wanted: set[SnapshotId], titles: Mapping[SnapshotId, str]
    ) -> None:
        self._store = store
        self._contents = Contents(store)
        self._stream = stream
        self._wanted = wanted
        self._titles = titles
        self._marks = 0
        self._blobs: dict[bytes, int] = {}
        self._commits: dict[SnapshotId, int] = {}
        self._notes: list[tuple[int, str]] = []
        self._seconds = 0

    def write(self, names: Sequence[SnapshotId], progress: Callable[[int, int | None], None]) -> Exported:
        left_out = []
        for number, name in enumerate(names, 1):
            try:
                self._snapshot(name)
            except (SnapshotDamaged, SnapshotNotFound, ObjectMissing, ObjectDamaged) as error:
                left_out.append(Gap(name, str(error)))
            progress(number, len(names))
        self._finish()
        return Exported(len(self._commits), tuple(left_out))

    def _snapshot(self, name: SnapshotId) -> None:
        snapshot, state = self._store.snapshot(name), self._store.state(name)
        parent = self._parent(name)
        before = {} if parent is None else self._store.state(parent)
        removed, changed = _files_of(manifests.difference(before, state))
        marks = [(path, entry, self._blob(entry)) for path, entry in changed]  # all read before the commit begins
        mark = self._commit(snapshot, parent)
        for path in removed:
            self._line(b"D " + quoted(path))
        for path, entry, blob in marks:
            self._line(b"M %s :%d %s" % (_mode(entry), blob, quoted(path)))
        self._line(b"")
        self._commits[name] = mark
        self._notes.append((mark, note_of(state)))

    def _parent(self, name: SnapshotId) -> SnapshotId | None:
        seen = {name}
        at = self._store.parent(name)
        while at is not None and at not in self._commits and at not in seen:
            seen.add(at)
            at = self._store.parent(at)
        return at if at in self._commits else None

    def _commit(self, snapshot: Snapshot, parent: SnapshotId | None) -> int:
        mark = self._mark()
        self._seconds = max(self._seconds, snapshot.created_ns // 1_000_000_000)
        title = self._titles.get(snapshot.id) or snapshot.label or f"Snapshot {snapshot.id[:12]}"
        self._line(b"commit refs/snapshots/" + snapshot.id.encode())
        self._line(b"mark :%d" % mark)
        self._line(b"committer %s %d +0000" % (_WHO, snapshot.created_ns // 1_000_000_000))
        self._data(e.encode_text(f"{title}\n\nSnapshot: {snapshot.id}\n"))
        if parent is not None:
            self._line(b"from :%d" % self._commits[parent])
        return mark

    def _finish(self) -> None:
        """The branch, the notes, and the word that all is there."""
        if self._commits:
            self._line(b"reset refs/heads/main")
            self._line(b"from :%d" % list(self._commits.values())[-1])
            self._line(b"")
            self._line(b"commit refs/notes/commits")
            self._line(b"committer %s %d +0000" % (_WHO, self._seconds))
            self._data(b"What git can't hold of these snapshots\n")
            for mark, text in self._notes:
                self._line(b"N inline :%d" % mark)
                self._data(e.encode_text(text))
            self._line(b"")
        self._line(b"done")

    def _blob(self, entry: Entry) -> int:
        """The mark of its content, which is written first where it is new.

        Raises:
            ObjectMissing, ObjectDamaged: nothing was written.
        """
        key = b"link:" + entry.target if entry.kind == e.SYMLINK else entry.content
        if key not in self._blobs:
            pieces, size = self._pieces(entry)
            self._blobs[key] = self._mark()
            self._line(b"blob")
            self._line(b"mark :%d" % self._blobs[key])
            self._line(b"data %d" % size)
            for piece in pieces:
                self._stream.write(piece)
            self._line(b"")
        return self._blobs[key]

    def _pieces(self, entry: Entry) -> tuple[Iterable[bytes], int]:
        if entry.kind == e.SYMLINK:
            return [entry.target], len(entry.target)
        if entry.size <= SMALL:
            self._contents.check_file(entry)
            return [self._contents.get(entry.content)], entry.size
        self._contents.check_file(entry)
        return self._large(entry), entry.size

    def _large(self, entry: Entry) -> Iterator[bytes]:
        left = entry.size
        for name in self._contents.chunks(entry):
            size = min(CHUNK, left)
            yield bytes(size) if name == ZERO_ID else self._contents.get(name)
            left -= size

    def _mark(self) -> int:
        self._marks += 1
        return self._marks

    def _line(self, text: bytes) -> None:
        self._stream.write(text + b"\n")

    def _data(self, data: bytes) -> None:
        self._line(b"data %d" % len(data))
        self._stream.write(data + b"\n")


def _files_of(delta: manifests.Delta) -> tuple[list[str], list[tuple[str, Entry]]]:
    """Paths that git loses, and those that it gets, in a fixed order."""
    removed, changed = [], []
    for path, old, new in sorted(delta):
        entry = None if new is None else _held(path, e.decode(new))
        if entry is not None:
            changed.append((path, entry))
        elif old is not None and _held(path, e.decode(old)) is not None:
            removed.append(path)
    return removed, changed


def _held(path: str, entry: Entry) -> Entry | None:
    """The entry, if git can hold it as a file or a link and may."""
    if entry.private or entry.kind not in (e.FILE, e.SYMLINK) or entry.size > LARGEST or refused(path):
        return None
    return entry


def refused(path: str) -> bool:
    """Whether git takes one of the names for its own directory, on some system or other."""
    return any(name.translate(_INVISIBLE).lower().split(":")[0].rstrip(" .") in _REFUSED for name in path.split("/"))


def _mode(entry: Entry) -> bytes:
    if entry.kind == e.SYMLINK:
        return b"120000"
    return b"100755" if entry.mode & _EXECUTABLE else b"100644"


def quoted(path: str) -> bytes:
    """A path as `git fast-import` reads it, whatever bytes it has."""
    out = bytearray(b'"')
    for byte in e.encode_text(path):
        if byte in b'"\\':
            out += b"\\" + bytes([byte])
        elif byte < 0x20 or byte >= 0x7F:  # noqa: PLR2004 (printable ASCII)
            out += b"\\%03o" % byte
        else:
            out.append(byte)
    return bytes(out + b'"')


@dataclass(slots=True)
class _Lost:
    """What git can't hold of one state: kind of thing to its paths."""

    paths: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    private: int = 0

    def text(self) -> str:
        lines = [_ALWAYS]
        for what in sorted(self.paths):
            names = sorted(self.paths[what])
            shown = ", ".join(name.encode("unicode_escape").decode() or "." for name in names[:NAMED])
            more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
            lines.append(f"{what}: {shown}{more}")
        if self.private:
            lines.append(f"Private files left out: {self.private:,}")
        return "\n".join(lines) + "\n"


def note_of(state: Manifest) -> str:
    """What git can't hold of a state, in words."""
    lost = _Lost()
    filled = {path.rpartition("/")[0] for path in state}
    repositories = set()
    for path, data in state.items():
        entry = e.decode(data)
        if refused(path):
            repositories.add(_repository(path))
        elif entry.private:
            lost.private += 1
        else:
            for what in _kinds_of_loss(entry, empty=path not in filled):
                lost.paths[what].append(path)
    if repositories:
        lost.paths["Repositories inside, whose history is left out"] = sorted(repositories)
    return lost.text()


def _repository(path: str) -> str:
    """The path down to the part that git refuses."""
    names = path.split("/")
    return "/".join(names[: next(at for at in range(len(names)) if refused(names[at])) + 1])


def _kinds_of_loss(entry: Entry, *, empty: bool) -> Iterator[str]:
    if entry.kind == e.DIRECTORY and empty:
        yield "Empty directories"
    if entry.kind == e.FIFO:
        yield "Pipes"
    if entry.kind == e.EXCLUDED:
        yield "Excluded"
    if entry.kind == e.UNREADABLE:
        yield "Could not be read"
    if entry.xattrs:
        yield "Extended attributes"
    if entry.leader:
        yield "Hard links, here files of their own"
    if entry.kind == e.FILE and entry.size > LARGEST:
        yield "Too large for git"
    if entry.kind == e.FILE and entry.mode != _MODES[bool(entry.mode & _EXECUTABLE)]:
        yield "Modes other than 644 and 755"
