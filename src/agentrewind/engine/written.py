"""A call in the few words that its record has of it, and what it returned or raised as JSON."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import Literal

from agentrewind.core.codec import Json, canonical, digest, to_plain
from agentrewind.core.records import Failure
from agentrewind.core.tools import NAMES
from agentrewind.dialects.base import ToolCall
from agentrewind.engine.effects import said_arguments
from agentrewind.engine.signal import RaisedElsewhere

DIGEST = 100
"""How many characters of an answer stand in its digest."""
ARGUMENT = 60
TRACEBACK = 2000


def first_line(text: str) -> str:
    """The first line that says something, cut to `DIGEST` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= DIGEST else line[: DIGEST - 1] + "…"


def told(output: Json) -> str:
    """What a tool's result says: the text itself, or the first text in an object."""
    if isinstance(output, dict):
        return next((value for value in output.values() if isinstance(value, str) and value), str(output))
    return output if isinstance(output, str) else str(output)


def short(call: ToolCall) -> str:
    """`name(first argument…)`."""
    value = next(iter(call.arguments.values()), "") if isinstance(call.arguments, dict) else call.raw_arguments
    text = " ".join(str(value).split())
    return f"{call.name}({text if len(text) <= ARGUMENT else text[: ARGUMENT - 1] + '…'})"


def action_of(calls: Sequence[ToolCall]) -> str:
    """A digest of what an answer asks for; empty where that is nothing, or a rewind tool."""
    if not calls or any(call.name in NAMES for call in calls):
        return ""
    return digest([[call.name, said_arguments(call)] for call in calls])[:23]


def failure(error: BaseException, boundary: Literal["provider", "tool"]) -> Failure:
    if isinstance(error, RaisedElsewhere):
        return replace(error.failure, boundary=boundary)
    text = "".join(traceback.format_exception(error))[-TRACEBACK:]
    return Failure(type(error).__name__, str(error), boundary, text)


def jsonable(value: object) -> Json:
    """`value` where JSON can say it, a record as an object, else its representation."""
    if is_dataclass(value) and not isinstance(value, type):
        value = to_plain(value)
    try:
        canonical(value)
    except (TypeError, ValueError):
        return repr(value)
    return value
