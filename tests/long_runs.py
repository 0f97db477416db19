"""Runs of any length, written without an agent: what pages and lists are tried on."""

from __future__ import annotations

import random
from pathlib import Path

from agentrewind.compose.home import Home
from agentrewind.core.effects import Effect
from agentrewind.core.records import (
    MAIN_THREAD,
    BranchId,
    Judged,
    LlmInput,
    MessageList,
    NodeBegan,
    NodeEnded,
    RecordUid,
    RewindIntended,
    Rewound,
    RunEnded,
    RunStarted,
    Snapshotted,
    ToolInput,
    Usage,
    record_uid,
)
from agentrewind.core.world import Change, Changes, SnapshotId
from agentrewind.journal.writer import JournalWriter

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\x1b[2J\x1b]0;owned\x07 and \u202egnp.exe\u202c and \u2066\u2069\u200b",
    "</script><script>window.hacked = 1</script>",
    "{{forgery}} ${1+1} javascript:alert(1)",
)
SECOND_NS = 1_000_000_000


class LongRun:
    """Writes model calls with one tool call each, and goes back now and then."""

    def __init__(self, log: JournalWriter, seed: int) -> None:
        self._log = log
        self._random = random.Random(seed)
        self._head: RecordUid | None = None
        self._calls: list[tuple[RecordUid, RecordUid | None]] = []
        self._nodes = 0
        self._now = SECOND_NS
        self._last: RecordUid | None = None

    def step(self, call: str, result: str, changes: tuple[Change, ...] = (), effect: str = "") -> None:
        before = self._head
        uid = self._began(LlmInput("scripted", self._messages(result)), None)
        effects = (Effect("external", effect),) if effect else ()
        self._end(
            uid, {"choices": [{"message": {"role": "assistant", "content": call}}]}, calls=(call,), effects=effects
        )
        self._calls.append((uid, before))
        tool = self._began(None, ToolInput("shell", {"command": call}))
        self._end(tool, result, digest=result.splitlines()[0] if result else "")
        self._log.append(self._saved(tool, changes))

    def _messages(self, text: str) -> MessageList:
        content = self._log.put({"role": "user", "content": text})
        last = self._calls[-1][0] if self._calls and self._calls[-1][0] in self._kept() else None
        keep = 0 if last is None else len(self._log.tree.messages(last))
        return MessageList(last, keep, (content,))

    def _kept(self) -> set[RecordUid]:
        return {node.uid for node in self._log.tree.path()}

    def _began(self, llm: LlmInput | None, tool: ToolInput | None) -> RecordUid:
        self._nodes += 1
        self._now += SECOND_NS
        uid = record_uid(self._nodes)
        self._log.append(
            NodeBegan(
                uid, "tool" if tool else "llm", self._head, self._log.tree.branch, MAIN_THREAD, "sha256:0",
                SnapshotId(f"{self._nodes:032x}"), self._now, llm, tool,
            )
        )  # fmt: skip
        self._head = uid
        return uid

    def _end(self, uid: RecordUid, output: object, **more: object) -> None:
        usage = Usage(self._random.randrange(500, 9000), self._random.randrange(20, 400), usd=0.0021)
        self._log.append(NodeEnded(uid, self._log.put(output), usage=usage, latency_ms=812.0, **more))  # type: ignore[arg-type]

    def _saved(self, after: RecordUid, changes: tuple[Change, ...]) -> Snapshotted:
        return Snapshotted(SnapshotId(f"{self._nodes + 1:032x}"), after, changes=Changes(changes, len(changes)))

    def judge(self, satisfied: int, total: int) -> None:
        self._log.append(Judged(self._head, satisfied == total, 1, satisfied=satisfied, total=total, feedback="look"))

    def go_back(self, steps: int, note: str) -> None:
        target, parent = self._calls[-steps]
        branch, live = self._log.tree.next_branch(), SnapshotId("f" * 32)
        source = self._head
        self._log.append(RewindIntended(source, target, live, live, note, branch, MAIN_THREAD))
        self._log.append(Rewound(BranchId(branch), source, target, live, note, restored=3))
        self._calls = self._calls[:-steps]
        self._head = parent


def long_run(home: Home, workspace: Path, *, steps: int, rewinds: int, seed: int = 1) -> str:
    """A run of so many steps (two nodes each) and rewinds, with hostile texts and names in it; its id."""
    run_id = "20261201-000000-long-0001"
    chance = random.Random(seed)
    started = RunStarted(run_id, str(workspace), SECOND_NS, "0", HOSTILE[0], "builtin", "scripted")
    with JournalWriter.create(home.run_dir(run_id), started) as log:
        run = LongRun(log, seed)
        left = rewinds
        for number in range(steps):
            hostile = HOSTILE[number % len(HOSTILE)] if number % 7 == 0 else ""
            changes = (Change("M", f"src/{hostile or 'module'}_{number}.py"),) if number % 3 == 0 else ()
            effect = "git push origin main" if number % 50 == 9 else ""
            run.step(f"shell(make target_{number} {hostile})", f"line {number} {hostile}\n" * 3, changes, effect)
            if left and (number + 1) % (steps // (rewinds + 1)) == 0:
                run.judge(3, 10)
                run.go_back(chance.randrange(2, 7), f"Tried target {number}: it broke the build. {hostile}")
                left -= 1
        run.judge(10, 10)
        log.append(RunEnded(1, ok=True, reason="done"))
    return run_id
