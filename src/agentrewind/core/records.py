"""The facts of a run. Each is written once to the journal and never edited; everything else is a fold over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NewType

from agentrewind.core.codec import Json
from agentrewind.core.effects import Effect
from agentrewind.core.world import Changes, Gap, SnapshotId

RecordUid = NewType("RecordUid", str)
MessageId = NewType("MessageId", str)
"""`sha256:` of the canonical JSON of a message (or of any other content stored once)."""
ThreadId = NewType("ThreadId", str)
BranchId = NewType("BranchId", str)
RequestId = NewType("RequestId", str)
"""What a person asks of a run that is alive, by name: it is dealt with once, whatever crashes."""

MAIN_THREAD = ThreadId("main")
FIRST_BRANCH = BranchId("b0")
SUBMISSION = "submission check"
"""The name of the tool node that a check of submitted work is."""


def record_uid(number: int) -> RecordUid:
    """`rec_000001` for 1."""
    return RecordUid(f"rec_{number:06d}")


@dataclass(frozen=True, slots=True)
class MessageList:
    """A list of messages as the first `keep` ones of record `base`, then `added`: linear in what is new."""

    base: RecordUid | None = None
    keep: int = 0
    added: tuple[MessageId, ...] = ()


@dataclass(frozen=True, slots=True)
class LlmInput:
    """What went to the provider: all of the request body but messages and tools is in `params`."""

    model: str
    messages: MessageList
    params: Json = field(default_factory=dict)
    tools: MessageId | None = None
    """The list of tool schemas, stored once by content."""
    dialect: str = "openai_chat"


@dataclass(frozen=True, slots=True)
class ToolInput:
    name: str
    arguments: Json = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a value: its type, its message, the tail of its traceback, and the boundary that it crossed."""

    type: str
    message: str
    boundary: Literal["provider", "harness", "tool", "world", "task"] = "tool"
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `usd` where a price table knows the model.

    `input` holds all that was read: also what came from the provider's cache and what was written to it.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    usd: float | None = None
    cache_write: int = 0
    cache_write_1h: int = 0
    """Of `cache_write`, what is to stay for an hour: it costs more."""

    @property
    def known(self) -> bool:
        """Whether the server said how many there were: an answer without any doesn't exist."""
        return self.input > 0 or self.output > 0


# --- events: the lines of a journal -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forked:
    """Where a run comes from: it was made as a copy of another one, as that stood just before `record`."""

    run_id: str
    record: RecordUid


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The header. `settings` is what `agentrewind resume` needs to start the agent again (never a key)."""

    run_id: str
    workspace: str
    started_ns: int
    version: str
    task: str = ""
    agent: str = ""
    model: str = ""
    mode: str = "in place"
    strategy: str = "rewind"
    settings: Json = field(default_factory=dict)
    forked: Forked | None = None
    memory: str = ""
    """The memory policy of the run, as `core.memory.policy_named` takes it; empty for the default."""


@dataclass(frozen=True, slots=True)
class Snapshotted:
    """The world was saved. `after` is the node that ended last, whose doing `changes` is.

    Where the world is as it was, nothing is written: the next node names the same snapshot again.

    `failed` says why there is no snapshot: a visible hole, never replaced by another one.
    """

    snapshot: SnapshotId | None
    after: RecordUid | None = None
    fingerprint: str = ""
    complete: bool = True
    gaps: tuple[Gap, ...] = ()
    changes: Changes = field(default_factory=Changes)
    failed: str = ""
    at_ns: int = 0
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Hint:
    """What the runtime noticed, said once at the end of a tool result that the harness had sent (rewind.md, section 6).

    The harness holds the result as it was: what the model saw is in the messages of the call, `original` is the other.
    """

    kind: Literal["loop", "stall", "error"]
    key: str
    """What is told once: equal for the same loop, the same standstill, the same error."""
    text: str
    place: int
    """The number of the message among those that the harness sent."""
    original: MessageId
    seen: tuple[RecordUid, ...] = ()
    """The calls in which it shows, oldest first."""


@dataclass(frozen=True, slots=True)
class NodeBegan:
    """A node, before its call is made. An llm node with a snapshot is a checkpoint from here on."""

    uid: RecordUid
    kind: Literal["llm", "tool"]
    parent: RecordUid | None
    branch: BranchId
    thread: ThreadId
    input_id: str
    snapshot: SnapshotId | None
    started_ns: int
    llm: LlmInput | None = None
    tool: ToolInput | None = None
    raw_length: int = 0
    """llm: how many messages the harness itself sent (edits not applied)."""
    looked_ms: float = 0.0
    """How long looking at the world took where it was as before; else its `Snapshotted` says so."""
    hint: Hint | None = None
    """llm: what this call told the model for the first time."""
    effects: tuple[Effect, ...] = ()
    """tool: what the call will do, decided before it runs."""
    origin: str = ""
    """llm: what the harness itself calls the state that it makes the call from, where it keeps such states."""


@dataclass(frozen=True, slots=True)
class NodeEnded:
    """Its outcome. `output` is the provider's response (llm) or the returned value (tool)."""

    uid: RecordUid
    output: MessageId | None = None
    error: Failure | None = None
    usage: Usage = field(default_factory=Usage)
    latency_ms: float = 0.0
    effects: tuple[Effect, ...] = ()
    """llm: what the tool calls in the answer will do, decided before any of them can run."""
    digest: str = ""
    """llm: the first line of the text, cut. tool: the same of the result."""
    calls: tuple[str, ...] = ()
    """llm: the tool calls in short, as `name(first argument…)`."""
    action: str = ""
    """llm: a digest of the tool calls with all their arguments; empty where there are none."""
    note: str = ""
    """What the interposer did with it, e.g. that sibling calls were not executed because of a commit."""
    priced: str = ""
    """llm: which table gave `usage.usd`, with its version and the model in it; else why there is no price."""


