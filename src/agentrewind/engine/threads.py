"""Which conversation a call belongs to, and what the edits of that conversation are (rewind.md, section 4)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from agentrewind.core.align import align
from agentrewind.core.codec import Json, digest
from agentrewind.core.edits import Edit, Message, splice
from agentrewind.core.records import MAIN_THREAD, RecordUid, ThreadId
from agentrewind.dialects.base import Dialect
from agentrewind.engine.sent import Sent


@dataclass(frozen=True, slots=True)
class Context:
    """The conversation at one call: how many raw messages the harness sent, and the edits in force."""

    raw_length: int
    edits: tuple[Edit, ...]
    degraded: bool = False
    """As `Thread.degraded`, then."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that the harness got: how many raw messages it had sent, and the messages of the answer."""

    raw_length: int
    messages: tuple[Message, ...]


@dataclass(slots=True)
class Thread:
    """One conversation of the run."""

    id: ThreadId
    raw: list[Message] = field(default_factory=list)
    edits: tuple[Edit, ...] = ()
    contexts: dict[RecordUid, Context] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    """What the harness got, by the id under which a later request may go on from it."""
    sent: Sent = field(default_factory=Sent)
    first: RecordUid | None = None
    pending: dict[str, str] = field(default_factory=dict)
    """The tool calls of its last answer that the harness has not come back from: id to name."""
    given: tuple[Message, ...] = ()
    """That answer: the harness holds it, and has not sent it yet."""
    handed: bytes = b""
    """Its body."""
    seeded: frozenset[str] = frozenset()
    """The notes that stand in what the harness itself sends (it was seeded with them after a crash)."""
    ended: bool = False
    degraded: bool = False
    """The model may see what was abandoned, or not what was kept: the edits have no certain place in its history."""
    rewinds: int = 0
    """How many of this conversation were made in this process."""
    rewritings: int = 0
    """How often `raw` has become another list than a longer one."""
    unplaced: bool = False
    """The edits were lost just now, and nobody has been told yet."""
    tools: list[Json] = field(default_factory=list)
    """Those that its last request declared."""
    batches: int = 0
    """How many answers with tool calls it was given."""
    inside: tuple[tuple[Thread, int], ...] = ()
    """The batches of other conversations that were open when it began; none any more once it has gone on after them."""
    forced: str | None = None
    """The tool that its last request made the model call."""
    params: Json = None
    """The parameters of its last call, as recorded: one object for all calls that have the same."""

    def effective(self) -> list[Message]:
        return splice(self.raw, self.edits)

    def context(self) -> Context:
        return Context(len(self.raw), self.edits, self.degraded)

    def cut(self, context: Context, inserted: Sequence[Message], branch: str, notes: tuple[str, ...]) -> None:
        """Go back to `context`: everything after it is cut, and `inserted` stands in its place."""
        here = Edit(context.raw_length, len(self.raw), tuple(inserted), branch, notes)
        self.edits = (*context.edits, here)
        self.degraded = context.degraded
        self.rewinds += 1

    def insert(self, messages: Sequence[Message], branch: str = "", notes: tuple[str, ...] = ()) -> None:
        """Put something that the harness never sees at the end of what it sent."""
        end = len(self.raw)
        self.edits = (*self.edits, Edit(end, end, tuple(messages), branch, notes))

    def notes_at(self, context: Context) -> frozenset[str]:
        """The branches whose notes stand in the conversation at that call."""
        return self.seeded.union(note for edit in context.edits for note in edit.notes)

    @property
    def known(self) -> list[Message]:
        """What the harness holds of it, as far as anybody knows."""
        return [*self.raw, *self.given]

    def comes_back(self, tools: list[Json], forced: str | None = None) -> None:
        """The harness asks again, with these tools: nothing of it is at work any more. `forced`: see there."""
        self.pending, self.given, self.handed, self.tools, self.forced = {}, (), b"", tools, forced

    def is_given(self, calls: dict[str, str], messages: tuple[Message, ...], body: bytes) -> None:
        """The harness gets an answer, and these tools of it are at work."""
        self.pending, self.given, self.handed = calls, messages, body
        self.batches += bool(calls)
        if self.outlived:
            self.inside = ()

    @property
    def outlived(self) -> bool:
        """Whether the calls inside of which it began are over: a sub-agent's own calls usually are then, too."""
        return bool(self.inside) and not any(item.pending and item.batches == number for item, number in self.inside)

    @property
    def forsaken(self) -> str:
        """Why its open calls look as if nobody would come back from them; empty where they don't."""
        if self.outlived:
            return "the call inside of which it began is over"
        if self.forced is not None and set(self.pending.values()) == {self.forced}:
            return "its request made the model call just that, as programs do to get an answer in a fixed form"
        return ""

    def rewritten(self, raw: list[Message], dialect: Dialect) -> None:
        """Its history has become `raw`: the edits are placed in it, or lost where that takes a guess (`unplaced`)."""
        moving = [edit for edit in self.edits if not edit.hint]
        edits = align(_keys(self.known, dialect, moving), _keys(raw, dialect), moving)
        edits = None if edits is None or _breaks(raw, edits, dialect) else edits
        if edits is None and any(map(_abandons, moving)):
            self.unplaced = self.degraded = True
        self.edits = _with_hints(edits or (), self.edits, self.raw, raw, dialect)
        self.raw, self.contexts, self.answers = raw, {}, {}
        self.rewritings += 1

    def extended(self, raw: list[Message], dialect: Dialect) -> None:
        """It goes on with `raw`, which begins with what it was; only results may have changed places."""
        if any(edit.hint and raw[edit.start] != self.raw[edit.start] for edit in self.edits):
            others = [edit for edit in self.edits if not edit.hint]
            self.edits = _with_hints(others, self.edits, self.raw, raw, dialect)
        self.raw = raw


