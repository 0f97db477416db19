"""What a script answers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentrewind.core.codec import Json


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. Arguments that are text are sent as they are, for JSON that doesn't parse."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer of the model."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    """Goes out as the dialect has it (`reasoning_content`, a reasoning item, a thinking block), if there is any."""
    finish: str = ""
    """The finish reason (`length` in any dialect; else as the provider says it); empty for the usual one."""


@dataclass(frozen=True, slots=True)
class Error:
    """An answer with an error status. In a list of steps it is played `times` times."""

    status: int
    message: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer for so many seconds (None: until the server is closed), then the connection ends."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """An answer that stops after so many events of its stream: by an error in the stream or, without one, by a dropped
    connection. With none (and to a plain request) not one byte is sent.
    """

    turn: Turn = field(default_factory=Turn)
    events: int = 0
    error: str = ""


Step = Turn | Error | Hang | Broken


def say(text: str, *, reasoning: str = "") -> Turn:
    """The model answers with text."""
    return Turn(text, reasoning=reasoning)


def call(name: str, args: Json, text: str = "") -> Turn:
    """The model calls one tool."""
    return Turn(text, (Call(name, args),))


def calls(items: Sequence[tuple[str, Json]], text: str = "") -> Turn:
    """The model calls several tools at once."""
    return Turn(text, tuple(itertools.starmap(Call, items)))


def fail(status: int, message: str, times: int = 1) -> Error:
    """The provider answers with an error. In a function, count with `request.attempt` instead of `times`."""
    return Error(status, message, times)


def hang(seconds: float | None = None) -> Hang:
    """The provider doesn't answer."""
    return Hang(seconds)


def drop(turn: Turn | None = None, *, events: int = 0) -> Broken:
    """The connection is dropped: at once, or after so many events of a streamed `turn`."""
    return Broken(turn or Turn(), events)


def break_off(turn: Turn, *, events: int, error: str) -> Broken:
    """A streamed answer ends in an error object after so many events."""
    return Broken(turn, events, error)
