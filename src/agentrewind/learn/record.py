"""A trial as a run: the same journal as that of an agent, so that everything that reads runs reads trials.

A call is an llm node, an executed action a tool node, a recovery a rewind; a state is a snapshot named by its
fingerprint, which is not stored anywhere: the actions lead to it again (`replayed`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Protocol

from agentrewind.core.codec import Json, canonical, digest, digest_bytes, to_plain
from agentrewind.core.environment import Environment, ReplayDiverged
from agentrewind.core.records import (
    MAIN_THREAD,
    Event,
    LlmInput,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    RecordUid,
    RewindIntended,
    Rewound,
    RunEnded,
    RunStarted,
    Snapshotted,
    ThreadId,
    ToolInput,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import Change, Changes, SnapshotId
from agentrewind.learn.trial import Call, Recovery, Trial
from agentrewind.learn.worlds import World

REFLECTION = ThreadId("reflection")
SAMPLED = "sampled"
"""Beside the choices of an answer: its tokens, where the policy knew them."""
DIGEST = 100


class Log(Protocol):
    """What is needed of a journal writer."""

    @property
    def tree(self) -> RunTree: ...
    def append(self, event: Event) -> None: ...
    def put(self, content: Json) -> MessageId: ...


class Contents(Protocol):
    """A run that can be read."""

    @property
    def tree(self) -> RunTree: ...
    def get(self, content: MessageId) -> Json: ...


def started(run_id: str, trial: Trial, policy: str) -> RunStarted:
    """The header of a trial's run."""
    settings = {"trial": trial.settings, "instance": trial.task, "environment": trial.environment}
    task = f"{trial.environment} {trial.task}"
    return RunStarted(
        run_id,
        "",
        time.time_ns(),
        "",
        task,
        "trial",
        policy,
        mode="reset",
        strategy="retrospective exploration",
        settings=settings,
    )


def record(trial: Trial, world: World, log: Log) -> None:
    """Write a trial into a run that has just been started."""
    _Recorder(world, log, trial.final).write(trial)


class _Recorder:
    def __init__(self, world: World, log: Log, final: str) -> None:
        self._world = world
        self._log = log
        self._final = final
        self._checkpoints: dict[int, RecordUid] = {}
        """For each checkpoint of the active path the first call that was made at it."""
        self._base: RecordUid | None = None
        self._ids: tuple[MessageId, ...] = ()
        self._state = ""

    def write(self, trial: Trial) -> None:
        recoveries = {item.reflection.number: item for item in trial.recoveries}
        for call in trial.calls:
            uid = self._called(call)
            if call.did == "acted":
                self._acted(call)
            if call.number in recoveries:
                self._went_back(recoveries[call.number], uid)
        self._saved(self._final)
        self._log.append(RunEnded(time.time_ns(), trial.solved, trial.why_ended, SnapshotId(self._final)))

    def _saved(self, state: str) -> None:
        if state == self._state:
            return
        tree = self._log.tree
        after = tree.head if tree.head is not None and tree.node(tree.head).after is None else None
        changes = Changes((Change("M", self._world.environment.name),), 1) if self._state else Changes()
        self._log.append(Snapshotted(SnapshotId(state), after, state, changes=changes, at_ns=time.time_ns()))
        self._state = state

    def _called(self, call: Call) -> RecordUid:
        self._saved(call.state)
        tree = self._log.tree
        uid = record_uid(len(tree.nodes) + 1)
        llm = LlmInput(tree.started.model if tree.started else "", self._messages(call))
        thread = MAIN_THREAD if call.kind == "execution" else REFLECTION
        shown = digest_bytes(canonical(list(call.context)))
        began = NodeBegan(
            uid, "llm", tree.head, tree.branch, thread, shown, SnapshotId(call.state), time.time_ns(), llm
        )
        self._log.append(began)
        if call.kind == "execution":
            self._base = uid
            self._checkpoints.setdefault(call.checkpoint, uid)
        message = {"role": "assistant", "content": call.output.text}
        said: Json = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        if call.output.tokens:
            said[SAMPLED] = to_plain(replace(call.output, text=""))
        output = self._log.put(said)
        note = call.observation if call.did == "invalid" else ""
        self._log.append(NodeEnded(uid, output, digest=_line(call.output.text), note=note))
        return uid

    def _messages(self, call: Call) -> MessageList:
        ids = tuple(self._log.put(message) for message in call.context)
        if call.kind == "reflection":
            return MessageList(added=ids)
        pairs = enumerate(zip(self._ids, ids, strict=False))
        keep = next((at for at, (old, new) in pairs if old != new), min(len(self._ids), len(ids)))
        self._ids = ids
        return MessageList(self._base, keep, ids[keep:]) if self._base else MessageList(added=ids)

    def _acted(self, call: Call) -> None:
        tree = self._log.tree
        uid = record_uid(len(tree.nodes) + 1)
        tool = ToolInput(self._world.environment.name, {"action": self._world.plain(call.action)})
        shown = digest({"name": tool.name, "arguments": tool.arguments})
        self._log.append(
            NodeBegan(
                uid,
                "tool",
                tree.head,
                tree.branch,
                MAIN_THREAD,
                shown,
                SnapshotId(call.state),
                time.time_ns(),
                tool=tool,
            )
        )
        output = self._log.put({"observation": call.observation, "reward": call.reward})
        self._log.append(NodeEnded(uid, output, digest=_line(call.observation)))

    def _went_back(self, recovery: Recovery, source: RecordUid) -> None:
        tree = self._log.tree
        target = self._checkpoints[recovery.target]
        state = tree.node(target).began.snapshot
        assert state is not None
        live, branch = SnapshotId(self._state), tree.next_branch()
        by = "strategy" if recovery.forced else "agent"
        thread, note = MAIN_THREAD, recovery.note
        self._log.append(RewindIntended(source, target, state, live, note, branch, thread, recovery.trigger, by))
        self._log.append(Rewound(branch, source, target, live, note, by, restored=1, at_ns=time.time_ns()))
        self._checkpoints = {at: uid for at, uid in self._checkpoints.items() if at < recovery.target}
        self._state = state


def replayed(run: Contents, environment: Environment[Any, Any]) -> str:
    """Carry out the actions on the current path of a run again, from the initial state.

    Args:
        run: a recorded trial.
        environment: of the same instance.

    Returns:
        The fingerprint of the final state.

    Raises:
        ReplayDiverged: an observation or reward isn't the recorded one.
    """
    environment.reset()
    for node in run.tree.path():
        if node.began.tool is None or node.ended is None or node.ended.output is None:
            continue
        plain = node.began.tool.arguments["action"]
        done = environment.step(plain if isinstance(plain, str) else tuple(plain))
        seen = {"observation": done.observation, "reward": done.reward}
        if run.get(node.ended.output) != seen:
            raise ReplayDiverged(f"{node.uid} gave another observation than was recorded; the replay stops there.")
    return environment.fingerprint()


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DIGEST else line[: DIGEST - 1] + "…"
