"""The one writer of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from agentrewind.core import crashpoints
from agentrewind.core.codec import Json
from agentrewind.core.errors import JournalError, StorageFull, UsageError
from agentrewind.core.records import Event, MessageId, RunStarted
from agentrewind.core.tree import RunTree
from agentrewind.journal import format as fmt
from agentrewind.journal.files import AppendedFile, DamagedAt, open_plain, sync_directory
from agentrewind.journal.lease import Lease
from agentrewind.journal.redacted import Redact, as_is, redacted
from agentrewind.journal.scan import Contents, Place, Scan, scan

Durability = Literal["process", "power"]

HEADER_WRITTEN = crashpoints.named("journal.header-written")
RUN_CREATED = crashpoints.named("journal.run-created")
CONTENT_TAIL_DROPPED = crashpoints.named("journal.content-tail-dropped")
CONTENT_WRITTEN = crashpoints.named("journal.content-written")
EVENT_WRITTEN = crashpoints.named("journal.event-written")
CONTENT_SYNCED = crashpoints.named("journal.content-synced")


class JournalWriter:
    """Appends to a run and keeps its tree in step. Use `create` or `open`; one thread at a time.

    What an append or a put has returned from survives the death of this process; in `power` mode an append also
    survives a power loss, else what came after the last `sync` may be gone then.
    """

    def __init__(self, run_dir: Path, lease: Lease, found: Scan, redact: Redact, *, power: bool) -> None:
        self.run_dir = run_dir
        self.tree: RunTree = found.tree
        """The fold of all events appended. Only this writer applies."""
        self.warnings = tuple(found.torn)
        """What `open` dropped, in words."""
        self._lease = lease
        self._redact = redact
        self._power = power
        self._contents = found.contents
        self._journal = _appended(run_dir / fmt.JOURNAL, found.journal_size, len(found.events))
        self._content = _appended(run_dir / fmt.CONTENT, found.content_size, len(found.ids))
        self._applied = len(found.events)
        self._last: Event | None = None
        self._closed = False

    @property
    def last(self) -> Event | None:
        """The event that `append` was given last, as it goes into the journal."""
        return self._last

    @property
    def events(self) -> int:
        """How many events the journal holds."""
        return self._journal.lines

    @classmethod
    def create(
        cls,
        run_dir: Path,
        started: RunStarted,
        *,
        redact: Redact = as_is,
        durability: Durability = "process",
    ) -> JournalWriter:
        """Begin a run in `run_dir`, which is made where it doesn't exist.

        The journal appears with its header or not at all.

        Raises:
            UsageError: there is a run already; nothing was touched.
            Busy: another process is creating it.
            StorageFull: there is no run.
        """
        fmt.refuse_deep(started)
        header = redacted(started, redact)
        line = fmt.encode_event(0, header, _number_of(Contents()))
        _make_private(run_dir)
        lease = Lease.take(run_dir)
        try:
            _begin(run_dir, line, power=durability == "power")
            return cls._open(run_dir, lease, redact, durability)
        except BaseException:
            lease.release()
            raise

    @classmethod
    def open(cls, run_dir: Path, *, redact: Redact = as_is, durability: Durability = "process") -> JournalWriter:
        """Go on with the run in `run_dir`. An unfinished last line of either file is cut off; `warnings` says so.

        Raises:
            UnknownRun: there is no run; nothing was touched.
            Busy: another process writes it; nothing was touched.
            JournalDamaged: anything else is wrong; the text names file and byte offset, and nothing was changed.
        """
        os.close(open_plain(run_dir / fmt.JOURNAL))
        lease = Lease.take(run_dir)
        try:
            return cls._open(run_dir, lease, redact, durability)
        except BaseException:
            lease.release()
            raise

    @classmethod
    def _open(cls, run_dir: Path, lease: Lease, redact: Redact, durability: Durability) -> JournalWriter:
        found = scan(run_dir)
        _cut(run_dir / fmt.CONTENT, found.content_size)
        crashpoints.reach(CONTENT_TAIL_DROPPED)
        _cut(run_dir / fmt.JOURNAL, found.journal_size)
        return cls(run_dir, lease, found, redact, power=durability == "power")

    def append(self, event: Event) -> None:
        """Write `event` (secrets redacted) as one line, then take it into `tree`.

        Raises:
            JournalError: the tree refuses it, or it names a content that was never put; nothing was written.
            UsageError: it can't be written as JSON; nothing was written.
            StorageFull: no room; journal and tree are as they were, and a later append works.
        """
        self._check_open()
        fmt.refuse_deep(event)
        kept = redacted(event, self._redact)
        self._catch_up()
        self.tree.check(kept)
        line = fmt.encode_event(self.events, kept, _number_of(self._contents))
        self._last = kept
        self._journal.append(line)
        crashpoints.reach(EVENT_WRITTEN)
        self._catch_up()
        if self._power:
            self.sync()

    def put(self, content: Json) -> MessageId:
        """Store `content` (secrets redacted) once and return the id by which events name it.

        Raises:
            UsageError: it can't be written as JSON; nothing was written.
            StorageFull: no room; nothing was kept, and a later put works.
        """
        self._check_open()
        fmt.refuse_deep(content)
        data = fmt.canonical(self._redact(content))
        found = fmt.content_id(data)
        if found not in self._contents:
            number = self._content.lines
            line, begin = fmt.encode_content(number, data)
            offset = self._content.append(line)
            crashpoints.reach(CONTENT_WRITTEN)  # an interrupt here leaves a line that nobody remembers, see `Scan.ids`
            self._contents.add(found, Place(number, offset + begin, len(data)))
        return found

    def get(self, content: MessageId) -> Json:
        """A content that was put in this run.

        Raises:
            JournalError: no such content.
            JournalDamaged: its bytes are no longer what was put.
        """
        self._check_open()
        place = self._contents.get(content)
        if place is None:
            raise JournalError(f"No content {content} was stored in {self.run_dir}.")
        try:
            return fmt.open_content(content, self._content.read(place.offset, place.length))
        except ValueError as error:
            raise DamagedAt(self._content.path, place.offset, str(error)) from error

    def sync(self) -> None:
        """Return once everything so far would survive a power loss; contents first, then what names them."""
        self._check_open()
        self._content.sync()
        crashpoints.reach(CONTENT_SYNCED)
        self._journal.sync()

    def close(self) -> None:
        """Give the lease back. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._journal.close()
        self._content.close()
        self._lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _catch_up(self) -> None:
        """Take the event that was written last into the tree, where a Ctrl-C came in between."""
        if self._last is not None and self._applied < self._journal.lines:
            with suppress(JournalError):  # it fitted before it was written; so it is in the tree already
                self.tree.apply(self._last)
            self._applied = self._journal.lines

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"The journal of {self.run_dir} has been closed by this writer.")


