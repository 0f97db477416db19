"""Reading a run from its two files: what a reader shows and a writer goes on from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentrewind.core.errors import JournalError
from agentrewind.core.records import Event, MessageId, RunStarted
from agentrewind.core.tree import RunTree
from agentrewind.journal import format as fmt
from agentrewind.journal.files import DamagedAt, Line, lines, open_plain


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the content file a content lies."""

    offset: int
    length: int


Contents = dict[MessageId, Place]


@dataclass(slots=True)
class Scan:
    """All that the files of a run say. The sizes count whole lines only: where a writer goes on."""

    events: list[Event] = field(default_factory=list)
    tree: RunTree = field(default_factory=RunTree)
    contents: Contents = field(default_factory=dict)
    journal_size: int = 0
    content_size: int = 0
    torn: list[str] = field(default_factory=list)
    """For each file with an unfinished last line: a sentence about it."""


def scan(run_dir: Path) -> Scan:
    """Read a run; an unfinished last line of either file is left out.

    The journal is read before the contents: a writer puts contents first, so everything an event names is there.

    Raises:
        UnknownRun: there is no run in this directory.
        JournalDamaged: anything is wrong; the text names the file and the byte offset.
    """
    found = Scan()
    named = list(_scan_journal(run_dir / fmt.JOURNAL, found))
    _scan_contents(run_dir / fmt.CONTENT, found)
    for offset, content in named:
        if content not in found.contents:
            raise DamagedAt(run_dir / fmt.JOURNAL, offset, f"it names a content {content[:19]}… that is nowhere stored")
    return found


def torn(path: Path, line: Line) -> str:
    """The sentence about an unfinished last line.

    Raises:
        JournalDamaged: the line is whole; something came after it that no interrupted write leaves.
    """
    if fmt.is_sealed(line.data[:-1]):
        raise DamagedAt(
            path, line.offset + len(line.data) - 1, "the line feed after the last line has been overwritten"
        )
    return (
        f"{path}: the last line (byte {line.offset}, {len(line.data):,} bytes) was never finished and is left out;"
        " the run was cut off while it was written."
    )


def _scan_journal(path: Path, found: Scan) -> Iterator[tuple[int, MessageId]]:
    """Fold all events; yields each content that is named, with the offset of the line that does."""
    for line in _whole_lines(path, found):
        number, event = _decoded(path, line)
        _take(path, line.offset, number, event, found)
        for content in fmt.contents_named(event):
            yield line.offset, content
        found.journal_size = line.offset + len(line.data) + 1
    if not found.events:
        raise DamagedAt(path, 0, "the header line is missing or was never finished, so the run never began")


def _decoded(path: Path, line: Line) -> tuple[int, Event]:
    try:
        return fmt.decode_event(line.data)
    except ValueError as error:
        raise DamagedAt(path, line.offset, str(error)) from error


def _take(path: Path, offset: int, number: int, event: Event, found: Scan) -> None:
    if number != len(found.events):
        raise DamagedAt(path, offset, f"line {len(found.events)} is expected here, this is line {number}")
    if number == 0 and not isinstance(event, RunStarted):
        raise DamagedAt(path, offset, "the first line is not the header of a run")
    try:
        found.tree.apply(event)
    except JournalError as error:
        raise DamagedAt(path, offset, str(error).removesuffix(".")) from error
    found.events.append(event)


def _scan_contents(path: Path, found: Scan) -> None:
    for line in _whole_lines(path, found):
        try:
            content, begin, end = fmt.locate_content(line.data)
        except ValueError as error:
            raise DamagedAt(path, line.offset, str(error)) from error
        found.contents.setdefault(content, Place(line.offset + begin, end - begin))
        found.content_size = line.offset + len(line.data) + 1


def _whole_lines(path: Path, found: Scan) -> Iterator[Line]:
    fd = open_plain(path)
    try:
        for line in lines(fd, path):
            if line.complete:
                yield line
            else:
                found.torn.append(torn(path, line))
    finally:
        os.close(fd)
