"""How large the journal of a long run gets: 1,000 LLM calls over a growing history.

The last call holds 500 kB of messages, so each adds 500 bytes: as short as messages get, and so the worst case for the
lines around them. Once as a proxy sees it (LLM calls only), once with a record for each tool call too. Beside it, the
size of a plain log that writes each request in full; that size is computed (the sum of the canonical JSON of all
requests), not written.

    python benchmarks/journal_growth.py
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.codec import Json, canonical, digest
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    LlmInput,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    RecordUid,
    RunStarted,
    Snapshotted,
    ToolInput,
    Usage,
    record_uid,
)
from agentrewind.core.redact import Redactor
from agentrewind.core.world import Change, Changes, SnapshotId
from agentrewind.journal import JournalWriter

CALLS = 1000
LAST_CALL = 500_000
TEXT = "the test fails because of a wrong path in module and we read it again before line count is"
WORDS = TEXT.split()


@dataclass
class Grown:
    """Sizes in bytes, times in seconds."""

    unique: int = 0
    """Canonical JSON of the distinct contents: messages, tool list, answers, tool results."""
    messages: int = 0
    """Of the messages of the last call."""
    journal: int = 0
    contents: int = 0
    naive: int = 0
    appends: list[float] | None = None

    @property
    def disk(self) -> int:
        return self.journal + self.contents

    @property
    def ratio(self) -> float:
        return self.disk / self.unique


class Session:
    """Puts and appends what a session does for one agent that calls one tool a step."""

    def __init__(self, writer: JournalWriter, calls: int, last_call: int, *, tools: bool) -> None:
        self.writer = writer
        self.records_tools = tools
        self.random = random.Random(7)
        self.calls = calls
        self.each = last_call // calls
        self.seen: set[MessageId] = set()
        self.grown = Grown(appends=[])
        self.head: RecordUid | None = None
        self.before: RecordUid | None = None
        self.length = 0
        self.number = 0

    def run(self) -> Grown:
        tools = self.put([{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}])
        new = [{"role": "system", "content": self.text(600)}, {"role": "user", "content": self.text(900)}]
        for step in range(self.calls):
            new = self.step(step, new, tools)
        return self.grown

    def step(self, step: int, new: list[Json], tools: MessageId) -> list[Json]:
        call = {"id": f"call_{step}", "type": "function"}
        call["function"] = {"name": "bash", "arguments": f'{{"command":"sed -n {step}p src/module.py"}}'}
        said = {"role": "assistant", "content": self.text(80), "tool_calls": [call]}
        response = {
            "id": f"chatcmpl-{step}",
            "model": "m",
            "choices": [{"finish_reason": "tool_calls", "message": said}],
        }
        self.llm(new, tools, response)
        result = self.text(self.each - len(canonical(said)) - 57)
        if self.records_tools:
            self.tool(call, result)
        return [said, {"role": "tool", "tool_call_id": call["id"], "content": result}]

    def llm(self, new: list[Json], tools: MessageId, response: Json) -> None:
        snapshot = self.snapshot()
        added = tuple(self.put(message) for message in new)
        self.grown.messages += sum(len(canonical(message)) + 1 for message in new)
        self.grown.naive += self.grown.messages
        base = self.before
        self.before = uid = self.uid()
        llm = LlmInput("m", MessageList(base, self.length, added), {"temperature": 0.0}, tools)
        self.append(
            NodeBegan(uid, "llm", self.head, FIRST_BRANCH, MAIN_THREAD, digest(uid), snapshot, time.time_ns(), llm)
        )
        self.length += len(new)
        usage = Usage(self.grown.messages // 4, 80)
        self.append(NodeEnded(uid, self.put(response), usage=usage, latency_ms=812.123, digest="the test fails"))
        self.head = uid

    def tool(self, call: Json, result: str) -> None:
        snapshot = self.snapshot()
        uid = self.uid()
        tool = ToolInput("bash", {"command": call["function"]["arguments"]}, call["id"])
        began = NodeBegan(uid, "tool", self.head, FIRST_BRANCH, MAIN_THREAD, digest(uid), snapshot, time.time_ns())
        self.append(NodeBegan(**{name: getattr(began, name) for name in began.__slots__} | {"tool": tool}))
        self.append(NodeEnded(uid, self.put(result), latency_ms=12.345, digest=result[:60]))
        self.head = uid

    def snapshot(self) -> SnapshotId:
        snapshot = SnapshotId(digest(self.number)[7:23])
        changes = Changes((Change("M", "src/module.py"),), 1)
        at = time.time_ns()
        self.append(Snapshotted(snapshot, self.head, digest(self.number), changes=changes, at_ns=at, took_ms=3.123))
        return snapshot

    def put(self, content: Json) -> MessageId:
        found = self.writer.put(content)
        if found not in self.seen:
            self.seen.add(found)
            self.grown.unique += len(canonical(content))
        return found

    def append(self, event) -> None:
        begin = time.perf_counter()
        self.writer.append(event)
        self.grown.appends.append(time.perf_counter() - begin)

    def uid(self) -> RecordUid:
        self.number += 1
        return record_uid(self.number)

    def text(self, length: int) -> str:
        words: list[str] = []
        while sum(map(len, words)) + len(words) < length:
            words.append(self.random.choice(WORDS) + str(self.random.randrange(1000)))
        return " ".join(words)[:length]


def grow(run_dir: Path, calls: int = CALLS, last_call: int = LAST_CALL, *, tools: bool = False) -> Grown:
    started = RunStarted("bench", "/workspace", time.time_ns(), "0")
    with JournalWriter.create(run_dir, started, redact=Redactor()) as writer:
        grown = Session(writer, calls, last_call, tools=tools).run()
    grown.journal = (run_dir / "journal.jsonl").stat().st_size
    grown.contents = (run_dir / "content.jsonl").stat().st_size
    return grown


def main() -> None:
    for tools in (False, True):
        with tempfile.TemporaryDirectory() as place:
            show(grow(Path(place) / "run", tools=tools), tools=tools)


def show(grown: Grown, *, tools: bool) -> None:
    what = "each with a record of its tool call" if tools else "tool calls not recorded"
    print(f"{CALLS:,} LLM calls, {what}; the last holds {grown.messages:,} bytes of messages")
    print(f"  unique content          {grown.unique:>13,} bytes")
    print(f"  on disk                 {grown.disk:>13,} bytes (journal {grown.journal:,}, contents {grown.contents:,})")
    print(f"  ratio                   {grown.ratio:>13.2f}")
    print(
        f"  requests logged in full {grown.naive:>13,} bytes (computed), {grown.naive / grown.disk:,.0f} times as much"
    )
    median, late = statistics.median(grown.appends), statistics.median(grown.appends[-500:])
    worst = sorted(grown.appends)[len(grown.appends) * 99 // 100]
    print(
        f"  append                  {median * 1e6:>13.0f} µs median of {len(grown.appends):,},"
        f" {late * 1e6:.0f} µs median of the last 500, {worst * 1e6:.0f} µs at the 99th percentile"
    )


if __name__ == "__main__":
    main()
