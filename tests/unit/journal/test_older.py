"""A journal that an earlier version wrote reads as it always did; what it doesn't say is said to be unknown."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from agentrewind.core.cost import costs
from agentrewind.core.records import NodeEnded, Rewound, Usage
from agentrewind.journal.check import check
from agentrewind.journal.reader import read_run

USAGE = {"input": 10, "output": 2, "cached": 4, "reasoning": 0, "usd": None}
BEGAN = {
    "uid": "rec_000001", "kind": "llm", "parent": None, "branch": "b0", "thread": "main", "input_id": "sha256:0",
    "snapshot": "s1", "started_ns": 2_000_000_000, "tool": None, "raw_length": 1,
    "llm": {"model": "m", "messages": {"base": None, "keep": 0, "added": [0]}, "params": {}, "tools": None,
            "dialect": "openai_chat"},
}  # fmt: skip
ENDED = {
    "uid": "rec_000001", "output": 0, "error": None, "usage": USAGE, "latency_ms": 5.0, "effects": [], "digest": "x",
    "calls": [], "note": "",
}  # fmt: skip
INTENDED = {
    "source": "rec_000001", "target": "rec_000001", "snapshot": "s1", "live": "s2", "note": "n", "branch": "b1",
    "thread": "main", "reason": "", "by": "agent", "why": "rewind", "keep_world": False,
}  # fmt: skip
REWOUND = {
    "branch": "b1", "source": "rec_000001", "target": "rec_000001", "live": "s2", "note": "n", "by": "agent",
    "why": "rewind", "keep_world": False, "restored": 1, "kept": [], "ended_processes": [], "ended_threads": [],
    "context": "exact", "memory_tokens": 7, "took_ms": 12.5, "at_ns": 3_000_000_000,
}  # fmt: skip
STARTED = {"run_id": "r", "workspace": "/w", "started_ns": 1_000_000_000, "version": "0.1.0"}


def sealed(number: int, head: dict, body: str = "") -> bytes:
    text = body or json.dumps({"n": number, **head}, separators=(",", ":"))[:-1]
    return f'{text},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def test_a_journal_without_the_newer_fields_is_read_and_costs_are_unknown_not_nothing(tmp_path: Path) -> None:
    events = [("run_started", STARTED), ("node_began", BEGAN), ("node_ended", ENDED)]
    events += [("rewind_intended", INTENDED), ("rewound", REWOUND)]
    lines = [sealed(number, {"event": tag, **fields}) for number, (tag, fields) in enumerate(events)]
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "content.jsonl").write_bytes(sealed(0, {}, '{"n":0,"content":{"role":"user"}'))
    assert check(tmp_path) == []
    log = read_run(tmp_path)
    ended = next(event for event in log.events if isinstance(event, NodeEnded))
    assert (ended.usage, ended.priced) == (Usage(10, 2, 4), "")
    assert next(event for event in log.events if isinstance(event, Rewound)).restore_ms == 0.0
    cost = costs(log.events)
    assert (cost.total.usd, cost.total.unpriced, cost.total.input, cost.total.restore_ms) == (None, 1, 10, 12.5)
    assert cost.unknown == {"no prices were looked up when it was recorded": 1}
