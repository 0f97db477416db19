"""Reading a run from its two files: what a reader shows and a writer goes on from."""

from __future__ import annotations

import os
from array import array
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
    """Where in the content file a content lies: the number of its line, and its bytes."""

    number: int
    offset: int
    length: int


class Contents:
    """Where each content lies. A run has several a call, so what is known of one takes no more room than it must."""

    def __init__(self) -> None:
        self._at: dict[MessageId, int] = {}
        self._places = array("Q")
        """The number, offset and length of each, one after the other."""

    def add(self, content: MessageId, place: Place) -> None:
        """Another content; where it stands in an earlier line, too, that one counts."""
        if self._at.setdefault(content, len(self._places)) == len(self._places):
            self._places.extend((place.number, place.offset, place.length))

    def get(self, content: MessageId) -> Place | None:
        at = self._at.get(content)
        return None if at is None else Place(*self._places[at : at + 3])

    def number(self, content: MessageId) -> int | None:
        """The number of its line."""
        at = self._at.get(content)
        return None if at is None else self._places[at]

    def numbers(self) -> dict[MessageId, int]:
        """The number of the line of each content, in the order of the lines."""
        return {content: self._places[at] for content, at in self._at.items()}

    def __contains__(self, content: object) -> bool:
        return content in self._at

    def __len__(self) -> int:
        return len(self._at)


@dataclass(slots=True)
class Scan:
    """All that the files of a run say. The sizes count whole lines only: where a writer goes on."""

    events: list[Event] = field(default_factory=list)
    tree: RunTree = field(default_factory=RunTree)
    contents: Contents = field(default_factory=Contents)
    ids: list[MessageId] = field(default_factory=list)
    """The id of the content in each line. An interrupt of a put can leave one content in two lines: either will do."""
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
    journal = run_dir / fmt.JOURNAL
    events = list(_whole_lines(journal, found))
    _scan_contents(run_dir / fmt.CONTENT, found)
    for line in events:
        _take(journal, line, found)
    if not found.events:
        raise DamagedAt(journal, 0, "the header line is missing or was never finished, so the run never began")
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


def _take(path: Path, line: Line, found: Scan) -> None:
    """Fold the event of `line`."""
    number, event = _decoded(path, line, found)
    if number != len(found.events):
        raise DamagedAt(path, line.offset, f"line {len(found.events)} is expected here, this is line {number}")
    if number == 0 and not isinstance(event, RunStarted):
        raise DamagedAt(path, line.offset, "the first line is not the header of a run")
    try:
        found.tree.apply(event)
    except JournalError as error:
        raise DamagedAt(path, line.offset, str(error).removesuffix(".")) from error
    found.events.append(event)
    found.journal_size = line.offset + len(line.data) + 1


def _decoded(path: Path, line: Line, found: Scan) -> tuple[int, Event]:
    try:
        return fmt.decode_event(line.data, lambda number: _stored(number, found))
    except ValueError as error:
        raise DamagedAt(path, line.offset, str(error)) from error


def _stored(number: int, found: Scan) -> MessageId:
    if number >= len(found.ids):
        raise ValueError(f"it names content {number}, which is nowhere stored ({len(found.ids)} contents are)")
    return found.ids[number]


def _scan_contents(path: Path, found: Scan) -> None:
    for line in _whole_lines(path, found):
        try:
            number, begin, end = fmt.locate_content(line.data)
        except ValueError as error:
            raise DamagedAt(path, line.offset, str(error)) from error
        if number != len(found.ids):
            raise DamagedAt(path, line.offset, f"content {len(found.ids)} is expected here, this is content {number}")
        content = fmt.content_id(line.data[begin:end])
        found.ids.append(content)
        found.contents.add(content, Place(number, line.offset + begin, end - begin))
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
