"""A run in one file: its journal, and the snapshots that it names. Written here, and read in somewhere else.

Its members (`compose.members`) are `bundle.json`, `content.jsonl`, `journal.jsonl`, then for each snapshot
`objects/SHA256` for each content that is new with it, and `snapshots/NUMBER.json`. What comes in is hostile until it
is checked: names, kinds, sizes and hashes; nothing of it is executed, and the settings by which an agent would be
started again are dropped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentrewind import __version__
from agentrewind.compose.home import Home
from agentrewind.compose.importing import importing, make_store, name_run
from agentrewind.compose.keeping import encryption_of
from agentrewind.compose.members import Member, NotMembers, Writing, reading
from agentrewind.compose.places import workspace_path
from agentrewind.compose.worlds import open_world
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, SnapshotNotFound, StorageFull, StoreError, UsageError
from agentrewind.core.records import Event, NodeBegan, NodeEnded, RunStarted
from agentrewind.core.redact import Redactor
from agentrewind.core.world import Gap, Snapshot, SnapshotId, worker
from agentrewind.journal import format as fmt
from agentrewind.journal.output import new_file
from agentrewind.journal.reader import RunLog, read_run
from agentrewind.snapshots.entry import SMALL
from agentrewind.snapshots.portable import BundleRefused, Incoming, Outgoing, gaps, is_object_name
from agentrewind.snapshots.store import Store

FORMAT = "agentrewind-bundle-1"
MOST_BYTES = 16 << 30
"""Unpacked, unless the caller allows more: a small file can stand for any size."""
_MOST_JSON = 256 << 20
_LEAST_FREE = 256 << 20
_SNAPSHOT = re.compile(r"snapshots/(0|[1-9][0-9]{0,8})\.json")
_OBJECT = "objects/"

Progress = Callable[[int, int | None], None]


def nothing(_: int, __: int | None) -> None: ...


# --- out --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bundled:
    """What went into a bundle, and what of the files stayed here. `missing`: snapshots that the store has no more."""

    snapshots: int
    left_out: tuple[Gap, ...]
    missing: tuple[SnapshotId, ...]


def export_bundle(
    home: Home,
    log: RunLog,
    to: Path,
    *,
    hide: Redactor,
    redact: bool = False,
    with_secrets: bool = False,
    force: bool = False,
    progress: Progress = nothing,
) -> Bundled:
    """Write the run into the file `to`, which appears whole or not at all.

    Private files stay here, and so do files in which `hide` finds a secret: unless `redact`, which takes the secrets
    out of them (and out of the journal once more), or `with_secrets`.

    Raises:
        UsageError: `to` can't be written or is there already. StorageFull. StoreError: a snapshot can't be read.
        Nothing was kept.
    """

    def clean(path: str, data: bytes) -> bytes | None:
        del path
        if with_secrets:
            return data
        text, encoding = _text(data)
        found = hide.text(text)
        if found == text:
            return data
        return found.encode(encoding) if redact else None

    shown = log.redacted(hide) if redact else log
    started = shown.tree.started
    if started is None:
        raise UsageError(f"The run {log.run_dir.name} has no header; there is nothing to bundle.")
    with new_file(to, force=force) as file:
        members = Writing(file)
        head = {"format": FORMAT, "run": started.run_id, "version": __version__, "redacted": redact}
        members.add("bundle.json", json.dumps(head).encode())
        _add_journal(members, shown, to.parent)
        bundled = _add_snapshots(members, home, log, clean, progress)
        members.close()
    return bundled


def _text(data: bytes) -> tuple[str, str]:
    """Bytes as text, and the encoding that gives them back."""
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def _add_journal(members: Writing, log: RunLog, near: Path) -> None:
    """Both files as they were when the run was read, contents first as everywhere."""
    for name, lines in ((fmt.CONTENT, _content_lines(log)), (fmt.JOURNAL, _event_lines(log))):
        with tempfile.TemporaryFile(dir=near) as part:
            for line in lines:
                part.write(line)
            size = part.tell()
            part.seek(0)
            members.add_file(name, size, part)


def _content_lines(log: RunLog) -> Iterator[bytes]:
    for number, name in enumerate(_numbered(log)):
        yield fmt.encode_content(number, fmt.canonical(log.get(name)))[0]


def _event_lines(log: RunLog) -> Iterator[bytes]:
    numbers = {name: number for number, name in enumerate(_numbered(log))}
    for number, event in enumerate(log.events):
        yield fmt.encode_event(number, event, numbers.__getitem__)


def _numbered(log: RunLog) -> list[Any]:
    """The contents in the order of their lines; one that an interrupt left in two lines stands once."""
    return list(log.contents.numbers())


def named_by(log: RunLog) -> set[SnapshotId]:
    """The snapshots that the events of a run name."""
    found = (getattr(event, key, None) for event in log.events for key in ("snapshot", "live"))
    return {SnapshotId(name) for name in found if isinstance(name, str)}


def _add_snapshots(
    members: Writing, home: Home, log: RunLog, clean: Callable[[str, bytes], bytes | None], progress: Progress
) -> Bundled:
    started = log.tree.started
    assert started is not None
    wanted = named_by(log)
    directory = home.store_of(Path(started.workspace))
    if not wanted or not os.path.lexists(directory / "format"):
        return Bundled(0, (), tuple(sorted(wanted)))
    with closing(Store.open(directory, writable=False, encryption=encryption_of(directory))) as store:
        names = [name for name in store.names() if name in wanted]
        out = Outgoing(store, clean)
        for number, name in enumerate(names):
            progress(number + 1, len(names))
            for key, value in out.snapshot(name):
                if isinstance(key, Snapshot):
                    members.add(f"snapshots/{number}.json", json.dumps(_described(key, value)).encode())
                else:
                    assert isinstance(value, bytes)
                    members.add(f"{_OBJECT}{key}", value)
        return Bundled(len(names), gaps(out.left_out), tuple(sorted(wanted - set(names))))


def _described(snapshot: Snapshot, step: Any) -> Json:
    return {
        "id": snapshot.id,
        "label": snapshot.label,
        "created_ns": snapshot.created_ns,
        "automatic": snapshot.automatic,
        "step": step,
    }


# --- in ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imported:
    """The run that came in, and the new directory with its files as they were last."""

    run_id: str
    workspace: Path
    snapshots: int


def import_bundle(
    home: Home, file: Path, workspace: Path | None = None, *, most_bytes: int = MOST_BYTES, progress: Progress = nothing
) -> Imported:
    """Make the run of a bundle one of ours, with `workspace` (new, or empty; by default called like the run, here) as
    its workspace.

    Everything is checked before it counts; the run appears last. It can be read, rewound and compared like any other,
    but not resumed: a bundle doesn't say what is to be started here.

    Raises:
        UsageError: no such file, `workspace` isn't empty, or the run is here already. BundleRefused: it isn't a bundle
            as we write them. StorageFull. Nothing was kept.
    """
    home.made()
    run_id = _run_of(home, file)
    workspace = workspace or Path.cwd() / run_id
    _refuse_what_is_there(workspace)
    made = not workspace.exists()
    stores: list[Path] = []
    try:
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = workspace_path(workspace, home, allow_home=False)
        with importing(home) as part:
            store = _new_store(home, root, part, run_id)
            stores.append(store)
            imported = _Import(home, file, part, root, store, most_bytes, progress).run()
    except BaseException as error:
        for store in stores:
            shutil.rmtree(store, ignore_errors=True)
        if made:
            with suppress(OSError):  # what somebody put there meanwhile stays
                workspace.rmdir()
        raise _told(error, file) from error
    return imported


def _new_store(home: Home, root: Path, part: Path, run_id: str) -> Path:
    """A directory for the store that nobody else makes one in."""
    store = home.store_of(root)
    try:
        make_store(home, store, part, run_id)
    except FileExistsError as error:
        raise UsageError(
            f"There are snapshots of {root} already. Name another directory; nothing was touched."
        ) from error
    return store


def _told(error: BaseException, file: Path) -> BaseException:
    if isinstance(error, BundleRefused | NotMembers):
        return BundleRefused(f"{file} is refused: {error}. Nothing of it was kept.")
    if isinstance(error, OSError):
        return UsageError(f"{file} can't be imported: {error.strerror or error}. Nothing of it was kept.")
    return error


def _run_of(home: Home, file: Path) -> str:
    """The id of the run in a bundle. Raises: UsageError, BundleRefused."""
    try:
        with reading(file) as members:
            return _run_in(home, next(members, None))
    except (BundleRefused, NotMembers, OSError) as error:
        raise _told(error, file) from error


def _run_in(home: Home, member: Member | None) -> str:
    head = _json(member) if member is not None and member.name == "bundle.json" else None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise BundleRefused(f"it doesn't begin with the header of a bundle ({FORMAT})")
    run_id = head.get("run")
    if not isinstance(run_id, str) or not home.is_run_id(run_id):
        raise BundleRefused("it names no run")
    return run_id


def _refuse_what_is_there(workspace: Path) -> None:
    with suppress(FileNotFoundError):
        try:
            if next(workspace.iterdir(), None) is None:
                return
        except NotADirectoryError:
            pass
        raise UsageError(f"{workspace} is not an empty directory. Name a new one; nothing was touched.")


@dataclass(slots=True)
class _Import:
    home: Home
    file: Path
    part: Path
    root: Path
    place: Path
    left: int
    progress: Progress
    run_id: str = ""
    count: int = 0

    def run(self) -> Imported:
        with reading(self.file) as found:
            members = self._within_bounds(found)
            self._head(next(members, None))
            for name in (fmt.CONTENT, fmt.JOURNAL):
                self._copied(name, next(members, None))
            last = self._snapshots(members, self._journal())
        if last is None:
            self._named()
            with suppress(OSError):  # nothing came for it
                self.place.rmdir()
        else:
            self._restored(last)
        return Imported(self.run_id, self.root, self.count)

    def _named(self) -> None:
        """From here on it is a run."""
        name_run(self.part, self.home.run_dir(self.run_id), self.place)

    def _within_bounds(self, members: Iterator[Member]) -> Iterator[Member]:
        for member in members:
            self.left -= member.size
            if self.left < 0:
                raise BundleRefused("unpacked it is larger than what is accepted (--max-size allows more)")
            if shutil.disk_usage(self.part).free < member.size + _LEAST_FREE:
                raise StorageFull(f"No room to import {self.file}. Nothing of it was kept.")
            yield member

    def _head(self, member: Member | None) -> None:
        run_id = _run_in(self.home, member)
        if os.path.lexists(self.home.run_dir(run_id)):
            raise UsageError(f"The run {run_id} is here already. Nothing was touched.")
        self.run_id = run_id

    def _copied(self, wanted: str, member: Member | None) -> None:
        if member is None or member.name != wanted:
            raise BundleRefused(f"{wanted} is missing where it should be")
        with open(self.part / wanted, "xb", opener=_private) as file:
            file.writelines(member.pieces())

    def _journal(self) -> RunLog:
        """The journal, read and checked as any other, with its workspace here and nothing to be started."""
        try:
            log = read_run(self.part)
        except AgentRewindError as error:
            raise BundleRefused(f"its journal is damaged: {error}".rstrip(".")) from error
        started = log.tree.started
        if started is None or started is not log.events[0] or started.run_id != self.run_id or log.warnings:
            raise BundleRefused("its journal is cut off, or that of another run")
        self._rewrite(log, replace(started, workspace=str(self.root), settings={}))
        return log

    def _rewrite(self, log: RunLog, header: RunStarted) -> None:
        """The journal as it is to be here, with nothing in it that would ever be run."""
        numbers = log.contents.numbers()
        path, fresh = self.part / fmt.JOURNAL, self.part / (fmt.JOURNAL + ".new")
        with open(fresh, "xb", opener=_private) as new:
            lines = enumerate((header, *log.events[1:]))
            new.writelines(fmt.encode_event(number, _harmless(event), numbers.__getitem__) for number, event in lines)
        fresh.rename(path)

    def _snapshots(self, members: Iterator[Member], log: RunLog) -> SnapshotId | None:
        wanted, last = named_by(log), None
        store: Store | None = None
        try:
            for member in members:
                if store is None:
                    store = Store.open(
                        self.place,
                        writable=True,
                        root=self.root,
                        holder=worker(self.run_id),
                        encryption=encryption_of(self.place, making=True),
                    )
                    incoming = Incoming(store)
                found = self._taken(incoming, member)
                if found is not None and found not in wanted:
                    raise BundleRefused(f"the run doesn't name the snapshot {found[:40]!r}")
                last = found or last
            if store is not None:
                store.sync()
        finally:
            if store is not None:
                store.close()
        return last

    def _taken(self, incoming: Incoming, member: Member) -> SnapshotId | None:
        sha = member.name.removeprefix(_OBJECT)
        if member.name.startswith(_OBJECT) and is_object_name(sha):
            incoming.object(sha, member.read(SMALL))
            return None
        found = _SNAPSHOT.fullmatch(member.name)
        if found is None or int(found[1]) != self.count:
            raise BundleRefused(f"{member.name[:80]!r} has no place in a bundle")
        described = _json(member)
        if not isinstance(described, dict) or not isinstance(described.get("step"), list):
            raise BundleRefused(f"{member.name!r} describes no snapshot")
        incoming.snapshot(described, described["step"])
        self.count += 1
        self.progress(self.count, None)
        return SnapshotId(described["id"])

    def _restored(self, last: SnapshotId) -> None:
        """The files as they were last, by the same way as any restore; then the run. Where that fails the files go
        again, but for what somebody else wrote there.
        """
        try:
            with closing(open_world(self.home, self.root, holder=worker(self.run_id))) as world:
                before = world.snapshot().id
                try:
                    world.restore(last)
                    self._named()
                except BaseException:
                    with suppress(AgentRewindError, OSError):
                        world.restore(before, keep_drift=True, since=last)
                    raise
        except SnapshotNotFound as error:
            raise StoreError(str(error)) from error


def _harmless(event: Event) -> Event:
    """Without the commands that would take its effects back: whoever made the bundle has chosen them."""
    if isinstance(event, NodeBegan | NodeEnded) and any(effect.undo for effect in event.effects):
        return replace(event, effects=tuple(replace(effect, undo="", by_program=False) for effect in event.effects))
    return event


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _json(member: Member) -> Json:
    try:
        return fmt.parse(member.read(_MOST_JSON))
    except NotMembers:
        raise
    except ValueError as error:
        raise BundleRefused(f"{member.name[:40]!r} can't be read: {error}") from error