@dataclass(frozen=True, slots=True)
class Gated:
    """What was done about a call with effects that survive, or that a guard reviewed, before it could run: of the
    answer or tool call `uid`.

    All but an approved call were not run, and neither were the others of the same answer.
    """

    uid: RecordUid
    outcome: Literal["told", "approved", "refused", "blocked"]
    key: str
    """A digest of the tool's name and its arguments."""
    call: str = ""
    """The id of the call, as the model gave it."""
    told: str = ""
    """What the agent got instead of a result."""
    by: str = ""
    """The guard that held it back; empty where it was because of its effects."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """What became of one criterion of a checklist; `error`: its check gave no verdict."""

    id: str
    outcome: Literal["satisfied", "failed", "error"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The validator's verdict on a submission. `progress` is (satisfied, all) where it says so."""

    after: RecordUid | None
    accepted: bool
    exit_code: int
    first_failure: str = ""
    feedback: str = ""
    satisfied: int | None = None
    total: int | None = None
    criteria: tuple[Criterion, ...] = ()
    """Of all criteria, in order, where the validator has a checklist. The agent isn't told."""


@dataclass(frozen=True, slots=True)
class RewindIntended:
    """Everything that is needed to finish a rewind after a crash. Written (and synced) before anything is touched."""

    source: RecordUid | None
    """The newest record when it was asked for."""
    target: RecordUid
    snapshot: SnapshotId
    live: SnapshotId
    """The present, saved: the way back."""
    note: str
    branch: BranchId
    """The branch that opens when it commits."""
    thread: ThreadId
    reason: str = ""
    by: str = "agent"
    why: Literal["rewind", "undo"] = "rewind"
    keep_world: bool = False
    request: RequestId | None = None
    asked: RecordUid | None = None
    """The target that was asked for, where a selector chose another one."""
    selector: str = ""
    """The selector that chose `target`; empty where it is the one that was asked for."""
    memory: str = ""
    """The memory policy in force, as `core.memory.policy_named` takes it; empty for the default."""
    keeps: Literal["nothing", "runs", "all"] = "nothing"
    """Of what others changed last: nothing stays, what other runs did, or what anybody did."""
    keep_context: bool = False
    """An ablation: the files alone go back, the conversation goes on as it is."""


@dataclass(frozen=True, slots=True)
class CompensationBegan:
    """The command that takes back effect `number` of node `uid` is about to be run, for the rewind that opens `branch`.

    Without a `CompensationEnded` nobody knows whether it took place; it isn't run again.
    """

    branch: BranchId
    uid: RecordUid
    number: int
    undo: str


@dataclass(frozen=True, slots=True)
class CompensationEnded:
    """Its outcome; `told` says what went wrong."""

    branch: BranchId
    uid: RecordUid
    number: int
    outcome: Literal["done", "failed"]
    told: str = ""