def _abandons(edit: Edit) -> bool:
    """Whether it is a rewind's: without it something abandoned would be seen, or a note not."""
    return bool(edit.notes or (edit.start < edit.stop and not edit.hint))


def _breaks(raw: Sequence[Message], edits: Sequence[Edit], dialect: Dialect) -> bool:
    """Whether the edits make something of the list that the provider refuses, and that it would take as it is."""
    return bool(edits and dialect.problems(splice(raw, edits)) and not dialect.problems(raw))


def _with_hints(
    edits: Sequence[Edit], known: Sequence[Edit], old: Sequence[Message], new: Sequence[Message], dialect: Dialect
) -> tuple[Edit, ...]:
    """`edits` of the list `new`, and those of the `known` hints whose message stands there once, as it was."""
    hints = [edit for edit in known if edit.hint]
    keys = _digests(new, dialect) if hints else []
    found = list(edits)
    for hint in hints:
        key = digest(dialect.canonical(old[hint.start]))
        place = keys.index(key) if keys.count(key) == 1 else None
        if place is not None and not any(edit.start <= place < edit.stop for edit in found):
            found.append(replace(hint, start=place, stop=place + 1))
    return tuple(sorted(found, key=lambda edit: (edit.start, edit.stop)))


class Threads:
    """All conversations of a process.

    Args:
        taken: the names of those that earlier processes of the run had.
        main: the name of the one that the run is about.
        without_tools: whether that one may have no tools. Else it is the first one that has some: what asks before it
            writes a title, or the like.
    """

    def __init__(
        self, taken: Collection[ThreadId] = (), main: ThreadId | None = None, *, without_tools: bool = False
    ) -> None:
        self._threads: list[Thread] = []
        self._main = main or MAIN_THREAD
        self._taken = frozenset(taken) | {self._main}
        self._without_tools = without_tools

    def all(self) -> list[Thread]:
        return list(self._threads)

    def get(self, thread: ThreadId) -> Thread | None:
        return next((item for item in self._threads if item.id == thread), None)

    def named(self, thread: ThreadId, raw: list[Message]) -> Thread:
        """The thread of that name, brought up to `raw`; opened where there is none."""
        found = self.get(thread)
        if found is None:
            found = Thread(thread)
            self._threads.append(found)
        found.raw = raw
        return found

    def history(self, answer_id: str) -> list[Message] | None:
        """What the harness had sent when it got this answer, then the answer; None where nobody knows it."""
        owner = next((thread for thread in self._threads if answer_id in thread.answers), None)
        if owner is None:
            return None
        answer = owner.answers[answer_id]
        return [*owner.raw[: answer.raw_length], *answer.messages]

    def assign(self, raw: list[Message], dialect: Dialect, tools: Sequence[Json] = ()) -> Thread:
        """The thread whose list `raw` extends, brought up to it; else the one that was rewritten; else a new one.

        A new one may be an old one that kept nothing of itself but a summary: where that can't be told, and something
        had been abandoned there, it is `degraded`.
        """
        shared = {thread.id: common_prefix(thread.raw, raw, dialect) for thread in self._threads}
        extended = [thread for thread in self._threads if shared[thread.id] == len(thread.raw)]
        if extended:
            thread = max(extended, key=lambda item: len(item.raw))
            others = [] if _answered(thread, raw, dialect) else [item for item in self._threads if item is not thread]
            among = [item for item in others if any(map(_abandons, item.edits))]
            rewritten = self._rewritten(among, raw, dialect, tools)
            if rewritten is None:
                thread.extended(raw, dialect)
                return thread
        else:
            rewritten = self._rewritten(self._threads, raw, dialect, tools)
        if rewritten is not None:
            rewritten.rewritten(raw, dialect)
            return rewritten
        kin = max(self._threads, key=lambda item: shared[item.id], default=None)
        context = Context(0, ()) if kin is None else Context(shared[kin.id], kin.edits, kin.degraded)
        thread = self._open(raw, context, has_tools=bool(tools))
        broken = _breaks(raw, thread.edits, dialect)
        if broken:
            thread.edits = ()
        if broken or any(_may_go_on(item, raw, shared[item.id], tools) for item in self._threads[:-1]):
            thread.degraded = thread.unplaced = True
        return thread

    def _rewritten(
        self, among: Sequence[Thread], raw: list[Message], dialect: Dialect, tools: Sequence[Json]
    ) -> Thread | None:
        """The newest one of which `raw` is the history in another form."""
        return next((thread for thread in reversed(among) if _rewrote(thread, raw, dialect, tools)), None)

    def fork(self, raw: list[Message], context: Context) -> Thread:
        """A conversation of its own that goes on from this context of another one."""
        return self._open(raw, context, has_tools=False)

    def _open(self, raw: list[Message], context: Context, *, has_tools: bool) -> Thread:
        edits = _inherited(context.edits, context.raw_length)
        thread = Thread(self._free_name(has_tools=has_tools), raw, edits, degraded=context.degraded and bool(edits))
        thread.inside = tuple((item, item.batches) for item in self._threads if item.pending and not item.ended)
        self._threads.append(thread)
        return thread

    def _free_name(self, *, has_tools: bool) -> ThreadId:
        used = {thread.id for thread in self._threads}
        if self._main not in used and (has_tools or self._without_tools):
            return self._main
        numbered = (ThreadId(f"t{number}") for number in itertools.count(1))
        return next(name for name in numbered if name not in used and name not in self._taken)


