"""Whether a run is sound, as a list of what isn't. Reads only; the one repair there is, is what `open` does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.errors import JournalError, UnknownRun
from agentrewind.core.records import (
    Event,
    FilesRestored,
    MessageId,
    NodeBegan,
    RewindGivenUp,
    RewindIntended,
    Rewound,
    RunResumed,
    RunStarted,
)
from agentrewind.core.tree import RunTree
from agentrewind.journal import format as fmt
from agentrewind.journal.files import DamagedAt, Line, lines, open_plain
from agentrewind.journal.lease import is_held
from agentrewind.journal.scan import torn


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and at which byte of which file."""

    file: str
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}, byte {self.offset}: {self.what}"


def check(run_dir: Path) -> list[Problem]:
    """All that is wrong with a run; empty when it is sound. One damaged line doesn't hide the next.

    Checksums, line numbers, the form of contents, contents that are named, records and branches that are spoken of,
    the order of branches, rewinds begun and not settled, an unfinished last line.

    Raises:
        UnknownRun: there is no run in this directory.
    """
    alive = is_held(run_dir)
    os.close(open_plain(run_dir / fmt.JOURNAL))
    journal = _JournalCheck()
    problems = [*journal.run(run_dir / fmt.JOURNAL, alive=alive)]
    contents = _ContentCheck()
    problems += contents.run(run_dir / fmt.CONTENT, alive=alive)
    problems += [
        Problem(fmt.JOURNAL, offset, f"content {number} is named here and not to be had")
        for number, offset in journal.named.items()
        if number not in contents.sound
    ]
    return problems


def _lines(path: Path) -> Iterator[Line | Problem]:
    """The lines of a file, or what stands in the way of reading it."""
    try:
        fd = open_plain(path)
    except UnknownRun:
        yield Problem(path.name, 0, "the file is missing")
        return
    except DamagedAt as error:
        yield Problem(path.name, error.offset, error.what)
        return
    try:
        yield from lines(fd, path)
    except DamagedAt as error:
        yield Problem(path.name, error.offset, error.what)
    finally:
        os.close(fd)


def _unfinished(path: Path, line: Line, *, alive: bool) -> Iterator[Problem]:
    """While a run is written an unfinished last line is no problem."""
    try:
        what = torn(path, line)
    except DamagedAt as error:
        yield Problem(path.name, error.offset, error.what)
        return
    if not alive:
        yield Problem(path.name, line.offset, what)


class _ContentCheck:
    """Walks the contents and remembers which can be had."""

    def __init__(self) -> None:
        self.sound: set[int] = set()
        self._expected = 0

    def run(self, path: Path, *, alive: bool) -> Iterator[Problem]:
        for line in _lines(path):
            if isinstance(line, Problem):
                yield line
            elif line.complete:
                yield from (Problem(path.name, line.offset, what) for what in self._line(line.data))
            else:
                yield from _unfinished(path, line, alive=alive)

    def _line(self, line: bytes) -> Iterator[str]:
        expected, self._expected = self._expected, self._expected + 1
        try:
            number, begin, end = fmt.locate_content(line)
            self._expected = number + 1
            if number != expected:
                yield f"content {expected} is expected here, this is content {number}"
            _check_canonical(line[begin:end])
        except ValueError as error:
            yield str(error)
        else:
            self.sound.add(number)


def _check_canonical(data: bytes) -> None:
    if fmt.canonical(fmt.parse(data)) != data:
        raise ValueError("it isn't in canonical form, so an equal content would get another id")


class _JournalCheck:
    """Walks the journal and remembers what later lines may speak of."""

    def __init__(self) -> None:
        self.tree = RunTree()
        self.named: dict[int, int] = {}
        """The numbers of the contents that events name, and where the first does."""
        self._expected = 0

    def run(self, path: Path, *, alive: bool) -> Iterator[Problem]:
        offset = 0
        for line in _lines(path):
            if isinstance(line, Problem):
                yield line
            elif line.complete:
                offset = line.offset
                yield from (Problem(path.name, offset, what) for what in self._line(line))
            else:
                yield from _unfinished(path, line, alive=alive)
        if self.tree.started is None:
            yield Problem(path.name, 0, "the header of the run is missing")
        if self.tree.intent is not None and not alive:
            yield Problem(
                path.name,
                offset,
                f"a rewind to {self.tree.intent.target} was begun and never settled; whatever changes this run next"
                " does that, be it to go on with it or to undo that rewind",
            )

    def _line(self, line: Line) -> Iterator[str]:
        try:
            number, event = fmt.decode_event(line.data, lambda content: self._name(content, line.offset))
        except ValueError as error:
            self._expected += 1
            yield str(error)
            return
        if number != self._expected:
            yield f"line {self._expected} is expected here, this is line {number}"
        self._expected = number + 1
        yield from self._order(event)
        try:
            self.tree.apply(event)
        except JournalError as error:
            yield str(error).removesuffix(".")

    def _name(self, content: int, offset: int) -> MessageId:
        """The tree asks for no more of an id than that it is one; the contents are looked at later."""
        self.named.setdefault(content, offset)
        return MessageId(f"content {content}")

    def _order(self, event: Event) -> Iterator[str]:
        """What the tree takes and a sound run doesn't hold."""
        tree = self.tree
        if tree.started is None and not isinstance(event, RunStarted):
            yield "it stands before the header of the run"
        if isinstance(event, NodeBegan):
            yield from self._node(event)
        if isinstance(event, NodeBegan | RewindIntended | FilesRestored) and tree.intent is not None:
            yield f"it follows a rewind to {tree.intent.target} that was begun and not settled"
        if isinstance(event, RewindIntended | Rewound | RunResumed) and event.branch != tree.next_branch():
            yield f"the branch {event.branch} is opened where {tree.next_branch()} is due"
        if isinstance(event, Rewound | RewindGivenUp) and (tree.intent is None or tree.intent.branch != event.branch):
            yield f"it ends a rewind to branch {event.branch} that was never begun"

    def _node(self, event: NodeBegan) -> Iterator[str]:
        if self.tree.ended is not None:
            yield f"{event.uid} began after the run had ended and before it was resumed"
        if event.branch in self.tree.branches and event.branch != self.tree.branch:
            yield f"{event.uid} is on branch {event.branch}, which the run has left"
        if (event.llm is None, event.tool is None) != (event.kind != "llm", event.kind != "tool"):
            yield f"{event.uid} is called {event.kind} and doesn't hold the input of one"