@dataclass(frozen=True, slots=True)
class Rewound:
    """The commit: the run continues from `target` on `branch`. Follows its `RewindIntended`."""

    branch: BranchId
    source: RecordUid | None
    target: RecordUid
    live: SnapshotId
    note: str = ""
    by: str = "agent"
    why: Literal["rewind", "undo"] = "rewind"
    keep_world: bool = False
    restored: int = 0
    """How many paths the restore touched."""
    kept: tuple[Gap, ...] = ()
    """The first `CHANGES_KEPT` paths that stayed as they are although they differ; none only where none did."""
    kept_more: int = 0
    """How many did besides those."""
    ended_processes: tuple[str, ...] = ()
    ended_threads: tuple[ThreadId, ...] = ()
    context: Literal["exact", "degraded"] = "exact"
    memory_tokens: int = 0
    """About how many tokens the message with the notes takes (`core.memory.tokens`)."""
    took_ms: float = 0.0
    at_ns: int = 0
    restore_ms: float = 0.0
    """Of `took_ms`, what bringing the files back took."""
    request: RequestId | None = None
    asked: RecordUid | None = None
    """See `RewindIntended`; the same for the next two."""
    selector: str = ""
    memory: str = ""
    keep_context: bool = False


@dataclass(frozen=True, slots=True)
class NotesMerged:
    """The model was asked to put the oldest notes into one: a call of the runtime's own, outside of the conversation.

    From here on `text` stands for the notes that the rewinds to `covers` brought. Where it came to nothing `failed`
    says why, and each of them goes on to stand for itself.
    """

    covers: tuple[BranchId, ...]
    text: str = ""
    failed: str = ""
    model: str = ""
    dialect: str = "openai_chat"
    request: MessageId | None = None
    output: MessageId | None = None
    """The provider's response, where there was one."""
    usage: Usage = field(default_factory=Usage)
    priced: str = ""
    """As `NodeEnded.priced`."""
    latency_ms: float = 0.0
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class RewindGivenUp:
    """The intent came to nothing: context and files are where they were before it."""

    branch: BranchId
    why: str
    request: RequestId | None = None


@dataclass(frozen=True, slots=True)
class RewindRejected:
    """A call that moved nothing, and what the caller was told."""

    target: str
    told: str
    by: str = "agent"
    request: RequestId | None = None


@dataclass(frozen=True, slots=True)
class FilesRestored:
    """Files alone were brought to a snapshot, by a person (`agentrewind restore`, `undo` of it). Context unmoved."""

    snapshot: SnapshotId
    live: SnapshotId
    at_ns: int
    record: RecordUid | None = None
    why: Literal["restore", "undo"] = "restore"
    restored: int = 0
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a reader of the run should know."""

    text: str


@dataclass(frozen=True, slots=True)
class Paused:
    """A call of the agent waits, because a person said so: nothing goes to its provider."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class Unpaused:
    """The call that waited is made."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class RunResumed:
    """The run goes on after a crash, in a new process, on a branch of its own."""

    at_ns: int
    branch: BranchId
    at: RecordUid | None = None
    """The checkpoint from which it goes on; None for the very beginning."""
    serves: bool = False
    """Whether the answer that `at` got is given to the agent again, instead of a new call."""
    live: SnapshotId | None = None
    """What the workspace held when it was resumed."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    at_ns: int
    ok: bool
    reason: str
    snapshot: SnapshotId | None = None
    answer: str = ""
    audits: int = 0
    """How often all of the workspace was compared with what was known of it."""
    healed: int = 0
    """How many paths had changed although nothing told of it; a snapshot has them since."""


Event = (
    RunStarted
    | Snapshotted
    | NodeBegan
    | NodeEnded
    | Gated
    | Judged
    | RewindIntended
    | CompensationBegan
    | CompensationEnded
    | Rewound
    | NotesMerged
    | RewindGivenUp
    | RewindRejected
    | FilesRestored
    | Warned
    | Paused
    | Unpaused
    | RunResumed
    | RunEnded
)

EVENTS: dict[str, type[Event]] = {
    "run_started": RunStarted,
    "snapshotted": Snapshotted,
    "node_began": NodeBegan,
    "node_ended": NodeEnded,
    "gated": Gated,
    "judged": Judged,
    "rewind_intended": RewindIntended,
    "compensation_began": CompensationBegan,
    "compensation_ended": CompensationEnded,
    "rewound": Rewound,
    "notes_merged": NotesMerged,
    "rewind_given_up": RewindGivenUp,
    "rewind_rejected": RewindRejected,
    "files_restored": FilesRestored,
    "warned": Warned,
    "paused": Paused,
    "unpaused": Unpaused,
    "run_resumed": RunResumed,
    "run_ended": RunEnded,
}
"""The tag of each event in a journal."""

EVENT_TAGS: dict[type, str] = {cls: tag for tag, cls in EVENTS.items()}
