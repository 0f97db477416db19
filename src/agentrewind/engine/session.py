"""One recoverable run: every call of its agent passes through here, is recorded, and may turn into a rewind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from agentrewind.core.budgets import Budget
from agentrewind.core.codec import Json, canonical
from agentrewind.core.edits import Message
from agentrewind.core.effects import Effect
from agentrewind.core.errors import AgentRewindError, NotRun, ProviderError, RewindRefused, StoreError
from agentrewind.core.memory import CUMULATIVE, FILES_ONLY, Entry, Note
from agentrewind.core.records import (
    MAIN_THREAD,
    SUBMISSION,
    Failure,
    Judged,
    LlmInput,
    MessageId,
    NodeBegan,
    NodeEnded,
    RecordUid,
    RewindRejected,
    RunEnded,
    ThreadId,
    ToolInput,
    Warned,
    record_uid,
)
from agentrewind.core.standing import surviving
from agentrewind.core.tools import CANDIDATES, COMMIT, NAMES, TOOLS
from agentrewind.core.wire import Send, WireReply, has_left
from agentrewind.dialects.base import Dialect, MemoryRole, Reply, ToolCall
from agentrewind.dialects.requests import forced_tool
from agentrewind.engine import degraded, refusals
from agentrewind.engine.at_work import AtWork
from agentrewind.engine.by_program import ByProgram
from agentrewind.engine.candidates import candidates, render
from agentrewind.engine.checkpointer import Checkpointer, Log, ms
from agentrewind.engine.compensation import Undo, taking_back
from agentrewind.engine.effects import Effects, key_of
from agentrewind.engine.gate import BESIDE, Planned, Question
from agentrewind.engine.holdings import Held, Holdings
from agentrewind.engine.memory_policy import Asking, Memory, names
from agentrewind.engine.noticing import Teller
from agentrewind.engine.processes import Process
from agentrewind.engine.rewind_tools import NOT_EXECUTED, argument, handed_on, pushed_aside, wished
from agentrewind.engine.rewinder import Ender, Rewinder, Wish, end_descendants
from agentrewind.engine.signal import RewindSignal
from agentrewind.engine.threads import Answer, Context, Thread, Threads
from agentrewind.engine.turn import ENDED, Turn
from agentrewind.engine.whole import marked
from agentrewind.engine.workplace import Workplace
from agentrewind.engine.written import TRACEBACK, action_of, failure, first_line, jsonable, short, told
from agentrewind.strategies.rewind_rules import RewindRules
from agentrewind.strategies.triggers import wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrewind.core.strategy import Decision, Strategy
    from agentrewind.core.tree import RunTree
    from agentrewind.core.world import World
    from agentrewind.engine.auditing import Auditor
    from agentrewind.engine.offline import ResumePoint
    from agentrewind.engine.people import People
    from agentrewind.engine.reviewing import Reviewer

T = TypeVar("T")
Inject = Literal["auto", "always", "never"]


class Session:
    """The interposer between one agent and its provider, and the recorder of its tool calls.

    Thread-safe: what changes the run happens under one lock, which is never held while a provider or a tool works.

    Args:
        log: the journal of the run, open for writing.
        world: the workspace; its lease is ours.
        dialects: those that we understand; other requests pass through unseen.
        offers_rewind: whether the agent is given the two tools.
        keep_world: an ablation: rewinds move the context only. keep_context: another one: they move the files only.
        inject: `auto` gives the tools to conversations that have tools of their own, so that a title writer is
            left alone.
        memory_role: the role of the message that carries the notes.
        end_processes: how a rewind ends what the run has left running; by default all that descends from this process,
            but what is `spared`.
        rules: which notes cross over, who chooses the target, what is noticed, what is done unasked.
    """

    def __init__(
        self,
        log: Log,
        world: World,
        dialects: Sequence[Dialect],
        *,
        budget: Budget = Budget(),  # noqa: B008 (frozen)
        offers_rewind: bool = True,
        keep_world: bool = False,
        keep_context: bool = False,
        inject: Inject = "auto",
        memory_role: MemoryRole = "system",
        redact: Callable[[Json], Json] = lambda content: content,
        end_processes: Ender | None = None,
        rules: RewindRules = RewindRules(),  # noqa: B008 (frozen)
    ) -> None:
        self._log = log
        self._world = world
        self._dialects = tuple(dialects)
        self._budget = budget
        self._offers = offers_rewind and inject != "never"
        self._inject = inject
        self._memory_role: MemoryRole = memory_role
        self._redact = redact
        self._lock = threading.RLock()
        self._threads = self._new_threads()
        self._at_work = AtWork(self._lock, self._conversations, self._gone, self._let_go)
        self._checkpointer = Checkpointer(log, world)
        self.departed: Callable[[ThreadId], Process | None] = lambda _: None
        """The process of the program that a conversation belongs to, where that is known to have ended."""
        self.spared: Callable[[], Collection[int]] = tuple
        """The processes that a rewind must not end although the run started them."""
        self._undos: dict[RecordUid, Undo] = {}
        self._rewinder = Rewinder(
            log,
            world,
            self._checkpointer,
            budget=budget,
            end_processes=end_processes or self._end_descendants,
            keep_world=keep_world,
            keep_context=keep_context,
            memory="" if rules.memory == CUMULATIVE else str(rules.memory),
            undos=self._undos,
        )
        self._keep_context = keep_context
        self._rules = rules
        self._memory = Memory(log, budget, rules.memory, whole=self._whole_memory)
        self._teller = Teller(log, rules.noticing)
        self._workplace = Workplace(world, self._checkpointer)
        self._next = len(log.tree.nodes) + 1
        self._serve: RecordUid | None = None
        self._tools: tuple[list[Json], MessageId | None, Json] | None = None
        self._seeded: frozenset[str] = frozenset()
        self._lacking: RecordUid | None = None
        self._holdings = Holdings()
        self._stopped: ThreadId | None = None
        """The conversation of which nothing runs until its next call of the model, where it goes back."""
        self._ended = False
        self.by_program = ByProgram(
            lambda: log.tree,
            self._guarded,
            self._conversations,
            self._refusal,
            lambda: self._ended,
            limit=budget.candidates,
            offered=offers_rewind,
        )
        """The two tools for an agent that reaches them by a program."""
        self.effects = Effects()
        """Who says what the calls do; set before the first one. By default nobody does, and all may run."""
        self.reviewer: Reviewer | None = None
        """Who puts calls to a guard before they run; set before the first one."""
        self.auditor: Auditor | None = None
        """Who compares the world with what is known of it while the model thinks; set before the first call."""
        self.people: People | None = None
        """Who may ask for something while the agent runs; set before its first call."""
        self.origin: Callable[[], str] = str
        """How the harness names the state from which it makes the present call of a model; set before the first one."""
        self.broken: AgentRewindError | None = None
        """What made the run unrecordable (a full disk, a damaged store). Every later call raises it."""

    _whole_memory = False
    """Whether a rewind takes the notes out of the retained messages and says all of them in one."""

    @property
    def tree(self) -> RunTree:
        return self._log.tree

    def _end_descendants(self, started_since: int) -> tuple[list[Process], list[Process]]:
        return end_descendants(started_since, self.spared)

    def _new_threads(self) -> Threads:
        """For a process of the agent that begins: what earlier ones asked keeps its names."""
        tree = self._log.tree
        taken = {node.began.thread for node in tree.nodes.values()}
        return Threads(taken, tree.main, without_tools=bool(tree.main) and not tree.main_has_tools)

    def _conversations(self) -> list[Thread]:
        """Those of now: a session that outlives its agent's process begins with new ones."""
        return self._threads.all()

    # --- the wire -----------------------------------------------------------------------------------------------------

    def wants(self, method: str, host: str, path: str) -> bool:
        """Whether a request is one that we record."""
        del host
        return not self._ended and any(dialect.matches(method, path) for dialect in self._dialects)

    def _dialect_of(self, path: str) -> Dialect:
        """The dialect of a request that is wanted."""
        return next(item for item in self._dialects if item.matches("POST", path))

    def call(self, path: str, body: Json, send: Send) -> WireReply:
        """Answer one request of the harness: usually the provider's answer, after a rewind the one from there.

        Whatever `send` raises travels through unchanged; the attempt is in the journal.

        Raises:
            AgentRewindError: the run can't be recorded any more (`broken`).
        """
        dialect = self._dialect_of(path)
        unfit = dialect.problems_with(body)
        if unfit is None:
            body, unfit = self._expanded(dialect, body)
        if unfit is not None:
            return self._unread(dialect, body, unfit, send)
        with self._guarded():
            thread = self._taken_up(dialect, body)
            turn = Turn(thread)
        if not self._hear_people(dialect, thread, send):
            return send(body)
        try:
            reply = self._answered(turn, Asking(dialect, body, send))
        except BaseException:
            self._workplace.begins(turn.thread.id, look=False)
            raise
        with self._guarded():
            if turn.thread.pending or turn.thread.id == self.tree.main:
                self._workplace.begins(turn.thread.id)
        return reply

    def _answered(self, turn: Turn, by: Asking) -> WireReply:
        """The answer for the harness: a recorded one that is to be given again, or a new one."""
        dialect, body, thread = by.dialect, by.body, turn.thread
        with self._guarded():
            if thread.ended:
                self._workplace.rests(thread.id, self._checkpointer.save())
                return refusals.thread_ended(dialect, thread.id)
            served = self._served(thread, dialect, body)
            self._tell_of_marks(dialect, thread)
        if served is not None:
            return served
        self._go_back_before(turn, by)
        left, first = self._budget.internal_calls, True
        while True:
            reply, settled = self._turn(turn, by, last=left == 0, first=first)
            first = False
            if settled is True:
                return reply
            if settled is False and left == 0:
                return self._stripped(dialect, turn.thread, reply, stream=dialect.streams(body))
            left -= settled is False

    def _taken_up(self, dialect: Dialect, body: Json) -> Thread:
        """The conversation of a request, which the harness has come back to: nothing of it is at work any more."""
        tools = dialect.tools(body)
        thread = self._threads.assign(list(dialect.messages(body)), dialect, tools)
        thread.comes_back(tools, forced_tool(body))
        thread.seeded = self._seeded if thread.id == self.tree.main else frozenset()
        self._at_work.changed()
        if thread.unplaced:
            self._say_unplaced(dialect, thread)
        return thread

    def _say_unplaced(self, dialect: Dialect, thread: Thread) -> None:
        thread.unplaced, is_new = False, thread.first is None
        self._log.append(Warned(degraded.unplaced(thread.id, is_new=is_new)))
        notes = self._memory.standing(thread.notes_at(thread.context()))
        memory = dialect.memory(degraded.reminder(notes, is_new=is_new), self._memory_role)
        thread.insert([memory], notes[-1].branches[-1] if notes else "", names(notes))

    def undelivered(self, reply: WireReply) -> None:
        """An answer of `call` never reached the harness: none of the tools that it calls will run."""
        with self._lock:
            for thread in self._threads.all():
                if thread.handed is reply.body:
                    thread.is_given({}, (), b"")
                    self._at_work.changed()

    def _gone(self, thread: ThreadId) -> Process | None:
        return self.departed(thread)

    def _let_go(self, thread: Thread, why: str) -> None:
        """The calls of a conversation are open no more although nobody came back from them."""
        self._log.append(Warned(why))
        self._workplace.rests(thread.id, self._checkpointer.save())

    def _unread(self, dialect: Dialect, body: Json, why: str, send: Send) -> WireReply:
        """A request that can't be understood: on its way as it is, unless calls are to be held, which can't be then."""
        held = self.effects.gate.holds
        with self._guarded():
            act = "refused" if held else "passed through without being recorded"
            self._log.append(Warned(f"A call was {act}: {why}"))
        if not held:
            return send(body)
        return refusals.not_understood(dialect, why)

    def _expanded(self, dialect: Dialect, body: Json) -> tuple[Json, str | None]:
        """A request that goes on from an answer which the provider keeps, with all that was before it.

        The second value says why it can't be had; the body is then as it came.
        """
        prior = dialect.continues(body)
        if prior is None:
            return body, None
        with self._guarded():
            before = self._threads.history(prior)
        if before is None:
            return body, f"it goes on from {prior}, an answer that this session doesn't know"
        return dialect.as_whole(body, [*before, *dialect.messages(body)]), None

    def _hear_people(self, dialect: Dialect, thread: Thread, send: Send) -> bool:
        """Do what people have asked for meanwhile; False where nobody waits for the answer to this call any more."""
        if self.people is None:
            return True

        def grant(wish: Wish) -> str | None:
            """As a person says it: no selector, and no call of the model to shorten the notes."""
            refusal = self._refusal(wish) or self._at_work.obstacle(thread, self._budget.batch_wait_s)
            return self._move(dialect, thread, wish) if refusal is None else refusal

        def arrived() -> None:
            self._workplace.rests(thread.id, self._checkpointer.save())

        return self.people.hear(thread.id, grant, self._guarded, lambda: self._ended or has_left(send), arrived)

    def _hand_over(self, dialect: Dialect, turn: Turn, answer: Reply, body: bytes) -> None:
        """The harness gets this answer: from now on its tools are at work, and a request may go on from it."""
        thread = turn.thread
        thread.is_given({call.id: call.name for call in answer.calls}, answer.messages, body)
        answer_id = dialect.reply_id(answer)
        if answer_id is not None and not turn.rewritten:
            thread.answers[answer_id] = Answer(len(turn.raw), answer.messages)

    def _offers_to(self, dialect: Dialect, body: Json) -> bool:
        return self._offers and (self._inject == "always" or bool(dialect.tools(body)))

    def _turn(self, turn: Turn, by: Asking, *, last: bool, first: bool) -> tuple[WireReply, bool | None]:
        """One live call. The second value is False where the answer was for us and another call must follow, None
        where the conversation was rewound meanwhile and the same must be asked there. After the `last` one no other
        follows, so our tools are neither offered nor carried out.
        """
        dialect, body, send = by.dialect, by.body, by.send
        with self._guarded():
            if turn.thread.ended:
                return refusals.thread_ended(dialect, turn.thread.id), True
            turn.catch_up(self._threads)
            offers = not last and self._offers_to(dialect, body)
            uid, sent = self._begin_llm(dialect, turn.thread, body, offers=offers, first=first)
            if self.auditor is not None:
                self.auditor.meanwhile()
        begun = time.perf_counter()
        try:
            reply = send(sent)
        except BaseException as error:
            with self._guarded():
                self._end(uid, begun, error=failure(error, "provider"))
            raise
        with self._guarded():
            lost = turn.lost
            answer = self._end_llm(dialect, uid, reply, begun, stream=dialect.streams(body), lost=lost, last=last)
            if lost == ENDED:
                return refusals.thread_ended(dialect, turn.thread.id), True
            if answer is None:
                return reply, True
            if lost:
                return reply, None
            ours = [call for call in answer.calls if call.name in NAMES]
            asked = self._questions(uid, answer.calls) if not ours or not self._offers else []
            if not asked and (not ours or not self._offers):
                self._hand_over(dialect, turn, answer, reply.body)
                return reply, True
        if not asked and not last:
            self._act(turn, answer, ours, by)
        return self._gated(turn, by, answer, reply, asked, last=last) if asked else (reply, False)

    def _questions(self, uid: RecordUid, calls: Sequence[ToolCall]) -> list[Question]:
        """What stands between the calls of an answer and their running."""
        planned = self.effects.planned(uid, calls, self.tree.node(uid).effects, self._redact)
        asked = self.effects.gate.questions(self.tree, planned)
        if not asked:
            self.effects.let_through(calls)
        return asked

    def _gated(
        self, turn: Turn, by: Asking, answer: Reply, reply: WireReply, asked: Sequence[Question], *, last: bool
    ) -> tuple[WireReply, bool | None]:
        """Let the calls of an answer run, or tell the model in their place why they don't. As `_turn`."""
        gates = self.effects.gate.settle(asked)
        with self._guarded():
            for gate in gates:
                self._log.append(gate)
            if turn.lost == ENDED:
                return refusals.thread_ended(by.dialect, turn.thread.id), True
            if turn.lost:
                return reply, None
            if self.tree.node(gates[0].uid).held and last:  # the harness gets it, without its calls
                return reply, False
            if self.tree.node(gates[0].uid).held:
                told = {gate.call: gate.told for gate in gates if gate.told}
                self._answer(by.dialect, turn, answer, {**{call.id: BESIDE for call in answer.calls}, **told}, "")
                return reply, False
            self.effects.let_through(answer.calls)
            self._hand_over(by.dialect, turn, answer, reply.body)
            return reply, True

    def _begin_llm(
        self, dialect: Dialect, thread: Thread, body: Json, *, offers: bool, first: bool
    ) -> tuple[RecordUid, Json]:
        state = self._checkpointer.save()
        hint = self._teller.look(dialect, thread, offers=offers) if first else None
        self._workplace.rests(thread.id, state)
        effective = thread.effective()
        sent = dialect.with_messages(body, effective)
        if offers:
            sent = dialect.with_tools(sent, TOOLS)
        uid = self._uid()
        messages = thread.sent.follow(effective, uid, self._store_message, self._kept_form)
        params = self._redact(dialect.params(sent))
        thread.params = params = thread.params if params == thread.params else params
        tools, kept = self._store_tools(dialect.tools(sent))
        llm = LlmInput(dialect.model(sent), messages, params, tools, dialect.name)
        head = {"model": llm.model, "params": params, "tools": kept}
        self._log.append(
            NodeBegan(
                uid,
                "llm",
                self.tree.head,
                self.tree.branch,
                thread.id,
                thread.sent.digests.of_input(head),
                state.snapshot,
                time.time_ns(),
                llm,
                raw_length=len(thread.raw),
                looked_ms=self._checkpointer.looked_ms,
                hint=hint,
                origin=str(self._redact(self.origin())),
            )
        )
        self._checkpointer.belongs_to(uid)
        if thread.id == (self.tree.main or MAIN_THREAD):
            self._holdings.belongs_to(uid)
        thread.contexts[uid] = thread.context()
        thread.first = thread.first or uid
        return uid, sent

    def _store_tools(self, tools: list[Json]) -> tuple[MessageId | None, Json]:
        """The id and the redacted form of a list of tools; the same list as last time costs nothing."""
        if self._tools is None or self._tools[0] != tools:
            self._tools = (tools, self._log.put(tools) if tools else None, self._redact(tools))
            self.effects.learn(tools)
        return self._tools[1], self._tools[2]

    def _store_message(self, message: Message) -> tuple[MessageId, bytes]:
        content = self._redact(message)
        return self._log.put(content), canonical(content)

    def _kept_form(self, content: MessageId) -> bytes:
        return canonical(self._log.get(content))

    def _end_llm(
        self, dialect: Dialect, uid: RecordUid, reply: WireReply, begun: float, *, stream: bool, lost: str, last: bool
    ) -> Reply | None:
        """Record the answer; None where it is an error, which the harness then gets as it came. `lost` says why the
        harness won't get it; the `last` one in a row it gets whatever it calls, without what it may not run.
        """
        if not reply.ok:
            text = reply.body[:TRACEBACK].decode("utf-8", "replace")
            self._end(uid, begun, error=Failure(f"HTTP {reply.status}", text, "provider"))
            return None
        try:
            answer = dialect.parse(reply.body, stream=stream)
        except ProviderError as error:
            self._end(uid, begun, error=failure(error, "provider"))
            return None
        given_up = last and self.effects.gate.mode == "record"
        runs = handed_on(answer.calls, given_up=given_up) if self._offers else answer.calls
        self._log.append(
            NodeEnded(
                uid,
                self._log.put(answer.response),
                None,
                answer.usage,
                ms(begun),
                effects=() if lost else self.effects.of_answer(runs),
                digest=first_line(answer.text),
                calls=tuple(short(call) for call in answer.calls),
                action=action_of(answer.calls),
                note=lost or ("" if runs else pushed_aside(answer.calls)),
            )
        )
        return answer

    def _stripped(self, dialect: Dialect, thread: Thread, reply: WireReply, *, stream: bool) -> WireReply:
        """The model calls the rewind tools for ever: give the harness its answer without those calls."""
        with self._guarded():
            answer = dialect.parse(reply.body, stream=stream)
            response = self._without_ours(dialect, answer.response, answer.calls)
            gates = self.effects.gate.mode != "record"
            what = "rewind tools, or calls that may not run, were" if gates else "rewind tools"
            self._log.append(Warned(f"{thread.id}: {what} called {self._budget.internal_calls} times in a row."))
            rendered = self._rendered(dialect, thread, response, stream=stream)
        return WireReply(reply.status, reply.headers, rendered)

    def _without_ours(self, dialect: Dialect, response: Json, calls: Sequence[ToolCall]) -> Json:
        """An answer without the calls of rewind tools; where calls are held back, without any, for nobody was asked."""
        gates = self.effects.gate.mode != "record"
        return dialect.without_calls(response, NAMES.union(call.name for call in calls) if gates else NAMES)

    # --- the two tools ------------------------------------------------------------------------------------------------

    def _act(self, turn: Turn, answer: Reply, ours: Sequence[ToolCall], by: Asking) -> None:
        """Carry out the rewind tools in an answer; afterwards the thread's edits say how the conversation goes on."""
        commit = next((call for call in ours if call.name == COMMIT), None)
        if commit is None:
            with self._guarded():
                listing = render(candidates(self.tree, turn.thread.id, self._budget.candidates))
                self._answer(by.dialect, turn, answer, {call.id: listing for call in ours}, CANDIDATES)
            return
        before = turn.thread.edits
        if self._keep_context:
            with self._guarded():
                told = FILES_ONLY.format(target=argument(commit, "record_uid"))
                self._answer(by.dialect, turn, answer, {commit.id: told}, COMMIT)
        refusal = self._go_back(turn, wished(commit, turn.thread.id), by)
        if refusal is not None:
            with self._guarded():
                turn.thread.edits = before if self._keep_context else turn.thread.edits
                self._log.append(RewindRejected(str(argument(commit, "record_uid")), refusal))
                self._answer(by.dialect, turn, answer, {commit.id: refusal}, COMMIT)

    def _answer(self, dialect: Dialect, turn: Turn, answer: Reply, texts: dict[str, str], tool: str) -> None:
        """Show the model what it is told, unless its conversation was rewound meanwhile."""
        if turn.lost:
            return
        turn.catch_up(self._threads)
        skipped = {call.id: NOT_EXECUTED.format(tool=tool) for call in answer.calls if call.id not in texts}
        results = dialect.results(answer.messages, {**skipped, **texts})
        turn.thread.insert((*answer.messages, *results))

    def _go_back(self, turn: Turn, asked: Wish | str, by: Asking) -> str | None:
        """Make the rewind that is asked for; the sentence to tell the asker where it can't be made.

        Nothing is made, and nothing is to be told, where somebody else has rewound the conversation meanwhile.
        """
        with self._guarded():
            turn.catch_up(self._threads)
            thread = turn.thread
            wish = replace(asked, thread=thread.id) if isinstance(asked, Wish) else asked
            wish = self._granted(thread, wish) if isinstance(wish, Wish) else wish
            if isinstance(wish, str):
                return wish
            older = self._memory.excess(self._carried(thread, wish))
        if older:
            merged = self._memory.merge(older, by)
            with self._guarded():
                self._log.append(merged)
        with self._guarded():
            refusal = self._at_work.obstacle(thread, self._budget.batch_wait_s) or self.tree.usable(wish.target)
            if turn.lost:
                return None
            return self._move(by.dialect, thread, wish) if refusal is None else refusal

    def _granted(self, thread: Thread, wish: Wish) -> Wish | str:
        """The wish with the target that the rules choose; why it can't be granted, where it can't."""
        refusal = self._refusal(wish)
        if refusal is not None:
            return refusal
        selector = self._rules.selector
        chosen = selector.choose(self.tree, wish.target, thread.id)
        if chosen == wish.target:
            return wish
        wish = replace(wish, target=chosen, asked=wish.target, selector=selector.name)
        return self._refusal(wish) or wish

    def _go_back_before(self, turn: Turn, by: Asking) -> None:
        """Make the rewind that is due before this call, if one is."""
        with self._guarded():
            wish = self.by_program.take(turn.thread.id) or self._unasked(turn.thread)
        if wish is None:
            return
        refusal = self._go_back(turn, wish, by)
        if refusal is not None:
            with self._guarded():
                self._log.append(RewindRejected(wish.target, refusal, wish.by))
                if wish.by == "agent":
                    turn.thread.insert([by.dialect.memory(refusal, self._memory_role)])

    def _unasked(self, thread: Thread) -> Wish | None:
        """The rewind that a strategy wants."""
        due = wanted(self.tree, self._rules.triggers) if thread.id == self.tree.main else None
        if due is None:
            return None
        found, trigger = due
        return Wish(found.target, found.note, thread.id, by=f"strategy {trigger}")

    def _carried(self, thread: Thread, wish: Wish) -> list[Entry]:
        """The notes that a rewind has to bring into the context that it opens."""
        note = Note(self.tree.next_branch(), wish.target, wish.note, wish.by)
        return self._memory.carried(note, self._held(thread, wish.target))

    def _held(self, thread: Thread, target: RecordUid) -> frozenset[str]:
        context = thread.context() if self._keep_context else thread.contexts.get(target)
        return thread.notes_at(context) if context else frozenset(self.tree.held(target))

    def _ended_by(self, thread: Thread, target: RecordUid) -> list[Thread]:
        """The other conversations that a rewind of this one to before their beginning ends."""
        return [item for item in self._threads.all() if item is not thread and _began_after(item, target)]

    def _move(self, dialect: Dialect, thread: Thread, wish: Wish) -> str | None:
        """Grant a wish that nothing stands against; the sentence to tell the agent where it fails all the same."""
        ended = self._ended_by(thread, wish.target)
        context = thread.contexts.get(wish.target)
        prefix, is_marked = ([], False) if context else self._recorded_context(thread, wish.target)
        held = () if context else tuple(self._held(thread, wish.target))
        notes = self._carried(thread, wish)
        number = self.tree.rewinds + 1

        def text() -> str:
            """Known when what can be undone outside was: the last thing before the commit."""
            effects = surviving(self.tree, wish.target)
            said = self._memory.said(notes, rewinds=number, effects=effects, kept=self._keep_context)
            return said + (degraded.MARKS if is_marked else "") + self._holdings.told(self._main_only(thread, wish))

        to = context or Context(0, (), is_marked)
        try:
            rewound = self._rewinder.make(
                wish,
                memory=text,
                ended_threads=[item.id for item in ended],
                context="degraded" if to.degraded else "exact",
            )
        except RewindRefused as error:
            return str(error)
        for item in ended:
            item.ended = True
        said = text()
        memory = (dialect.memory(said, self._memory_role),) if said else ()
        if self._keep_context:
            thread.insert(memory, rewound.branch, names(notes))
            return None
        self._holdings.go_back(self._main_only(thread, wish))
        thread.cut(to, (*prefix, *memory), rewound.branch, (*held, *names(notes)))
        if is_marked:
            self._log.append(Warned(degraded.redacted(wish.target)))
        return None

    def _main_only(self, thread: Thread, wish: Wish) -> RecordUid | None:
        """The target of a rewind of the conversation whose agent holds something."""
        return wish.target if thread.id == self.tree.main else None

    def _recorded_context(self, thread: Thread, target: RecordUid) -> tuple[list[Message], bool]:
        """What was sent at a call that this process knows no more of, and whether a secret is missing in it."""
        recorded = [self._log.get(item) for item in self.tree.messages(target)]
        return degraded.recalled(recorded, [*thread.raw, *thread.effective()], self._redact)

    def _refusal(self, wish: Wish) -> str | None:
        """Why a wish can't be granted, in the run or in its conversation as it is now."""
        thread = self._threads.get(wish.thread)
        return self._rewinder.refusal(wish) or (self._present(thread, wish.target) if thread else None)

    def _present(self, thread: Thread, target: RecordUid) -> str | None:
        context = thread.contexts.get(target)
        if context is not None and context.raw_length == len(thread.raw) and self._on_path(target):
            return f"{target} is where you are now; nothing has been done since. Choose an earlier checkpoint."
        return None

    def _on_path(self, uid: RecordUid) -> bool:
        return any(node.uid == uid for node in self.tree.ancestors(self.tree.head))

    # --- tools and verdicts -------------------------------------------------------------------------------------------

    def tool(
        self,
        name: str,
        arguments: Json,
        run: Callable[[], T],
        *,
        call_id: str | None = None,
        undo: Undo | None = None,
    ) -> T:
        """Record one tool call; returns what `run` returns and raises what it raises. `undo` takes it back, where its
        effects name a function of the program.
        """
        if taking_back():
            return run()
        with self._guarded():
            uid = self._begin_tool(name, arguments, call_id)
            if undo is not None:
                self._undos[uid] = undo
        begun = time.perf_counter()
        try:
            self._ask_about(uid)
            self._review(uid)
            value = run()
        except BaseException as error:
            with self._guarded():
                self._at_work.ends(uid, call_id)
                self._end(uid, begun, error=failure(error, "tool"))
            raise
        with self._guarded():
            self._at_work.ends(uid, call_id)
            output = jsonable(value)
            digest = first_line(told(output))
            self._log.append(NodeEnded(uid, self._log.put(output), latency_ms=ms(begun), digest=digest))
        return value

    def rewind_tool(self, name: str, arguments: Json) -> str:
        """Answer one of the two tools where the agent calls it inside of its harness; a tool node, as any other call.

        A granted rewind is made at the next call of the model, whatever the harness does until then: no tool runs any
        more.

        Raises:
            RewindSignal: it is granted. Whoever catches it may let the agent make its next call of the model.
        """
        told = self.tool(name, arguments, lambda: self.by_program.call(name, arguments).text)
        with self._guarded():
            return self._leave_for(self._thread_of(None)) or told

    def _leave_for(self, thread: ThreadId) -> str | None:
        """Have the agent leave what it is doing, where a rewind of that conversation was asked for; else None, or the
        sentence that says why it stays. Raises: RewindSignal.
        """
        if self.by_program.stands(thread):
            self._stopped = thread
            raise RewindSignal
        return None

    def hold(self, held: Held) -> None:
        """Keep what the agent of the main conversation holds besides its messages, as it is before its next call of
        the model.
        """
        with self._lock:
            self._holdings.hold(held)

    def held(self) -> Held | None:
        """What the agent has to hold after the call of the model that it made just now; None: what it does."""
        with self._lock:
            return self._holdings.take()

    def _begin_tool(self, name: str, arguments: Json, call_id: str | None) -> RecordUid:
        thread = self._thread_of(call_id)
        if thread == self._stopped and self.by_program.stands(thread):
            raise RewindSignal
        state = self._checkpointer.save()
        uid = self._uid()
        tool = ToolInput(name, self._redact(jsonable(arguments)), call_id)
        self._log.append(
            NodeBegan(
                uid,
                "tool",
                self.tree.head,
                self.tree.branch,
                thread,
                key_of(tool.name, tool.arguments),
                state.snapshot,
                time.time_ns(),
                tool=tool,
                looked_ms=self._checkpointer.looked_ms,
                effects=self._effects_of_tool(name, tool.arguments, call_id),
            )
        )
        self._at_work.begins(uid, name)
        return uid

    def _ask_about(self, uid: RecordUid) -> None:
        """Raises: NotRun: the call of this tool node may not run; the text says so to the agent."""
        with self._guarded():
            began = self.tree.node(uid).began
            call = began.effects[0].call if began.effects else ""
            if (call and self.effects.was_let_through(call)) or began.tool is None:
                return
            key = key_of(began.tool.name, began.tool.arguments)
            asked = self.effects.gate.questions(self.tree, [Planned(uid, call, key, began.effects)])
        for gate in self.effects.gate.settle(asked):
            with self._guarded():
                self._log.append(gate)
            if gate.told:
                raise NotRun(gate.told)

    def _review(self, uid: RecordUid) -> None:
        """Raises: NotRun: a guard holds the call of this tool node back; the text says so to the agent."""
        began = self.tree.node(uid).began
        if self.reviewer is None or began.tool is None or began.tool.name == SUBMISSION:
            return
        with self._guarded():
            thread = self._threads.get(began.thread)
            seen = [*thread.effective(), *thread.given] if thread is not None else []
        proposed = self.reviewer.proposed(began, seen)
        held = None if proposed is None else self.reviewer.held(began, proposed)
        if held is not None:
            with self._guarded():
                self._log.append(held)
            raise NotRun(held.told)

    def _effects_of_tool(self, name: str, arguments: Json, call_id: str | None) -> tuple[Effect, ...]:
        if name == SUBMISSION or name in NAMES:
            return ()
        pending = {key: tool for thread in self._threads.all() for key, tool in thread.pending.items()}
        return self.effects.of_tool(name, arguments, self.effects.claimed(name, call_id, pending))

    def _thread_of(self, call_id: str | None) -> ThreadId:
        threads = self._threads.all()
        owner = next((item for item in threads if call_id is not None and call_id in item.pending), None)
        owner = owner or next((item for item in reversed(threads) if item.pending), None)
        return owner.id if owner else self.tree.main or MAIN_THREAD

    def submit(self, check: Callable[[RecordUid | None], Judged], strategy: Strategy) -> Decision:
        """Have a submission judged; the check is a tool node of its own, its verdict is in the journal."""
        after = self.tree.head
        verdict = self.tool(SUBMISSION, {}, lambda: check(after))
        return self.judged(verdict, strategy)

    def judged(self, verdict: Judged, strategy: Strategy) -> Decision:
        with self._guarded():
            self._log.append(verdict)
            return strategy.decide(self.tree, verdict)

    # --- beginning and end --------------------------------------------------------------------------------------------

    def resume_at(self, point: ResumePoint) -> None:
        """Give the answer that the checkpoint got before a crash again, if the agent asks the same there."""
        self._serve = point.at if point.serves else None
        self._seeded = frozenset(point.notes)
        self._lacking = point.at if marked(list(point.seed)) else None

    def _tell_of_marks(self, dialect: Dialect, thread: Thread) -> None:
        """Where the agent began again with recorded messages that lack secrets: say so once, to the model too."""
        at, is_main = self._lacking, thread.id == self.tree.main
        self._lacking = None if is_main else at
        if at is not None and is_main and marked(list(thread.raw)):
            self._log.append(Warned(degraded.seeded(at)))
            thread.insert([dialect.memory(degraded.MARKED, self._memory_role)])

    def _served(self, thread: Thread, dialect: Dialect, body: Json) -> WireReply | None:
        uid, self._serve = self._serve, None
        if uid is None:
            return None
        node = self.tree.node(uid)
        recorded = [self._log.get(item) for item in self.tree.messages(uid)]
        sent = [self._redact(message) for message in dialect.joined(thread.effective())]
        if node.held or node.ended is None or node.ended.output is None or sent != dialect.joined(recorded):
            return None
        response = self._log.get(node.ended.output)
        if not self._was_allowed(uid, dialect.parse(dialect.render(response, stream=False), stream=False).calls):
            return None
        thread.contexts[uid] = thread.context()
        thread.first = uid
        return self._again(dialect, thread, response, stream=dialect.streams(body))

    def _was_allowed(self, uid: RecordUid, calls: Sequence[ToolCall]) -> bool:
        """Whether the calls of a recorded answer may run: a crash may have come before anybody was asked about them."""
        approved = {gate.call for gate in self.tree.node(uid).gated if gate.outcome == "approved"}
        if not all(question.planned.call in approved for question in self._questions(uid, calls)):
            return False
        self.effects.let_through(calls)
        return True

    def _again(self, dialect: Dialect, thread: Thread, response: Json, *, stream: bool) -> WireReply:
        """A recorded answer as the provider would give it."""
        kind = "text/event-stream" if stream else "application/json"
        return WireReply(200, (("content-type", kind),), self._rendered(dialect, thread, response, stream=stream))

    def _rendered(self, dialect: Dialect, thread: Thread, response: Json, *, stream: bool) -> bytes:
        """The bytes of an answer that isn't the provider's own; the harness gets it."""
        rendered = dialect.render(response, stream=stream)
        self._hand_over(dialect, Turn(thread), dialect.parse(rendered, stream=stream), rendered)
        return rendered

    def end(self, reason: str, *, ok: bool, answer: str = "") -> None:
        """The last snapshot and the last line. Everything would survive a power loss when this returns."""
        with self._guarded():
            if self._ended:
                return
            if self.people is not None:
                self.people.close()
            audits, healed = self._audited()
            state = self._checkpointer.save("end of the run")
            self._world.sync()
            self._log.append(RunEnded(time.time_ns(), ok, reason, state.snapshot, answer, audits=audits, healed=healed))
            self._log.sync()
            self._ended = True

    def _audited(self) -> tuple[int, int]:
        """How often the world was compared, a last time now, and how many paths had changed untold."""
        if self.auditor is None:
            return 0, 0
        self.auditor.now()
        return self.auditor.audits, self.auditor.healed

    @property
    def lock(self) -> threading.RLock:
        """Held by whoever uses the world."""
        return self._lock

    def _uid(self) -> RecordUid:
        self._next += 1
        return record_uid(self._next - 1)

    def _end(self, uid: RecordUid, begun: float, *, error: Failure) -> None:
        self._log.append(NodeEnded(uid, error=error, latency_ms=ms(begun), digest=first_line(error.message)))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with self._lock:
            if self.broken is not None:
                raise self.broken
            try:
                yield
            except (RewindRefused, ProviderError):
                raise
            except AgentRewindError as error:
                self.broken = error
                raise
            except OSError as error:
                self.broken = StoreError(f"The run can't be recorded any more: {error}")
                raise self.broken from error


def _began_after(thread: Thread, target: RecordUid) -> bool:
    return thread.first is not None and thread.first > target