def _number_of(contents: Contents) -> Callable[[MessageId], int]:
    def number(content: MessageId) -> int:
        found = contents.number(content)
        if found is None:
            raise JournalError(f"The event names a content {content} that was never put. Nothing was written.")
        return found

    return number


def _appended(path: Path, size: int, lines: int = 0) -> AppendedFile:
    return AppendedFile(path, open_plain(path, os.O_RDWR | os.O_APPEND), size, lines)


def _make_private(run_dir: Path) -> None:
    try:
        run_dir.parent.mkdir(parents=True, exist_ok=True)
        run_dir.mkdir(mode=0o700, exist_ok=True)
        run_dir.chmod(0o700)
    except OSError as error:
        raise UsageError(f"A run can't be kept in {run_dir}: {error.strerror}. Nothing was touched.") from error


def _begin(run_dir: Path, header: bytes, *, power: bool) -> None:
    """Contents first, then the journal under another name, then its name: its existence is the commit."""
    new = run_dir / (fmt.JOURNAL + ".new")
    if (run_dir / fmt.JOURNAL).exists():
        raise UsageError(f"There is a run in {run_dir} already. Nothing was touched.")
    _write_whole(run_dir / fmt.CONTENT, b"", power=power)
    _write_whole(new, header, power=power)
    crashpoints.reach(HEADER_WRITTEN)
    new.rename(run_dir / fmt.JOURNAL)
    crashpoints.reach(RUN_CREATED)
    if power:
        sync_directory(run_dir)
        sync_directory(run_dir.parent)


def _write_whole(path: Path, data: bytes, *, power: bool) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    file = AppendedFile(path, fd, 0)
    try:
        file.append(data)
        if power:
            file.sync()
    except StorageFull:
        path.unlink()
        raise
    finally:
        file.close()


def _cut(path: Path, size: int) -> None:
    if path.stat().st_size > size:
        os.truncate(path, size)
