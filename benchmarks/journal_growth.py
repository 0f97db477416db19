"""How large the journal of a long run gets: 1,000 LLM calls and 1,000 tool calls through the real `Session`.

The last call holds 500 kB of messages, so each step adds 500 bytes: as short as messages get, and so the worst case
for the lines around them. Each tool call changes a file of a real workspace, so each step has a snapshot of its own.
Only the model is made up: it answers from memory.

Beside it, the size of a plain log that writes each request in full; that size is computed (the sum of the canonical
JSON of all requests), not written.

    python benchmarks/journal_growth.py
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agentrewind.core.codec import Json, canonical
from agentrewind.core.records import Event, MessageId, RunStarted
from agentrewind.core.redact import Redactor
from agentrewind.core.tree import RunTree
from agentrewind.core.wire import WireReply
from agentrewind.core.world import World
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.session import Session
from agentrewind.journal import JournalWriter, read_run
from agentrewind.snapshots.workspace import WorkspaceWorld

CALLS = 1000
LAST_CALL = 500_000
FILES = 50
PATH = "/v1/chat/completions"
SHELL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}
TEXT = "the test fails because of a wrong path in module and we read it again before line count is"
WORDS = TEXT.split()

Write = Callable[[str, str], None]
"""Puts a text under a name into the world."""


@dataclass
class Grown:
    """Sizes in bytes, times in seconds."""

    context: int = 0
    """Canonical JSON of the messages of the last call."""
    naive: int = 0
    """Canonical JSON of all requests."""
    unique: int = 0
    """Canonical JSON of the distinct contents: messages, tool list, answers, tool results."""
    journal: int = 0
    contents: int = 0
    at_quarters: list[int] = field(default_factory=list)
    """What was on disk after each quarter of the calls."""
    appends: list[float] = field(default_factory=list)

    @property
    def disk(self) -> int:
        return self.journal + self.contents

    @property
    def ratio(self) -> float:
        return self.disk / self.unique

    @property
    def halves(self) -> tuple[int, int]:
        """How much the first and the second half of the calls added."""
        return self.at_quarters[1], self.at_quarters[3] - self.at_quarters[1]


class Timed:
    """A journal that says how long each append took."""

    def __init__(self, writer: JournalWriter) -> None:
        self._writer = writer
        self.appends: list[float] = []
        self.put = writer.put
        self.get = writer.get
        self.sync = writer.sync

    @property
    def tree(self) -> RunTree:
        return self._writer.tree

    def append(self, event: Event) -> None:
        begin = time.perf_counter()
        self._writer.append(event)
        self.appends.append(time.perf_counter() - begin)


class Agent:
    """Asks its model, does what that says, and tells it what came of it."""

    def __init__(self, session: Session, write: Write, each: int) -> None:
        self.session = session
        self.write = write
        self.each = each
        self.random = random.Random(7)
        self.messages: list[Json] = []
        self.context = 0
        self.naive = 0
        self.say({"role": "system", "content": self.text(600)})
        self.say({"role": "user", "content": self.text(900)})

    def say(self, message: Json) -> None:
        self.messages.append(message)
        self.context += len(canonical(message)) + 1

    def step(self, number: int) -> None:
        body = {"model": "m", "messages": list(self.messages), "tools": [SHELL], "temperature": 0.0}
        reply = self.session.call(PATH, body, lambda sent: self.model(number, sent))
        said = json.loads(reply.body)["choices"][0]["message"]
        call = said["tool_calls"][0]
        result = self.text(self.each - len(canonical(said)) - 60)
        arguments = json.loads(call["function"]["arguments"])
        self.session.tool("shell", arguments, lambda: self.work(arguments, result), call_id=call["id"])
        self.say(said)
        self.say({"role": "tool", "tool_call_id": call["id"], "content": result})

    def work(self, arguments: Json, result: str) -> str:
        self.write(f"file{len(self.messages) // 2 % FILES}.txt", arguments["command"])
        return result

    def model(self, number: int, sent: Json) -> WireReply:
        rest = {key: value for key, value in sent.items() if key != "messages"}
        self.naive += len(canonical(rest)) + len(b',"messages":[]') + self.context - 1
        arguments = json.dumps({"command": f"sed -n {number}p src/module.py"})
        call = {"id": f"call_{number:06d}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
        message = {"role": "assistant", "content": self.text(80), "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": self.context // 4, "completion_tokens": 40, "total_tokens": self.context // 4 + 40}
        head = {"id": f"chatcmpl-{number:06d}", "object": "chat.completion", "created": 1_800_000_000 + number}
        return WireReply(200, (), json.dumps(head | {"model": "m", "choices": [choice], "usage": usage}).encode())

    def text(self, length: int) -> str:
        words: list[str] = []
        while sum(map(len, words)) + len(words) < length:
            words.append(self.random.choice(WORDS) + str(self.random.randrange(1000)))
        return " ".join(words)[:length]


def grow(run_dir: Path, world: World, write: Write, calls: int = CALLS, last_call: int = LAST_CALL) -> Grown:
    """The sizes of a run of `calls` steps whose last call holds about `last_call` bytes of messages."""
    grown = Grown()
    started = RunStarted("bench", "/workspace", time.time_ns(), "0")
    with JournalWriter.create(run_dir, started, redact=Redactor()) as log:
        timed = Timed(log)
        session = Session(timed, world, [OpenAIChat()], redact=Redactor())
        agent = Agent(session, write, last_call // calls)
        for number in range(1, calls + 1):
            grown.context = agent.context
            agent.step(number)
            if number % (calls // 4) == 0:
                grown.at_quarters.append(_size(run_dir, "journal.jsonl") + _size(run_dir, "content.jsonl"))
        session.end("done", ok=True)
    grown.naive, grown.appends = agent.naive, timed.appends
    grown.unique = _unique(run_dir)
    grown.journal, grown.contents = _size(run_dir, "journal.jsonl"), _size(run_dir, "content.jsonl")
    return grown


def _size(run_dir: Path, name: str) -> int:
    return (run_dir / name).stat().st_size


def _unique(run_dir: Path) -> int:
    """Of the distinct contents that events name."""
    log = read_run(run_dir)
    ids: set[MessageId | None] = set()
    for node in log.tree.nodes.values():
        ids.add(node.ended.output if node.ended else None)
        if node.began.llm is not None:
            ids |= {node.began.llm.tools, *node.began.llm.messages.added}
    return sum(len(canonical(log.get(content))) for content in ids if content is not None)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        workspace = base / "workspace"
        workspace.mkdir()
        for number in range(FILES):
            (workspace / f"file{number}.txt").write_text("nothing yet")
        world = WorkspaceWorld.open(workspace, base / "store")
        try:
            show(grow(base / "run", world, lambda name, text: (workspace / name).write_text(text)))
        finally:
            world.close()


def show(grown: Grown) -> None:
    print(f"{CALLS:,} LLM calls, each with one tool call that changes a file")
    print(f"  last context            {grown.context:>13,} bytes of messages")
    print(f"  unique content          {grown.unique:>13,} bytes")
    print(f"  on disk                 {grown.disk:>13,} bytes (journal {grown.journal:,}, contents {grown.contents:,})")
    print(f"  to the unique content   {grown.ratio:>13.2f}")
    print(f"  to the last context     {grown.disk / grown.context:>13.2f}")
    for quarter, size in enumerate(grown.at_quarters, start=1):
        print(f"  after {CALLS * quarter // 4:>5,} calls       {size:>13,} bytes")
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
