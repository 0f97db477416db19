"""A check names each thing that a sound run doesn't hold, and nothing in a sound one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentrewind.core.errors import UnknownRun
from agentrewind.core.records import (
    MAIN_THREAD,
    BranchId,
    LlmInput,
    MessageList,
    NodeEnded,
    RewindGivenUp,
    RewindIntended,
    Rewound,
    RunEnded,
    RunResumed,
    ToolInput,
    Warned,
    record_uid,
)
from agentrewind.core.world import SnapshotId
from agentrewind.journal import JournalWriter
from agentrewind.journal import format as fmt
from agentrewind.journal.check import check
from agentrewind.testing.journal import began as kit_began
from agentrewind.testing.journal import header

S = SnapshotId("s")
REC1, REC2 = record_uid(1), record_uid(2)


def began(number):
    """The llm node `number` after the one before it, without messages."""
    return replace(kit_began(number), llm=LlmInput("model", MessageList()))


def intended(branch="b1"):
    return RewindIntended(REC2, REC1, S, S, "note", BranchId(branch), MAIN_THREAD)


def rewound(branch="b1"):
    return Rewound(BranchId(branch), REC2, REC1, S)


def first_of(branch, number=3):
    """The first node of a branch that begins at the root."""
    node = replace(began(1), uid=record_uid(number), branch=BranchId(branch))
    assert node.parent is None
    return node


TWO = [began(1), NodeEnded(REC1), began(2), NodeEnded(REC2)]


def written(run_dir, events):
    with JournalWriter.create(run_dir, header()) as writer:
        for event in events:
            writer.append(event)
    return check(run_dir)


@pytest.mark.parametrize(
    "events",
    [
        [],
        TWO,
        [*TWO, intended(), rewound(), first_of("b1"), NodeEnded(record_uid(3))],
        [*TWO, intended(), RewindGivenUp(BranchId("b1"), "x"), intended(), rewound(), first_of("b1")],
        [*TWO, RunEnded(1, ok=False, reason="killed"), RunResumed(2, BranchId("b1"), REC1), first_of("b1")],
    ],
)
def test_a_sound_run_has_no_problems(tmp_path, events):
    assert written(tmp_path / "run", events) == []


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([*TWO, intended()], "never settled"),
        ([*TWO, intended(), began(3), rewound()], "begun and not settled"),
        ([*TWO, intended("b2"), rewound("b2")], "opened where b1 is due"),
        ([*TWO, RunResumed(1, BranchId("b7"), REC1)], "opened where b1 is due"),
        ([*TWO, rewound()], "never begun"),
        ([*TWO, RewindGivenUp(BranchId("b1"), "x")], "never begun"),
        ([*TWO, intended(), rewound(), first_of("b0")], "which the run has left"),
        ([*TWO, RunEnded(1, ok=True, reason="done"), began(3)], "after the run had ended"),
        ([replace(began(1), llm=None)], "doesn't hold the input of one"),
        ([replace(began(1), tool=ToolInput("bash"))], "doesn't hold the input of one"),
    ],
)  # fmt: skip
def test_what_is_out_of_order_is_named(tmp_path, events, what):
    problems = written(tmp_path / "run", events)
    assert problems
    assert all(what in problem.what or "opened where" in problem.what for problem in problems)
    lines = (tmp_path / "run" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    offsets = [sum(map(len, lines[:index])) for index in range(len(lines))]
    assert {problem.offset for problem in problems} <= set(offsets[1:])


def test_a_rewind_that_is_under_way_is_no_problem(tmp_path):
    with JournalWriter.create(tmp_path / "run", header()) as writer:
        for event in [*TWO, intended()]:
            writer.append(event)
        assert check(tmp_path / "run") == []


def test_a_run_without_its_contents_file(tmp_path):
    written(tmp_path / "run", TWO)
    (tmp_path / "run" / "content.jsonl").unlink()
    assert [str(problem) for problem in check(tmp_path / "run")] == ["content.jsonl, byte 0: the file is missing"]


def test_a_line_before_the_header(tmp_path):
    written(tmp_path / "run", [])
    path = tmp_path / "run" / "journal.jsonl"
    path.write_bytes(fmt.encode_event(0, Warned("first"), int) + fmt.encode_event(1, header(), int))
    assert [(problem.offset, problem.what) for problem in check(tmp_path / "run")] == [
        (0, "it stands before the header of the run")
    ]


def test_no_run_is_no_sound_run(tmp_path):
    with pytest.raises(UnknownRun):
        check(tmp_path)
