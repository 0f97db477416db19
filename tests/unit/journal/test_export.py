"""The expanded shape: one line a node, one file a branch."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.codec import digest
from agentrewind.core.effects import Effect
from agentrewind.core.errors import JournalError, StorageFull, UsageError
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    BranchId,
    Failure,
    LlmInput,
    MessageList,
    NodeBegan,
    NodeEnded,
    RewindIntended,
    Rewound,
    Snapshotted,
    ToolInput,
    Usage,
    record_uid,
)
from agentrewind.core.world import Change, Changes, SnapshotId
from agentrewind.journal import JournalWriter, output, read_run
from agentrewind.journal import export as export_module
from agentrewind.journal.export import export_records
from agentrewind.testing.journal import began, header

REC1, REC2, REC3 = map(record_uid, (1, 2, 3))
AT = 1_700_000_000_123_456_789


def node(uid, kind, parent, branch=FIRST_BRANCH, at=AT, **inputs):
    return NodeBegan(uid, kind, parent, branch, MAIN_THREAD, digest(uid), SnapshotId(f"s-{uid}"), at, **inputs)


@pytest.fixture
def log(tmp_path):
    with JournalWriter.create(tmp_path / "run", header()) as writer:
        system, task, said = (writer.put({"role": role, "content": role}) for role in ("system", "user", "assistant"))
        tools = writer.put([{"name": "bash"}])
        llm = LlmInput("m", MessageList(added=(system, task)), {"temperature": 0.5}, tools)
        writer.append(node(REC1, "llm", None, llm=llm))
        answer = writer.put({"choices": [1]})
        writer.append(NodeEnded(REC1, answer, usage=Usage(10, 2, cached=4, usd=0.25), latency_ms=12.5))
        writer.append(Snapshotted(SnapshotId("s-2"), REC1, "print", changes=Changes((Change("M", "a.py"),), 1)))
        writer.append(node(REC2, "tool", REC1, tool=ToolInput("bash", {"command": "ls"}, "call_1")))
        failure = Failure("OSError", "no", "tool", "tail")
        writer.append(NodeEnded(REC2, error=failure, effects=(Effect("external", "curl"),)))
        branch = BranchId("b1")
        writer.append(RewindIntended(REC2, REC1, SnapshotId("s"), SnapshotId("l"), "try b", branch, MAIN_THREAD))
        writer.append(Rewound(branch, REC2, REC1, SnapshotId("l"), "try b", by="person"))
        again = LlmInput("m", MessageList(REC1, 1, (said,)), dialect="anthropic_messages")
        writer.append(node(REC3, "llm", None, branch, at=10**30, llm=again))
    return read_run(tmp_path / "run")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_branch_is_a_file_and_each_node_a_line(log, tmp_path):
    export_records(log, tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["branch-b0.jsonl", "branch-b1.jsonl"]
    assert [line["record_uid"] for line in lines(tmp_path / "out" / "branch-b0.jsonl")] == [REC1, REC2]
    assert sorted(os.listdir(tmp_path)) == ["out", "run"]


def test_the_header_of_a_later_branch_names_the_run_and_the_node_it_forked_at(log, tmp_path):
    export_records(log, tmp_path / "out")
    head, *nodes = lines(tmp_path / "out" / "branch-b1.jsonl")
    assert head == {
        "kind": "branch", "run": "run-1", "branch": "b1", "parent": "b0", "forked_at": REC1, "note": "try b",
        "by": "person",
    }  # fmt: skip
    assert [line["record_uid"] for line in nodes] == [REC3]


def test_a_line_carries_the_whole_envelope_expanded(log, tmp_path):
    export_records(log, tmp_path / "out")
    llm, tool = lines(tmp_path / "out" / "branch-b0.jsonl")
    assert llm == {
        "record_uid": REC1,
        "kind": "llm",
        "input_id": digest(REC1),
        "input": {
            "model": "m",
            "params": {"temperature": 0.5},
            "messages": [{"role": "system", "content": "system"}, {"role": "user", "content": "user"}],
            "tools": [{"name": "bash"}],
        },
        "output": {"choices": [1]},
        "error": None,
        "usage": {
            "input": 10,
            "output": 2,
            "cached": 4,
            "reasoning": 0,
            "usd": 0.25,
            "cache_write": 0,
            "cache_write_1h": 0,
            "priced": "",
        },
        "timing": {"start": "2023-11-14T22:13:20.123456789Z", "start_ns": AT, "latency_ms": 12.5},
        "state": {
            "before": "s-rec_000001",
            "after": "s-2",
            "changed": True,
            "changes": {"items": [{"status": "M", "path": "a.py"}], "total": 1},
            "fingerprint": "print",
        },
        "effects": [],
        "thread": "main",
        "parent": None,
    }
    assert tool["input"] == {"tool": "bash", "arguments": {"command": "ls"}, "call_id": "call_1"}
    assert tool["error"] == {"type": "OSError", "message": "no", "boundary": "tool", "traceback": "tail"}
    [effect] = tool["effects"]
    assert (effect["kind"], effect["what"]) == ("external", "curl")
    assert (tool["parent"], tool["output"]) == (REC1, None)


def test_what_never_ended_or_was_never_saved_is_null(log, tmp_path):
    export_records(log, tmp_path / "out")
    last = lines(tmp_path / "out" / "branch-b1.jsonl")[-1]
    assert [message["role"] for message in last["input"]["messages"]] == ["system", "assistant"]
    assert last["timing"] == {"start": None, "start_ns": 10**30, "latency_ms": None}
    assert set(last["state"].values()) == {"s-rec_000003", None}
    assert (last["output"], last["input"]["tools"]) == (None, None)


def test_an_empty_directory_is_taken_and_a_full_one_refused(log, tmp_path):
    (tmp_path / "out").mkdir()
    export_records(log, tmp_path / "out")
    before = (tmp_path / "out" / "branch-b0.jsonl").read_bytes()
    for place, what in ((tmp_path / "out", "not empty"), (tmp_path / "run" / "lease", "is a file")):
        with pytest.raises(UsageError, match=what):
            export_records(log, place)
    assert (tmp_path / "out" / "branch-b0.jsonl").read_bytes() == before


def test_a_branch_that_would_write_elsewhere_is_refused(tmp_path):
    with JournalWriter.create(tmp_path / "run", header()) as writer:
        writer.append(began(1))
        writer.append(Rewound(BranchId("../../evil"), None, REC1, SnapshotId("s")))
    with pytest.raises(JournalError, match="evil"):
        export_records(read_run(tmp_path / "run"), tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["run"]


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, StorageFull), (errno.EACCES, UsageError)])
def test_a_failed_export_leaves_nothing(log, tmp_path, monkeypatch, number, error):
    def fail(file, value):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(export_module, "_line", fail)
    with pytest.raises(error, match="Nothing was kept"):
        export_records(log, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["run"]


@pytest.mark.parametrize("place", ["/proc/nowhere", "/proc/nowhere/deeper", "/dev/null/x", "/dev/null"])
def test_a_place_where_nothing_can_be_made_is_bad_use(log, place):
    with pytest.raises(UsageError, match=re.escape(place)):
        export_records(log, Path(place))


def test_a_link_that_leads_nowhere_is_bad_use(log, tmp_path):
    (tmp_path / "out").symlink_to("missing")
    with pytest.raises(UsageError, match="out"):
        export_records(log, tmp_path / "out")


def killed_while_it_replaces(log, to: Path) -> None:
    """Another process exports with --force, and is killed when the older export has been moved aside."""
    pid = os.fork()
    if pid == 0:
        crashpoints.arm(output.ASIDE, lambda: os.kill(os.getpid(), signal.SIGKILL))
        with suppress(BaseException):
            export_records(log, to, force=True)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_an_export_whose_replacement_was_killed_is_put_back_by_the_next_and_nothing_is_left_of_it(log, tmp_path):
    to = tmp_path / "out"
    export_records(log, to)
    before = {path.name: path.read_bytes() for path in to.iterdir()}
    killed_while_it_replaces(log, to)
    assert not to.exists()
    with pytest.raises(UsageError, match="not empty"):
        export_records(log, to)
    assert {path.name: path.read_bytes() for path in to.iterdir()} == before
    killed_while_it_replaces(log, to)
    export_records(log, to, force=True)
    assert {path.name: path.read_bytes() for path in to.iterdir()} == before
    assert not list(tmp_path.glob(".export.*.old"))


def test_what_somebody_else_keeps_under_the_name_of_an_older_export_stays(log, tmp_path):
    theirs = tmp_path / ".export.out.old"
    theirs.mkdir()
    (theirs / "diary.txt").write_text("mine")
    export_records(log, tmp_path / "out")
    export_records(log, tmp_path / "out", force=True)
    assert (theirs / "diary.txt").read_text() == "mine"
