"""The session of a run whose agent is a program outside of this process, possibly a second time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

from agentrewind.compose.continuing import Continued
from agentrewind.core.codec import Json, digest
from agentrewind.core.edits import Message
from agentrewind.core.records import MAIN_THREAD, FilesRestored, Warned
from agentrewind.core.wire import Send, WireReply
from agentrewind.dialects.base import Dialect
from agentrewind.engine.checkpointer import ms
from agentrewind.engine.offline import ResumePoint, standing_notes
from agentrewind.engine.session import Session
from agentrewind.engine.threads import common_prefix

ANEW = (
    "The program began its conversation anew: the files are those of {at}, and of what was said before the model sees"
    " the notes alone, where there are any (context: degraded)."
)
AHEAD = (
    "The program goes on with the results of what it did after {at} and before it was cut off: the files are again"
    " those that it had left."
)
REWRITTEN = (
    "The program goes on with a history that the run's rewinds can't be placed in: the model may see what was abandoned"
    " (context: degraded)."
)


class ProgramSession(Session):
    """As `Session`; which processes a rewind ends, and where the conversation stands after a crash, is said to it."""

    _point: ResumePoint | None = None
    _before = Continued()

    def go_on(self, point: ResumePoint, before: Continued) -> None:
        """The answer that the checkpoint got is given again, if the program asks the same there.

        The notes aren't in what the program sends: they come back with the edits, or with the next rewind.
        """
        self.resume_at(replace(point, notes=frozenset()))
        self._point, self._before = (point if point.at is not None else None), before

    def call(self, path: str, body: Json, send: Send) -> WireReply:
        """See `Session`."""
        if self._point is not None:
            with self._guarded():
                self._take_up(path, body)
        return super().call(path, body, send)

    def _take_up(self, path: str, body: Json) -> None:
        """At the first call that may be the agent's: put the edits in force where they have their place; else say so.

        Whatever is not its place is not guessed.
        """
        dialect = self._dialect_of(path)
        if self._point is None or dialect.problems_with(body) is not None:
            return
        point, before, sent = self._point, self._before, list(dialect.messages(body))
        kept = [self._redact(message) for message in sent]
        whole = before.edits is not None and common_prefix(before.raw, kept, dialect) == len(before.raw)
        if not whole and not dialect.tools(body):
            return  # it writes a title, or the like
        self._point = None
        if whole:
            self._goes_on(sent, before)
        elif not _knows_answers(before.raw, kept, dialect):
            self._begins_anew(dialect, sent)
            if common_prefix(before.raw[: _length_at(point, before)], kept, dialect) < _length_at(point, before):
                self._log.append(Warned(ANEW.format(at=point.at)))
            return
        elif before.edits is None:
            self._log.append(Warned(REWRITTEN))
            return
        else:
            self._goes_on_rewritten(before, dialect, body)
        if not before.open_end and _results(sent, dialect) > _results(before.raw[: _length_at(point, before)], dialect):
            self._put_files_right(point)

    def _begins_anew(self, dialect: Dialect, sent: list[Message]) -> None:
        """The notes of the run's rewinds cross over all the same, to the end of what the program sends first."""
        notes, text = standing_notes(self.tree)
        if notes:
            thread = self._threads.named(self.tree.main or MAIN_THREAD, sent)
            thread.insert([dialect.memory(text, self._memory_role)], notes[-1].branch, tuple(n.branch for n in notes))

    def _goes_on(self, sent: list[Message], before: Continued) -> None:
        """The program sends all that it had sent, and possibly more: what was in force is so again."""
        assert before.edits is not None
        edits, length = before.edits, len(before.raw)
        if before.open_end:
            length += sum(1 for _ in itertools.takewhile(_is_of_an_answer, sent[length:]))
            edits = (*edits[:-1], replace(edits[-1], stop=length))
        thread = self._threads.named(self.tree.main or MAIN_THREAD, sent[:length])
        thread.edits = edits
        thread.contexts.update(before.contexts)

    def _goes_on_rewritten(self, before: Continued, dialect: Dialect, body: Json) -> None:
        """The program sends its history in another form (with a new listing of its directory at the start, say): as in
        a process that goes on, the edits are placed in it, or lost with a warning where that would take a guess.
        """
        thread = self._threads.named(self.tree.main or MAIN_THREAD, list(before.raw))
        thread.edits, thread.tools = before.edits or (), dialect.tools(body)

    def _put_files_right(self, point: ResumePoint) -> None:
        """The program has results of commands that it ran after the checkpoint: to them belong the files that were
        found, which it left there. Unless it ran those commands just now, on the files of the checkpoint.
        """
        if point.found is None or self._checkpointer.save("before going on").snapshot != point.snapshot:
            return
        begun = time.perf_counter()
        report = self._world.restore(point.found)
        self._checkpointer.moved(point.found)
        live = report.live or report.target
        self._log.append(
            FilesRestored(report.target, live, time.time_ns(), restored=len(report.acts), took_ms=ms(begun))
        )
        self._log.append(Warned(AHEAD.format(at=point.at)))


def _results(messages: Sequence[Message], dialect: Dialect) -> int:
    """How many results of tools stand there."""
    return sum(len(dialect.tool_results(message)) for message in messages)


def _length_at(point: ResumePoint, before: Continued) -> int:
    """How much of what the program had sent it had sent at the checkpoint; a call that failed later held more."""
    context = before.contexts.get(point.at) if point.at is not None else None
    return len(before.raw) if context is None else context.raw_length


def _is_of_an_answer(message: Message) -> bool:
    """Whether it is something that the model said, or the result of a call that it asked for; in any dialect."""
    if message.get("role") not in ("system", "developer", "user"):
        return True
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    )


def _knows_answers(known: Sequence[Message], sent: Sequence[Message], dialect: Dialect) -> bool:
    """Whether anything but the beginning of a conversation stands in both lists, which hold no secrets."""
    keys = {digest(dialect.canonical(message)) for message in known if _is_of_an_answer(message)}
    return any(digest(dialect.canonical(message)) in keys for message in sent if _is_of_an_answer(message))
