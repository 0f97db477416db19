"""A run whose rewinds end the agent's process: the session that its supervisor keeps through all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypedDict, TypeVar, Unpack

from agentrewind.core.budgets import Budget
from agentrewind.core.codec import Json, from_plain
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.edits import Edit, Message, splice
from agentrewind.core.errors import RewindRefused
from agentrewind.core.memory import Note
from agentrewind.core.records import (
    SUBMISSION,
    Judged,
    MessageId,
    RecordUid,
    RewindIntended,
    RewindRejected,
    ThreadId,
    ToolInput,
    Warned,
)
from agentrewind.core.standing import surviving
from agentrewind.core.strategy import Decision, Strategy
from agentrewind.core.tools import NAMES, TOOLS
from agentrewind.core.tree import Node
from agentrewind.core.wire import Send, WireReply
from agentrewind.core.world import SnapshotId, TellsApart, World, worker
from agentrewind.dialects.base import Dialect, MemoryRole
from agentrewind.engine import offline
from agentrewind.engine.checkpointer import Log
from agentrewind.engine.compensation import Undo
from agentrewind.engine.contexts import Contexts
from agentrewind.engine.holdings import Held
from agentrewind.engine.matching import Asked, Comparison, Verdict, compare
from agentrewind.engine.plans import Departure, Divergence, Plan, Way
from agentrewind.engine.prefix import (
    Prefix,
    Step,
    Unservable,
    calls_rewind_tool,
    prefix_before,
    prefix_through,
    without_notes,
)
from agentrewind.engine.processes import ticks_now
from agentrewind.engine.replay import Diverged, Early, Match, Replay
from agentrewind.engine.rewinder import Wish
from agentrewind.engine.session import Inject, Session
from agentrewind.engine.signal import RewindSignal
from agentrewind.engine.threads import Thread
from agentrewind.engine.whole import Whole
from agentrewind.engine.workplace import BEGINNING
from agentrewind.engine.written import jsonable
from agentrewind.strategies.rewind_rules import RewindRules

T = TypeVar("T")

LEAVING = named("fresh.process told to end")
BEGUN = named("fresh.process about to start")
SERVED = named("fresh.recorded answer given")
LIVE = named("fresh.target reached")

EARLY_WAIT_S = 10.0
"""How long a call of a new conversation waits for the run to be live."""
GAVE_UP = (
    "The rewind to {target} was not made: the agent could not be brought back to that point ({why}). Files and"
    " conversation are where they were. Go on from here."
)


class Options(TypedDict, total=False):
    """What else a session is made with: see `Session`."""

    budget: Budget
    offers_rewind: bool
    keep_world: bool
    keep_context: bool
    inject: Inject
    memory_role: MemoryRole
    redact: Callable[[Json], Json]
    rules: RewindRules


class FreshSession(Session):
    """As `Session`, but a granted rewind raises `RewindSignal` out of every call until the process has ended.

    The process that runs the agent is another one than this (see `engine.supervisor`). `begin` says where the next one
    goes on: what is recorded of the way there is given out again, without a provider, a tool or a snapshot; then
    exactly one call is made anew, with the retained messages and one message of notes right after them.
    """

    def __init__(self, log: Log, world: World, dialects: Sequence[Dialect], **options: Unpack[Options]) -> None:
        self._whole = Whole(log)
        super().__init__(self._whole, world, dialects, **options)
        self._contexts = Contexts(self._whole, self._memory_role, self._memory, self._holdings)
        self._since = ticks_now()
        self._leaving: Departure | Divergence | None = None
        self._plan = Plan()
        self._replay: Replay | None = None
        self._contents: dict[MessageId, Json] = {}
        self._newest: tuple[RecordUid, Asked] | None = None
        self._said: set[Verdict] = set()

    _whole_memory = True

    # --- between two processes ----------------------------------------------------------------------------------------

    def begin(self, plan: Plan, way: Way) -> tuple[Message, ...]:
        """Get ready for a process that goes on as planned; the messages with which its harness has to begin.

        Raises:
            Unservable: not in this way; nothing was done.
        """
        with self._lock:
            prefix = self._bare_prefix(plan) if way == "woken" else self._prefix(plan) if way != "seeded" else None
            self._forget()
            self._plan = plan
            if way == "woken":
                self._holdings.stay()
            else:
                self._holdings.go_back(plan.at)
            if prefix is None:
                return self._seed(plan)
            self._replay = Replay(prefix, self._tool_input, pinned=way == "pinned")
            reach(BEGUN)
            return ()

    def wakes(self, plan: Plan) -> RecordUid | None:
        """The call of which a parked copy of the process could go on as planned; None where none could.

        Other conversations than that of the target are known to the copy and would be strange to us.
        """
        with self._lock:
            if plan.at is None or plan.serves:
                return None
            calls = (node for node in self.tree.ancestors(plan.at) if node.is_llm)
            return plan.at if len({node.began.thread for node in calls}) == 1 else None

    def on_path(self) -> frozenset[RecordUid]:
        """The records that the present stands on."""
        with self._lock:
            return frozenset(node.uid for node in self.tree.ancestors(self.tree.head))

    def asking(self) -> RecordUid | None:
        """The LLM call that is about to go out, where it is the newest record."""
        with self._lock:
            node = None if self.tree.head is None else self.tree.node(self.tree.head)
            return node.uid if node is not None and node.is_llm and node.ended is None else None

    def _forget(self) -> None:
        """What belonged to the process that is gone."""
        self._workplace.begins(BEGINNING, look=False)
        self._threads = self._new_threads()
        self._at_work.forget()
        self.by_program.forget()
        self._leaving = None
        self._replay = None
        self._contents.clear()
        self._newest = None
        self._said.clear()
        self._serve, self._seeded, self._lacking = None, frozenset(), None

    @property
    def leaving(self) -> Departure | Divergence | None:
        """Why the process has to end; None while it hasn't to."""
        return self._leaving

    @property
    def live(self) -> bool:
        """Whether the process has come to where the run goes on."""
        with self._lock:
            return self._replay is None or self._replay.live

    def depart(self, departure: Departure) -> Plan:
        """Make the rewind that was written down, now that the process has ended; where the run goes on.

        That is where it was, with a word to the model, where the rewind could not be made.

        Raises:
            StoreError: as `Rewinder.make`.
        """
        intent = departure.intent
        with self._lock:
            fresh = Note(intent.branch, intent.target, intent.note, intent.by)
            notes = self._memory.carried(fresh, self.tree.held(intent.target))
            try:
                self._rewinder.carry_out(
                    intent,
                    memory=lambda: (
                        self._memory.said(
                            notes, rewinds=self.tree.rewinds + 1, effects=surviving(self.tree, intent.target)
                        )
                        + self._holdings.told(intent.target)
                    ),
                    ended_threads=departure.ended_threads,
                    begun=departure.begun,
                )
            except RewindRefused as error:
                self._leaving = None
                return self._goes_on(departure, str(error))
            self._leaving = None
            snapshot = None if intent.keep_world else self._files_after(intent)
            effects = tuple(surviving(self.tree, intent.target))
            return Plan(intent.target, remembers=True, effects=effects, snapshot=snapshot)

    def give_up(self, departure: Departure, why: str) -> Plan:
        """Take a rewind back whose target no process could be brought to: the files first, then tell the model."""
        with self._lock:
            self._leaving = None
            offline.undo(self._whole, self._world)
            self._checkpointer.moved(departure.intent.live)
            text = GAVE_UP.format(target=departure.intent.target, why=why)
            self._log.append(Warned(text))
            return self._goes_on(departure, text)

    def _files_after(self, intent: RewindIntended) -> SnapshotId:
        """The state that a rewind has left: that of its target, but for what others changed and was left as it is."""
        if intent.keeps == "nothing":
            return intent.snapshot
        return self._checkpointer.save("after a rewind").snapshot or intent.snapshot

    def _goes_on(self, departure: Departure, told: str) -> Plan:
        """Where the run goes on although its process was ended for nothing. Who was not the model gets no answer from
        us in its conversation: its last answer is given again.
        """
        asked, intent = self.tree.node(departure.asked), departure.intent
        if intent.by == "agent":
            return Plan(asked.uid, told=told, snapshot=intent.live)
        if intent.by != "person":
            self._log.append(RewindRejected(intent.target, told, intent.by))
        return Plan(asked.uid, serves=asked.answered, snapshot=asked.began.snapshot)

    def warn(self, text: str) -> None:
        with self._lock:
            self._log.append(Warned(text))

    def end_processes(self) -> None:
        """End all that the processes of the agent have left running."""
        self._end_descendants(self._since)

    def end(self, reason: str, *, ok: bool, answer: str = "") -> None:
        """As `Session.end`; a rewind that is written down and not made yet is left for `resume` to settle."""
        with self._lock:
            if isinstance(self._leaving, Departure):
                return
            self._leaving = None
        super().end(reason, ok=ok, answer=answer)

    # --- the signal ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Every entry into the run passes here: while the process has to end, none gets in."""
        with super()._guarded():
            if self._leaving is not None:
                raise RewindSignal
            yield

    def _move(self, dialect: Dialect, thread: Thread, wish: Wish) -> str | None:
        del dialect
        return self._depart_for(thread, wish)

    def _depart_for(self, thread: Thread, wish: Wish) -> str | None:
        """Write the rewind down and end the process; the supervisor makes it."""
        begun = time.perf_counter()
        ended = tuple(item.id for item in self._ended_by(thread, wish.target))
        asked = self._asked_at(thread, wish)
        try:
            intent = self._rewinder.intend(wish)
        except RewindRefused as error:
            return str(error)
        self._end_process(Departure(intent, asked, ended, begun))
        return None

    def _asked_at(self, thread: Thread, wish: Wish) -> RecordUid:
        """The LLM call at which a rewind was asked for: by its answer, or by a person after it."""
        own = (node for node in self.tree.ancestors(self.tree.head) if node.began.thread == thread.id)
        calls = [node for node in own if node.is_llm and node.answered]
        asking = (node.uid for node in calls if wish.by != "agent" or calls_rewind_tool(node))
        return next(asking, calls[0].uid if calls else wish.target)  # none asks so that asks in words of its own

    def _diverge(self, why: str) -> None:
        """Write down what differs, and end the process."""
        self._log.append(Warned(f"A new process of the agent went another way: {why}. Nothing was run for it."))
        self._end_process(Divergence(why))

    def _end_process(self, why: Departure | Divergence) -> None:
        self._leaving = why
        self._at_work.changed()
        reach(LEAVING)
        raise RewindSignal

    # --- what is recorded is given out --------------------------------------------------------------------------------

    def call(self, path: str, body: Json, send: Send) -> WireReply:
        """As `Session.call`. Raises: RewindSignal: this process of the agent is over."""
        dialect = self._dialect_of(path)
        with self._guarded():
            recorded = self._recorded(dialect, body) if self._replay is not None else None
        return super().call(path, body, send) if recorded is None else recorded

    def tool(
        self,
        name: str,
        arguments: Json,
        run: Callable[[], T],
        *,
        call_id: str | None = None,
        undo: Undo | None = None,
    ) -> T:
        """As `Session.tool`. Raises: RewindSignal: this process of the agent is over."""
        with self._guarded():
            uid = self._recorded_tool(name, arguments, call_id)
            if uid is not None:
                value: Any = self._whole.output(uid)
                reach(SERVED)
                return value  # type: ignore[no-any-return]
        return super().tool(name, arguments, run, call_id=call_id, undo=undo)

    def _leave_for(self, thread: ThreadId) -> str | None:
        """As `Session._leave_for`; its process makes no other call, so the rewind is written down now."""
        wish = self.by_program.take(thread)
        found = self._threads.get(thread)
        if wish is None or found is None:
            return None
        granted = self._granted(found, wish)
        return granted if isinstance(granted, str) else self._depart_for(found, granted)

    def held(self) -> Held | None:
        """As `Session.held`; on its way back the agent holds what it makes of what it is given."""
        return super().held() if self.live else None

    def submit(self, check: Callable[[RecordUid | None], Judged], strategy: Strategy) -> Decision:
        """As `Session.submit`; a recorded verdict is decided on as it was then."""
        with self._guarded():
            uid = self._recorded_tool(SUBMISSION, {}, None)
            if uid is not None:
                return self._decided(uid, strategy)
        return super().submit(check, strategy)

    def _recorded(self, dialect: Dialect, body: Json) -> WireReply | None:
        unfit = dialect.problems_with(body)
        if unfit is None:
            body, unfit = self._expanded(dialect, body)
        if unfit is not None and not self.live:
            self._diverge(f"a call that can't be recorded: {unfit}")
        until = time.monotonic() + EARLY_WAIT_S
        while unfit is None and self._replay is not None:
            try:
                return self._recall(self._replay, dialect, body)
            except Diverged as error:
                self._diverge(str(error))
            except Early:
                self._wait(until)
        return None

    def _wait(self, until: float) -> None:
        """Let the prefix go on; a call of a conversation that it doesn't hold can't be made before the run is live."""
        if time.monotonic() >= until:
            self._diverge("a conversation that the recorded prefix doesn't hold came first")
        self._at_work.wait(max(until - time.monotonic(), 0.0))
        if self._leaving is not None:
            raise RewindSignal

    def _recall(self, replay: Replay, dialect: Dialect, body: Json) -> WireReply | None:
        """The recorded answer; None where the call is to be made. Raises: Diverged, Early."""
        raw = list(dialect.messages(body))
        sent = dialect.with_tools(body, TOOLS) if self._offers_to(dialect, body) else body

        def measure(step: Step) -> Comparison:
            asked = self._asked(step.uid)
            offered = any(name in NAMES for name in _names(asked.tools))
            return compare(asked, self._asks(dialect, sent if offered else body, step, raw), dialect.canonical)

        match = replay.match(measure, lambda step: _theirs(self._asked(step.uid).tools), _theirs(dialect.tools(body)))
        if match is None:
            self._replay = None if replay.over else replay
            return None
        self._say_how(match)
        thread = self._threads.named(match.step.thread, raw)
        thread.first = thread.first or match.step.uid
        target = replay.is_target(match.step)
        replay.give(match.step)
        self._at_work.changed()
        if target:
            self._go_live(dialect, thread, match)
            return None
        thread.edits = match.step.edits
        if replay.live:
            self._put_files_right(self._plan)
        return self._given(dialect, thread, match.step, stream=dialect.streams(body))

    def _say_how(self, match: Match) -> None:
        """What differs is in the journal, however little it is: the first of each kind, and all at the target."""
        found = match.comparison
        new = found.verdict not in self._said or match.step.uid == self._plan.at
        self._said.add(found.verdict)
        if found.verdict is not Verdict.EXACT and new:
            self._log.append(Warned(f"{match.step.uid} was asked otherwise ({found.verdict.value}): {_told(found)}"))

    def _given(self, dialect: Dialect, thread: Thread, step: Step, *, stream: bool) -> WireReply:
        response = self._whole.output(step.uid)
        if step.stripped:
            calls = dialect.parse(dialect.render(response, stream=False), stream=False).calls
            response = self._without_ours(dialect, response, calls)
        again = self._again(dialect, thread, response, stream=stream)
        reach(SERVED)
        return again

    def _go_live(self, dialect: Dialect, thread: Thread, match: Match) -> None:
        """Put the conversation and the files where the run goes on; the call itself is `Session.call`'s."""
        plan, step = self._plan, match.step
        if match.comparison.verdict is Verdict.HARD:
            thread.edits = (
                Edit(0, len(thread.raw), self._contexts.all(dialect, plan), "", self._contexts.notes(plan)),
            )
        else:
            edits = without_notes(step.edits) if plan.remembers else step.edits
            more = self._contexts.after(dialect, plan, self._contexts.brought())
            end = Edit(len(thread.raw), len(thread.raw), more, "", self._contexts.notes(plan) if plan.remembers else ())
            thread.edits = (*edits, end) if more else edits
        self._put_files_right(plan)
        reach(LIVE)

    def _put_files_right(self, plan: Plan) -> None:
        """Code of the harness that isn't a recorded tool may have touched the files on the way here."""
        if plan.snapshot is None or self._checkpointer.save("before going on").snapshot == plan.snapshot:
            return
        if isinstance(self._world, TellsApart) and self._world.shared:
            report = self._world.restore_own(plan.snapshot, self._mine(), people=False)
        else:
            report = self._world.restore(plan.snapshot)
        self._checkpointer.moved(plan.snapshot)
        if report.acts:
            self._log.append(
                Warned(f"The agent changed {len(report.acts)} paths on its way back; they were restored again.")
            )

    def _mine(self) -> str:
        return worker(self.tree.started.run_id if self.tree.started else "")

    def _recorded_tool(self, name: str, arguments: Json, call_id: str | None) -> RecordUid | None:
        if self._replay is None:
            return None
        try:
            return self._replay.match_tool(name, self._redact(jsonable(arguments)), call_id)
        except Diverged as error:
            self._diverge(str(error))
        return None

    def _decided(self, uid: RecordUid, strategy: Strategy) -> Decision:
        """What followed a verdict: strategies are pure, and the tree of then is part of that of now."""
        verdict = from_plain(Judged, self._whole.output(uid))
        verdicts = self.tree.verdicts
        count = next((n for n in range(len(verdicts), 0, -1) if verdicts[n - 1] == verdict), len(verdicts))
        return strategy.decide(replace(self.tree, head=uid, verdicts=verdicts[:count]), verdict)

    # --- what was asked, and what is --------------------------------------------------------------------------------

    def _prefix(self, plan: Plan) -> Prefix:
        """Raises: Unservable: there is no telling what was sent, or something of it can't be given again."""
        if plan.at is None or plan.serves:
            prefix = prefix_through(self.tree, self._log.get, plan.at)
        else:
            prefix = prefix_before(self.tree, self._log.get, plan.at)
        for step in prefix.steps:
            for uid in (step.uid, *step.tools):
                self._check_servable(self.tree.node(uid))
        return prefix

    def _bare_prefix(self, plan: Plan) -> Prefix:
        """Nothing but the target. Raises: Unservable."""
        if plan.at is None or plan.serves:
            raise Unservable("no call is made anew")
        return replace(prefix_before(self.tree, self._log.get, plan.at), steps=())

    def _check_servable(self, node: Node) -> None:
        if node.ended is not None and node.ended.error is not None:
            raise Unservable(f"{node.uid} raised {node.ended.error.type}, which can't be raised again as it was")
        self._whole.output(node.uid)

    def _tool_input(self, uid: RecordUid) -> ToolInput:
        tool = self.tree.node(uid).began.tool
        assert tool is not None
        return tool

    def _asked(self, uid: RecordUid) -> Asked:
        if self._newest is None or self._newest[0] != uid:
            llm = self.tree.node(uid).began.llm
            assert llm is not None
            messages = [self._content(item) for item in self.tree.messages(uid)]
            tools = self._content(llm.tools) if llm.tools else []
            self._newest = uid, Asked(llm.model, llm.params, tools, messages)
        return self._newest[1]

    def _content(self, content: MessageId) -> Json:
        """Read once a prefix: each of its calls names nearly all messages of the one before."""
        if content not in self._contents:
            self._contents[content] = self._log.get(content)
        return self._contents[content]

    def _asks(self, dialect: Dialect, sent: Json, step: Step, raw: Sequence[Message]) -> Asked:
        fits = all(edit.stop <= len(raw) for edit in step.edits)
        messages = splice(raw, step.edits) if fits else list(raw)
        recorded = self._asked(step.uid).messages
        known = [old if old == new else self._redact(new) for old, new in zip(recorded, messages, strict=False)]
        rest = [self._redact(message) for message in messages[len(known) :]]
        params, tools = self._redact(dialect.params(sent)), self._redact(dialect.tools(sent))
        return Asked(dialect.model(sent), params, tools, [*known, *rest])

    def _seed(self, plan: Plan) -> tuple[Message, ...]:
        node = None if plan.at is None else self.tree.node(plan.at)
        if node is None or node.began.llm is None:
            return ()
        name = node.began.llm.dialect
        dialect = next(item for item in self._dialects if item.name == name)
        seed = tuple(dialect.joined(self._contexts.all(dialect, plan)))
        notes = frozenset(self._contexts.notes(plan))
        self.resume_at(offline.ResumePoint(node.uid, seed, plan.snapshot, plan.serves, notes))
        return seed


def _names(tools: Json) -> list[str]:
    """The names of tool declarations of any dialect."""
    return sorted(str(tool.get("name") or (tool.get("function") or {}).get("name") or "") for tool in tools or ())


def _theirs(tools: Json) -> list[str]:
    """The names of the harness's own. Ours are not always offered."""
    return [name for name in _names(tools) if name not in NAMES]


def _told(comparison: Comparison) -> str:
    return "; ".join(comparison.differences)
