"""The tree of a run: what its events add up to. Built by applying events one by one; only its owner applies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from agentrewind.core.effects import Effect
from agentrewind.core.errors import JournalError, UnknownRecord
from agentrewind.core.memory import Merged, Note
from agentrewind.core.records import (
    FIRST_BRANCH,
    BranchId,
    CompensationBegan,
    CompensationEnded,
    Event,
    FilesRestored,
    Gated,
    Judged,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    NotesMerged,
    Paused,
    RecordUid,
    RequestId,
    RewindGivenUp,
    RewindIntended,
    RewindRejected,
    Rewound,
    RunEnded,
    RunResumed,
    RunStarted,
    Snapshotted,
    ThreadId,
    Unpaused,
    Warned,
)
from agentrewind.core.world import Changes, SnapshotId


@dataclass(slots=True)
class Node:
    """One call: its beginning, its end if it came to one, the state after it, the verdict on it."""

    began: NodeBegan
    ended: NodeEnded | None = None
    after: Snapshotted | None = None
    judged: Judged | None = None
    gated: list[Gated] = field(default_factory=list)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What its call, or the calls in its answer, do."""
        return (*self.began.effects, *(self.ended.effects if self.ended else ()))

    @property
    def held(self) -> bool:
        """Its call, or the calls in its answer, were not run because of their effects."""
        return any(gate.outcome != "approved" for gate in self.gated)

    @property
    def uid(self) -> RecordUid:
        return self.began.uid

    @property
    def is_llm(self) -> bool:
        return self.began.kind == "llm"

    @property
    def answered(self) -> bool:
        """The call came to an end without an error."""
        return self.ended is not None and self.ended.error is None


@dataclass(frozen=True, slots=True)
class Branch:
    """A path of the tree from where it left another. `forked_at` is None for the first."""

    id: BranchId
    forked_at: RecordUid | None = None
    parent: BranchId | None = None
    opened_by: Rewound | None = None


