"""What the events of a run add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentrewind.core.errors import JournalError, UnknownRecord
from agentrewind.core.memory import Note
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    BranchId,
    Failure,
    FilesRestored,
    Judged,
    LlmInput,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    RewindGivenUp,
    RewindIntended,
    RewindRejected,
    Rewound,
    RunEnded,
    RunResumed,
    RunStarted,
    Snapshotted,
    ThreadId,
    ToolInput,
    Usage,
    Warned,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId

STARTED = RunStarted("run-1", "/w", 1, "0")
B1, B2 = BranchId("b1"), BranchId("b2")


def snap(name) -> SnapshotId:
    return SnapshotId(f"s{name}")


def llm(number, parent=None, *, base=None, keep=0, added=("m",), branch=FIRST_BRANCH, thread=MAIN_THREAD, snapshot=...):
    return NodeBegan(
        record_uid(number),
        "llm",
        record_uid(parent) if parent else None,
        branch,
        thread,
        "sha256:i",
        snap(number) if snapshot is ... else snapshot,
        number,
        LlmInput("m", MessageList(record_uid(base) if base else None, keep, tuple(MessageId(a) for a in added))),
    )


def tool(number, parent, branch=FIRST_BRANCH):
    began = NodeBegan(record_uid(number), "tool", record_uid(parent), branch, MAIN_THREAD, "sha256:i", None, number)
    return replace(began, tool=ToolInput("bash", {"command": "ls"}))


def intended(source, target, branch=B1, why="rewind"):
    uids = (record_uid(source), record_uid(target))
    return RewindIntended(*uids, snap(target), snap("live"), "note", branch, MAIN_THREAD, why=why)


def rewound(source, target, branch=B1, **fields):
    return Rewound(branch, record_uid(source), record_uid(target), snap("live"), **({"note": "n"} | fields))


def three_steps() -> list:
    return [
        STARTED,
        llm(1, added=("sys", "task")),
        NodeEnded(record_uid(1), MessageId("a1"), usage=Usage(10, 2, usd=0.5)),
        tool(2, 1),
        NodeEnded(record_uid(2), MessageId("r2")),
        llm(3, 2, base=1, keep=2, added=("a1", "r2")),
        NodeEnded(record_uid(3), error=Failure("TimeoutError", "late", "provider"), usage=Usage(5)),
        llm(4, 3, base=3, keep=4, added=("again",)),
    ]


def numbers(nodes) -> list[int]:
    return [int(node.uid[4:]) for node in nodes]


def test_nodes_hang_together_and_the_head_is_the_newest():
    tree = RunTree.fold(three_steps())
    assert tree.head == record_uid(4)
    assert numbers(tree.path()) == [1, 2, 3, 4]
    assert numbers(tree.path(record_uid(2))) == [1, 2]
    assert numbers(tree.ancestors(record_uid(3))) == [3, 2, 1]
    assert [tree.node(record_uid(n)).answered for n in (1, 2, 3, 4)] == [True, True, False, False]
    assert [tree.node(record_uid(n)).is_llm for n in (1, 2)] == [True, False]


def test_an_empty_tree_has_an_empty_path():
    assert RunTree().path() == []
    assert RunTree().equal_failures() == 0


def test_messages_are_resolved_through_the_chain():
    tree = RunTree.fold(three_steps())
    assert tree.messages(record_uid(1)) == ("sys", "task")
    assert tree.messages(record_uid(3)) == ("sys", "task", "a1", "r2")
    tree.apply(llm(5, 4, base=4, keep=1, added=("summary",)))
    assert tree.messages(record_uid(5)) == ("sys", "summary")
    assert tree.messages(record_uid(4)) == ("sys", "task", "a1", "r2", "again")


def test_messages_of_a_tool_call_or_of_nothing_are_an_error():
    tree = RunTree.fold(three_steps())
    with pytest.raises(JournalError, match="no messages"):
        tree.messages(record_uid(2))
    with pytest.raises(UnknownRecord, match="rec_000009"):
        tree.messages(record_uid(9))


def test_a_rewind_opens_a_branch_before_its_target_and_keeps_the_abandoned_one():
    tree = RunTree.fold([*three_steps(), intended(4, 3)])
    assert tree.intent == intended(4, 3)
    tree.apply(rewound(4, 3, note="try b", ended_threads=(ThreadId("side"),)))
    assert (tree.branch, tree.head, tree.intent, tree.rewinds) == (B1, record_uid(2), None, 1)
    assert tree.notes == [Note(B1, record_uid(3), "try b")]
    tree.apply(llm(5, 2, base=1, keep=2, added=("a1", "r2", "memory"), branch=B1))
    assert numbers(tree.path()) == [1, 2, 5]
    assert numbers(tree.path(record_uid(4))) == [1, 2, 3, 4]
    assert tree.messages(record_uid(5)) == ("sys", "task", "a1", "r2", "memory")
    assert tree.branches[B1].forked_at == record_uid(3)
    assert tree.branches[B1].parent == FIRST_BRANCH
    assert tree.next_branch() == B2
    assert tree.ended_threads == {"side"}


def test_a_rewind_to_the_first_node_leaves_an_empty_path():
    tree = RunTree.fold([*three_steps(), intended(4, 1), rewound(4, 1)])
    assert tree.head is None
    assert tree.path() == []
    assert tree.checkpoints() == []


def test_an_undo_goes_back_behind_the_source_and_is_no_rewind():
    undo = [intended(4, 4, B2, why="undo"), rewound(4, 4, B2, why="undo")]
    tree = RunTree.fold([*three_steps(), intended(4, 3), rewound(4, 3), *undo])
    assert (tree.branch, tree.head, tree.rewinds, len(tree.notes), len(tree.moves)) == (B2, record_uid(4), 1, 1, 2)
    assert numbers(tree.path()) == [1, 2, 3, 4]


def test_a_rewind_that_was_given_up_leaves_context_and_branches():
    tree = RunTree.fold([*three_steps(), intended(4, 3), RewindGivenUp(B1, "no room")])
    assert (tree.intent, tree.branch, tree.head, tree.rewinds) == (None, FIRST_BRANCH, record_uid(4), 0)
    assert tree.next_branch() == B1


@pytest.mark.parametrize(("serves", "head"), [(True, 3), (False, 2)])
def test_a_resumed_run_goes_on_at_its_checkpoint_on_a_branch_of_its_own(serves, head):
    resumed = RunResumed(9, B1, record_uid(3), serves=serves)
    tree = RunTree.fold([*three_steps(), RunEnded(8, ok=False, reason="killed"), resumed])
    assert (tree.ended, tree.resumes, tree.branch, tree.head) == (None, 1, B1, record_uid(head))
    assert RunTree.fold([*three_steps(), RunResumed(9, B1)]).head is None


def test_only_llm_nodes_with_a_snapshot_of_a_live_conversation_are_targets():
    side = llm(6, 4, thread=ThreadId("side"))
    tree = RunTree.fold([*three_steps(), llm(5, 4, snapshot=None), side, llm(7, 6)])
    assert numbers(tree.checkpoints()) == [1, 3, 4, 6, 7]
    assert numbers(tree.checkpoints(MAIN_THREAD)) == [1, 3, 4, 7]
    assert tree.usable(record_uid(1)) is None
    for number, why in ((2, "only LLM calls"), (5, "no snapshot"), (9, "no record")):
        assert why in (tree.usable(record_uid(number)) or "")
    tree.apply(intended(7, 4))
    tree.apply(rewound(7, 4, ended_threads=(ThreadId("side"),)))
    assert "ended" in (tree.usable(record_uid(6)) or "")


def test_snapshots_and_holes_are_kept_apart():
    state = Snapshotted(snap("x"), record_uid(4), "f", complete=False)
    tree = RunTree.fold([*three_steps(), state])
    assert tree.live == tree.node(record_uid(4)).after == state
    assert not tree.complete(snap("x"))
    assert tree.complete(snap("never taken"))
    hole = Snapshotted(None, record_uid(4), failed="unreadable")
    tree.apply(hole)
    assert tree.live == hole
    assert list(tree.states) == [snap("x")]


def judged(code=1, first="a", after=None, *, accepted=False, satisfied=None):
    return Judged(after, accepted, code, first, satisfied=satisfied, total=8)


@pytest.mark.parametrize(
    ("verdicts", "count"),
    [
        ([judged()], 1),
        ([judged(), judged(), judged()], 3),
        ([judged(), judged(first="b"), judged()], 1),
        ([judged(), judged(code=2), judged(code=2)], 2),
        ([judged(), judged(accepted=True)], 0),
        ([judged(), judged(accepted=True), judged()], 1),
    ],
)
def test_equal_failures_counts_the_last_equal_rejections(verdicts, count):
    assert RunTree.fold(verdicts).equal_failures() == count


def test_equal_failures_are_not_rewound():
    tree = RunTree.fold([*three_steps(), judged(), judged(), intended(4, 1), rewound(4, 1), judged()])
    assert tree.equal_failures() == 3


def test_progress_is_the_newest_verdict_before_a_node():
    tree = RunTree.fold([*three_steps(), judged(after=record_uid(1), satisfied=2), judged(after=record_uid(4))])
    assert tree.progress(record_uid(1)) is None
    assert tree.progress(record_uid(3)) == judged(after=record_uid(1), satisfied=2)


def test_what_a_reader_should_know_is_kept_in_order():
    restored = FilesRestored(snap(1), snap("live"), 5, record_uid(1))
    tree = RunTree.fold([*three_steps(), Warned("w"), RewindRejected("rec_000009", "no such record"), restored])
    assert (tree.warnings, tree.moves) == (["w"], [restored])
    assert tree.rejected == [RewindRejected("rec_000009", "no such record")]


@pytest.mark.parametrize(
    "event",
    [
        STARTED,
        llm(4, 3),
        llm(5, 9),
        llm(5, 4, base=9),
        llm(5, 4, base=2),
        llm(5, 4, base=3, keep=5),
        llm(5, 4, base=3, keep=-1),
        llm(5, 4, keep=1),
        llm(5, 4, branch=B1),
        NodeEnded(record_uid(9)),
        NodeEnded(record_uid(1)),
        Snapshotted(snap("x"), record_uid(9)),
        judged(after=record_uid(9)),
        intended(4, 9),
        intended(9, 3),
        intended(4, 3, FIRST_BRANCH),
        rewound(4, 9),
        rewound(9, 3),
        rewound(4, 3, FIRST_BRANCH),
        RunResumed(9, FIRST_BRANCH, record_uid(1)),
        RunResumed(9, B1, record_uid(9)),
        FilesRestored(snap(1), snap(2), 5, record_uid(9)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_that_does_not_fit_is_refused_and_the_tree_is_as_it_was(event):
    tree = RunTree.fold(three_steps())
    for refuse in (tree.check, tree.apply):
        with pytest.raises(JournalError):
            refuse(event)
        assert tree == RunTree.fold(three_steps())


def test_checking_changes_nothing():
    tree = RunTree.fold(three_steps())
    for event in (llm(5, 4), intended(4, 3), rewound(4, 3), NodeEnded(record_uid(4)), RunEnded(1, ok=True, reason="")):
        tree.check(event)
    assert tree == RunTree.fold(three_steps())
