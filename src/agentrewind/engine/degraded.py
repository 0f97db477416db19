"""Where what the model sees can't be made exact: that is written down, and said to the model; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentrewind.core.codec import Json, digest
from agentrewind.core.edits import Message
from agentrewind.core.memory import Entry
from agentrewind.core.records import RecordUid, ThreadId
from agentrewind.engine.whole import marked

REWRITTEN = (
    "{thread}: the agent rewrote its history, and the rewinds of this conversation have no certain place in it any"
    " more: its model may see what was abandoned, and was told so (context: degraded)."
)
BEGUN = (
    "{thread}: this conversation may be an earlier one in a shortened form, in which the rewinds have no place: its"
    " model may see what was abandoned, and was told so (context: degraded)."
)
REDACTED = (
    "The context of {target} held a secret that is not kept and that the agent didn't send again: its model sees a mark"
    " in its place, and was told so (context: degraded)."
)

SEEDED = (
    "The conversation up to {at} held secrets, which are not kept: the agent goes on with marks like [redacted …] in"
    " their place, and its model was told so (context: degraded)."
)


def unplaced(thread: ThreadId, *, is_new: bool) -> str:
    """For the journal: the rewinds of a conversation have no place in what it is now."""
    return (BEGUN if is_new else REWRITTEN).format(thread=thread)


def redacted(target: RecordUid) -> str:
    """For the journal."""
    return REDACTED.format(target=target)


def seeded(at: RecordUid) -> str:
    """For the journal and the user, where an agent goes on with recorded messages that lack secrets."""
    return SEEDED.format(at=at)


MARKS = (
    "\nWhere a mark like [redacted …] stands in this conversation, a value stood that is no longer known: never"
    " use the mark in its place."
)
"""For the model, at the end of a memory."""
MARKED = "[agentrewind] This conversation was taken up again from its records, which hold no secrets." + MARKS
"""For the model, where there is none."""


_REWRITTEN = (
    "[agentrewind] This conversation was shortened or rewritten by the program that leads it. Parts of it that were"
    " abandoned by going back can't be told from the rest any more, so it may speak of actions whose effects on the"
    " files were undone. Look at a file before you rely on what is said of it above."
)
_BEGUN = (
    "[agentrewind] Earlier in this task, some work was abandoned by going back, and its effects on the files were"
    " undone. If what is said above comes from then, it may speak of that work: look at a file before you rely on what"
    " is said of it."
)


def reminder(notes: Sequence[Entry], *, is_new: bool) -> str:
    """For the model, at the end of a history in which nothing can be cut any more."""
    lines = [_BEGUN if is_new else _REWRITTEN, "", "What was noted on each going back:"]
    for number, note in enumerate(notes, 1):
        lines += [f'<note {number} from="{" ".join(note.branches)}">', note.text.strip(), "</note>"]
    return "\n".join(lines)


def recalled(
    recorded: Sequence[Message], known: Iterable[Message], redact: Callable[[Json], Json]
) -> tuple[list[Message], bool]:
    """Recorded messages with their secrets again, where one of the `known` messages is what was recorded; and whether
    a mark is left in one.
    """
    if not marked(list(recorded)):
        return list(recorded), False
    whole = {digest(redact(message)): message for message in known}
    found = [whole.get(digest(message), message) if marked(message) else message for message in recorded]
    return found, marked(found)
