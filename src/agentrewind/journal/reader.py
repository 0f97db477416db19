"""Reading a run, also while it is being written."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from agentrewind.core.codec import Json
from agentrewind.core.errors import JournalError
from agentrewind.core.records import Event, MessageId
from agentrewind.core.tree import RunTree
from agentrewind.journal import format as fmt
from agentrewind.journal.files import DamagedAt, open_plain
from agentrewind.journal.lease import is_held
from agentrewind.journal.redacted import Redact, as_is, redacted
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
    redact: Redact = as_is
    """What each content goes through when it is read."""

    def redacted(self, redact: Redact) -> RunLog:
        """The run as it would be if it were recorded with this redactor: what an older one left is taken out."""
        events = tuple(redacted(event, redact) for event in self.events)
        return replace(self, events=events, tree=RunTree.fold(events), redact=redact)

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
            found = fmt.open_content(content, os.pread(fd, place.length, place.offset))
        except ValueError as error:
            raise DamagedAt(path, place.offset, str(error)) from error
        finally:
            os.close(fd)
        return self.redact(found)


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
