"""Reading a run, also while it is being written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.codec import Json
from agentrewind.core.errors import JournalError
from agentrewind.core.records import Event, MessageId
from agentrewind.core.tree import RunTree
from agentrewind.journal import format as fmt
from agentrewind.journal.files import DamagedAt, open_plain
from agentrewind.journal.lease import is_held
from agentrewind.journal.redacted import Redact, redacted
from agentrewind.journal.scan import Contents, scan


@dataclass(frozen=True, slots=True)
class RunLog:
    """A run as it was when it was read."""

    run_dir: Path
    events: tuple[Event, ...]
    tree: RunTree
    warnings: tuple[str, ...]
    """What was left out, in words: an unfinished last line of a run that nobody writes any more."""
    alive: bool
    """Whether a live process held the lease."""
    contents: Contents

    def get(self, content: MessageId) -> Json:
        """A content that an event names.

        Raises:
            JournalError: no such content.
            JournalDamaged: its bytes aren't what the id says.
        """
        place = self.contents.get(content)
        if place is None:
            raise JournalError(f"No content {content} is stored in {self.run_dir}.")
        path = self.run_dir / fmt.CONTENT
        fd = open_plain(path)
        try:
            return fmt.open_content(content, os.pread(fd, place.length, place.offset))
        except ValueError as error:
            raise DamagedAt(path, place.offset, str(error)) from error
        finally:
            os.close(fd)


def read_run(run_dir: Path) -> RunLog:
    """All whole lines of a run. Takes no lock, changes nothing, waits for nobody.

    Raises:
        UnknownRun: there is no run in this directory.
        JournalDamaged: more than the end of the last line is wrong; the text names file and byte offset.
    """
    alive = is_held(run_dir)
    found = scan(run_dir)
    warnings = () if alive else tuple(found.torn)
    return RunLog(run_dir, tuple(found.events), found.tree, warnings, alive, found.contents)


class RedactedLog(RunLog):
    """A run as it would be if it were recorded with another redactor: what an older one left is taken out."""

    __slots__ = ("_redact",)

    def __init__(self, log: RunLog, redact: Redact) -> None:
        events = tuple(redacted(event, redact) for event in log.events)
        super().__init__(log.run_dir, events, RunTree.fold(events), log.warnings, log.alive, log.contents)
        object.__setattr__(self, "_redact", redact)

    def get(self, content: MessageId) -> Json:
        """As `RunLog.get`."""
        redact: Redact = object.__getattribute__(self, "_redact")
        return redact(RunLog.get(self, content))