@dataclass(slots=True)
class RunTree:
    """The fold of a run's events.

    `head` is the newest node of the current path: the parent of the next one.
    """

    started: RunStarted | None = None
    ended: RunEnded | None = None
    nodes: dict[RecordUid, Node] = field(default_factory=dict)
    branches: dict[BranchId, Branch] = field(default_factory=lambda: {FIRST_BRANCH: Branch(FIRST_BRANCH)})
    branch: BranchId = FIRST_BRANCH
    head: RecordUid | None = None
    notes: list[Note] = field(default_factory=list)
    merges: list[Merged] = field(default_factory=list)
    """What the model put in the place of several notes; the notes themselves stay in `notes`."""
    merging: list[NotesMerged] = field(default_factory=list)
    """The internal calls for it, also those that came to nothing."""
    rewinds: int = 0
    """How many were made (undone ones count, undoing doesn't)."""
    moves: list[Rewound | FilesRestored] = field(default_factory=list)
    verdicts: list[Judged] = field(default_factory=list)
    rejected: list[RewindRejected] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    compensating: list[CompensationBegan] = field(default_factory=list)
    compensated: dict[tuple[RecordUid, int], CompensationEnded] = field(default_factory=dict)
    """By node and number of its effect; not those that were begun once more since."""
    intent: RewindIntended | None = None
    """A rewind that was begun and neither committed nor given up."""
    live: Snapshotted | None = None
    """The newest snapshot of the world, or the newest hole."""
    states: dict[SnapshotId, Snapshotted] = field(default_factory=dict)
    ended_threads: set[ThreadId] = field(default_factory=set)
    acted: dict[tuple[SnapshotId, str], list[RecordUid]] = field(default_factory=dict)
    """The LLM calls by the state of the files that they were made on and by what they asked for (`NodeEnded.action`),
    over all branches, oldest first.
    """
    resumes: int = 0
    requests: dict[RequestId, RewindIntended | Rewound | RewindGivenUp | RewindRejected] = field(default_factory=dict)
    """What became of each rewind that a person asked for while the run was alive; so far, where it is an intent."""
    paused: Paused | None = None
    """The agent waits, because a person said so."""
    main: ThreadId | None = None
    """The conversation that the run is about: the first one with tools; while none has any, the first one."""
    main_has_tools: bool = False

    @classmethod
    def fold(cls, events: Iterable[Event]) -> RunTree:
        tree = cls()
        for event in events:
            tree.apply(event)
        return tree

    def apply(self, event: Event) -> None:
        """Take one more event in.

        Raises:
            JournalError: as `check`; the tree is as it was.
        """
        self.check(event)
        match event:
            case RunStarted():
                self.started = event
            case NodeBegan():
                self._began(event)
            case NodeEnded():
                self._ended(event)
            case Snapshotted():
                self._saved(event)
            case Gated():
                self.node(event.uid).gated.append(event)
            case CompensationBegan() | CompensationEnded():
                self._compensation(event)
            case Judged():
                self.verdicts.append(event)
                if event.after is not None:
                    self.node(event.after).judged = event
            case RewindIntended():
                self.intent = event
                self._of_request(event)
            case Rewound():
                self._moved(event)
                self._of_request(event)
            case NotesMerged():
                self.merging.append(event)
                if event.text:
                    self.merges.append(Merged(event.covers, event.text))
            case RewindGivenUp():
                self.intent = None
                self._of_request(event)
            case RewindRejected():
                self.rejected.append(event)
                self._of_request(event)
            case FilesRestored():
                self.moves.append(event)
            case Warned(text):
                self.warnings.append(text)
            case Paused():
                self.paused = event
            case Unpaused():
                self.paused = None
            case RunResumed():
                self._resumed(event)
            case RunEnded():
                self.ended = event
                self.paused = None

    def _compensation(self, event: CompensationBegan | CompensationEnded) -> None:
        if isinstance(event, CompensationBegan):
            self.compensating.append(event)
            self.compensated.pop((event.uid, event.number), None)
        else:
            self.compensated[event.uid, event.number] = event

    def check(self, event: Event) -> None:
        """Say whether `apply` would take `event`; the tree stays as it is.

        Raises:
            JournalError: it speaks of a record or branch that doesn't exist, or would write over an earlier fact.
        """
        match event:
            case RunStarted():
                if self.started is not None:
                    raise JournalError(f"The run {self.started.run_id} has already started; a journal holds one run.")
            case NodeBegan():
                self._check_began(event)
            case NodeEnded(uid=uid):
                if self._named(uid).ended is not None:
                    raise JournalError(f"{uid} has already ended.")
            case Gated(uid=uid) | CompensationBegan(uid=uid) | CompensationEnded(uid=uid):
                self._named(uid)
            case RewindIntended(branch=branch) | Rewound(branch=branch):
                self._named(event.target)
                if event.source is not None:
                    self._named(event.source)
                self._check_new(branch)
            case RunResumed():
                if event.at is not None:
                    self._named(event.at)
                self._check_new(event.branch)
            case NotesMerged():
                unknown = set(event.covers).difference(note.branch for note in self.notes)
                if unknown:
                    raise JournalError(f"Notes of {', '.join(sorted(unknown))} were merged; there are none.")
            case Snapshotted(after=named) | Judged(after=named) | FilesRestored(record=named) if named is not None:
                self._named(named)

    def _check_began(self, event: NodeBegan) -> None:
        if event.uid in self.nodes:
            raise JournalError(f"{event.uid} stands twice in the journal.")
        if event.parent is not None:
            self._named(event.parent)
        if event.branch not in self.branches:
            raise JournalError(f"{event.uid} is on a branch {event.branch} that was never opened.")
        if event.llm is not None:
            self._check_messages(event.uid, event.llm.messages)

    def _check_messages(self, uid: RecordUid, messages: MessageList) -> None:
        length = 0
        if messages.base is not None:
            base = self._named(messages.base).began.llm
            if base is None:
                raise JournalError(f"{uid} builds on {messages.base}, which is not an LLM call; it has no messages.")
            length = base.messages.keep + len(base.messages.added)
        if not 0 <= messages.keep <= length:
            raise JournalError(f"{uid} keeps {messages.keep} messages of a list of {length}.")

    def _check_new(self, branch: BranchId) -> None:
        if branch in self.branches:
            raise JournalError(f"The branch {branch} is already open; a rewind or a resume opens a new one.")

    def _named(self, uid: RecordUid) -> Node:
        """The node that an event speaks of."""
        node = self.nodes.get(uid)
        if node is None:
            raise JournalError(f"There is no record {uid} in this run.")
        return node

    def _began(self, event: NodeBegan) -> None:
        before = self.nodes.get(event.parent) if event.parent is not None else None
        state = self.states.get(event.snapshot) if event.snapshot is not None else None
        if before is not None and before.after is None and state is not None:
            before.after = replace(state, after=before.uid, changes=Changes(), took_ms=0.0)
        self.nodes[event.uid] = Node(event)
        self.head = event.uid
        if event.llm is not None:
            self._asked(event.thread, has_tools=event.llm.tools is not None)

    def _asked(self, thread: ThreadId, *, has_tools: bool) -> None:
        if self.main is None or (has_tools and not self.main_has_tools):
            self.main, self.main_has_tools = thread, has_tools

    def _ended(self, event: NodeEnded) -> None:
        node = self.node(event.uid)
        node.ended = event
        if event.action and node.began.snapshot is not None:
            self.acted.setdefault((node.began.snapshot, event.action), []).append(event.uid)

    def _saved(self, event: Snapshotted) -> None:
        self.live = event
        if event.snapshot is not None:
            self.states[event.snapshot] = event
        if event.after is not None:
            self.node(event.after).after = event

    def _moved(self, event: Rewound) -> None:
        target = self.node(event.target)
        self.branches[event.branch] = Branch(event.branch, event.target, target.began.branch, event)
        self.branch = event.branch
        self.intent = None
        self.moves.append(event)
        self.ended_threads.update(event.ended_threads)
        if event.why == "undo":
            self.head = event.target
        else:
            self.head = target.began.parent
            self.rewinds += 1
            self.notes.append(Note(event.branch, event.target, event.note, event.by))

    def _of_request(self, event: RewindIntended | Rewound | RewindGivenUp | RewindRejected) -> None:
        if event.request is not None:
            self.requests[event.request] = event

    def _resumed(self, event: RunResumed) -> None:
        at = None if event.at is None else self.node(event.at)
        self.branches[event.branch] = Branch(event.branch, event.at, self.branch)
        self.branch = event.branch
        self.head = at.uid if at and event.serves else at.began.parent if at else None
        self.resumes += 1
        self.ended = None
        self.paused = None

    @property
    def compensations(self) -> dict[tuple[RecordUid, int], str]:
        """By node and number of its effect: done, failed, or unknown where a crash came between."""
        begun = {(event.uid, event.number): "unknown" for event in self.compensating}
        return begun | {key: event.outcome for key, event in self.compensated.items()}

    def node(self, uid: RecordUid) -> Node:
        """Raises: UnknownRecord."""
        try:
            return self.nodes[uid]
        except KeyError:
            raise UnknownRecord(f"There is no record {uid} in this run.") from None

    def next_branch(self) -> BranchId:
        return BranchId(f"b{len(self.branches)}")

    def ancestors(self, uid: RecordUid | None) -> Iterator[Node]:
        """The node `uid` and those before it on its path, newest first."""
        while uid is not None:
            node = self.node(uid)
            yield node
            uid = node.began.parent

    def path(self, uid: RecordUid | None = None) -> list[Node]:
        """The nodes from the root to `uid` (default: the head), oldest first."""
        return list(self.ancestors(self.head if uid is None else uid))[::-1]

    def messages(self, uid: RecordUid) -> tuple[MessageId, ...]:
        """The ids of the messages that llm node `uid` sent to the provider (edits applied)."""
        chain: list[MessageList] = []
        at: RecordUid | None = uid
        while at is not None:
            llm = self.node(at).began.llm
            if llm is None:
                raise JournalError(f"{at} is not an LLM call; it has no messages.")
            chain.append(llm.messages)
            at = llm.messages.base
        found: list[MessageId] = []
        for part in reversed(chain):
            del found[part.keep :]
            found.extend(part.added)
        return tuple(found)

    def held(self, uid: RecordUid) -> frozenset[BranchId]:
        """The notes that stand in the messages of llm node `uid`, named by the branches that brought them.

        A rewind puts every note of the run so far into the context that it opens, so a node holds the notes up to that
        of the newest rewind on its line of branches; where the policy was `latest`, that one note and those of the
        rewind's target; where it was `none`, no note.
        """
        return self.held_on(self.node(uid).began.branch)

    def held_on(self, branch: BranchId) -> frozenset[BranchId]:
        """The notes that stand in every context of a branch."""
        order = [note.branch for note in self.notes]
        known, found = set(order), set[BranchId]()
        at: Branch | None = self.branches[branch]
        while at is not None:
            parent = at.parent
            if at.id in known and at.opened_by is not None:
                if at.opened_by.memory == "none":
                    return frozenset()
                if at.opened_by.memory != "latest":
                    return frozenset(found.union(order[: order.index(at.id) + 1]))
                found.add(at.id)
                parent = self.node(at.opened_by.target).began.branch
            at = self.branches[parent] if parent is not None else None
        return frozenset(found)

    def usable(self, uid: RecordUid) -> str | None:
        """Why `uid` can't be a rewind target; None where it can."""
        node = self.nodes.get(uid)
        if node is None:
            return f"There is no record {uid} in this run."
        if not node.is_llm:
            return f"{uid} is a tool call; only LLM calls are checkpoints."
        if node.began.snapshot is None:
            return self._no_files(uid)
        if node.began.thread in self.ended_threads:
            return f"{uid} belongs to a conversation that an earlier rewind ended."
        return None

    def _no_files(self, uid: RecordUid) -> str:
        origin = self.started.forked if self.started is not None else None
        if origin is not None and self.nodes[uid].after is not None:
            return (
                f"{uid} lies before the point at which this run was forked; its files are in the run {origin.run_id}."
            )
        return f"{uid} has no snapshot of the files (it failed when it was taken)."

    def checkpoints(self, thread: ThreadId | None = None) -> list[Node]:
        """The possible targets on the current path, oldest first; of one conversation, or of all."""
        return [
            node
            for node in self.path()
            if self.usable(node.uid) is None and (thread is None or node.began.thread == thread)
        ]

    def progress(self, uid: RecordUid) -> Judged | None:
        """The newest verdict on the path before `uid`."""
        ancestors = self.ancestors(self.node(uid).began.parent)
        return next((node.judged for node in ancestors if node.judged is not None), None)

    def complete(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot holds everything (one that this run never took counts as complete)."""
        state = self.states.get(snapshot)
        return state is None or state.complete

    def memory_tokens(self, rewound: Rewound) -> tuple[int, Literal["provider", "estimate"]]:
        """What the message with the notes takes, after a rewind.

        From the provider's own counts where they tell: the first call after the rewind sent exactly one message more
        than the target did, to the same model with the same tools. Else the estimate of the record.
        """
        first = next(
            (node for node in self.nodes.values() if node.began.branch == rewound.branch and node.is_llm), None
        )
        target = self.nodes.get(rewound.target)
        if first is None or target is None or not _alike(first, target):
            return rewound.memory_tokens, "estimate"
        before, after = self.messages(target.uid), self.messages(first.uid)
        if after[:-1] != before or first.ended is None or target.ended is None:
            return rewound.memory_tokens, "estimate"
        added = first.ended.usage.input - target.ended.usage.input
        return (added, "provider") if target.ended.usage.input and added > 0 else (rewound.memory_tokens, "estimate")

    def rejections(self) -> int:
        """How many rejections in a row, up to the newest, have its exit code and got no further than the first of them.

        What got further is a greater part of the criteria, where the check counts them.
        """
        count = 0
        code: int | None = None
        best = 0.0
        for verdict in self.verdicts:
            part = verdict.satisfied / verdict.total if verdict.satisfied is not None and verdict.total else 0.0
            if verdict.accepted:
                count = 0
            elif count and verdict.exit_code == code and part <= best:
                count += 1
            else:
                count, code, best = 1, verdict.exit_code, part
        return count

    def equal_failures(self) -> int:
        """How many rejections in a row, up to the newest, agree in exit code and first failing item."""
        count = 0
        for verdict in reversed(self.verdicts):
            same = (verdict.exit_code, verdict.first_failure) == (
                self.verdicts[-1].exit_code,
                self.verdicts[-1].first_failure,
            )
            if verdict.accepted or not same:
                break
            count += 1
        return count


def _alike(one: Node, other: Node) -> bool:
    """Whether two LLM calls went to the same model with the same tools."""
    left, right = one.began.llm, other.began.llm
    return left is not None and right is not None and (left.model, left.tools) == (right.model, right.tools)