# --- which messages are the same --------------------------------------------------------------------------------------


def common_prefix(old: Sequence[Message], new: Sequence[Message], dialect: Dialect) -> int:
    """How many messages the two lists share from the start: volatile fields, and the order in which the results of
    parallel calls came, left out.
    """
    at, length = 0, min(len(old), len(new))
    while at < length:
        if old[at] is new[at] or old[at] == new[at] or dialect.canonical(old[at]) == dialect.canonical(new[at]):
            at += 1
            continue
        results = _results(old, at, dialect)
        if not results or _digests(results, dialect) != _digests(_results(new, at, dialect), dialect):
            break
        at += len(results)
    return at


def _results(messages: Sequence[Message], start: int, dialect: Dialect) -> Sequence[Message]:
    """The results that stand beside each other from `start` on, by the ids of their calls."""
    group = itertools.takewhile(lambda item: dialect.answers(item) is not None, itertools.islice(messages, start, None))
    return sorted(group, key=lambda item: str(dialect.answers(item)))


def _digests(messages: Sequence[Message], dialect: Dialect) -> list[str]:
    return [digest(dialect.canonical(message)) for message in messages]


def _inherited(edits: Sequence[Edit], prefix: int) -> tuple[Edit, ...]:
    """The edits that concern the first `prefix` messages; one that reaches further is cut off there."""
    return tuple(
        replace(edit, stop=min(edit.stop, prefix))
        for edit in edits
        if edit.start < prefix or edit.start == edit.stop == prefix
    )


def _keys(messages: Sequence[Message], dialect: Dialect, edits: Sequence[Edit] = ()) -> list[str]:
    """The digests of the messages, results beside each other in one order; `edits` part what they stand between."""
    points = sorted({0, len(messages), *(at for edit in edits for at in (edit.start, edit.stop))})
    parts = (messages[start:stop] for start, stop in itertools.pairwise(points))
    return [key for part in parts for key in _digests(list(_ordered(part, dialect)), dialect)]


def _ordered(messages: Sequence[Message], dialect: Dialect) -> Iterator[Message]:
    at = 0
    while at < len(messages):
        group = _results(messages, at, dialect) or messages[at : at + 1]
        yield from group
        at += len(group)


def _answered(thread: Thread, raw: Sequence[Message], dialect: Dialect) -> bool:
    """Whether a list that extends the thread's goes on with the answer that it got, or is the same again.

    One that doesn't may be another conversation, of which only the first words are left.
    """
    start = len(thread.raw)
    came = raw[start : start + len(thread.given)]
    return len(raw) == start or (bool(came) and _digests(came, dialect) == _digests(thread.given, dialect))


def _may_go_on(thread: Thread, raw: Sequence[Message], shared: int, tools: Sequence[Json]) -> bool:
    """Whether a new list may be the thread's history, summed up, and what was abandoned in it can't be told any more.

    It shares the first word of the user with it, or at least its tools.
    """
    lost = any(_abandons(edit) and edit.stop > shared for edit in thread.edits)
    if thread.ended or not lost or not tools or shared == len(raw):
        return False
    return list(tools) == thread.tools or any(message.get("role") == "user" for message in raw[:shared])


def _rewrote(thread: Thread, raw: list[Message], dialect: Dialect, tools: Sequence[Json]) -> bool:
    """Whether `raw` is the thread's own history in another form: it holds later messages of it, in another place.

    A conversation that merely forks off keeps nothing of what comes after the shared prefix. One that has tools where
    the other has none (a title writer, say, which is given the task too) must hold what the model answered there.
    """
    if thread.ended or not thread.raw:
        return False
    prefix = common_prefix(thread.raw, raw, dialect)
    alike = bool(thread.tools) == bool(tools)
    later = set(_digests(thread.known[prefix:] if alike else thread.given, dialect))
    return any(key in later for key in _digests(raw[prefix:], dialect))
