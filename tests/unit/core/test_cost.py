"""What a run is said to have cost: all of it stands somewhere once, and nothing unknown counts as nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.core.cost import Cost, costs
from agentrewind.core.records import (
    MAIN_THREAD,
    BranchId,
    Failure,
    FilesRestored,
    LlmInput,
    MessageList,
    NodeBegan,
    NodeEnded,
    Rewound,
    RunEnded,
    RunResumed,
    RunStarted,
    Snapshotted,
    ToolInput,
    Usage,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId

S = 1_000_000_000
MS = 1_000_000


class Story:
    """The events of a run, with a clock that `after` moves."""

    def __init__(self) -> None:
        self.now = 1_000 * S
        self.tree = RunTree()
        self.events = []
        self.branches = itertools.count(1)
        self.add(RunStarted("r", "/w", self.now, "0"))

    def add(self, event):
        self.tree.apply(event)
        self.events.append(event)

    def begin(self, *, tool: str = "", model: str = "m", looked_ms: float = 0.0):
        uid = record_uid(len(self.tree.nodes) + 1)
        llm, used = (None, ToolInput(tool)) if tool else (LlmInput(model, MessageList()), None)
        kind = "tool" if tool else "llm"
        parent, branch = self.tree.head, self.tree.branch
        self.add(
            NodeBegan(uid, kind, parent, branch, MAIN_THREAD, "i", SnapshotId("s"), self.now, llm, used, 0, looked_ms)
        )
        return uid

    def call(self, usage: Usage | None = None, took_ms: int = 100, priced: str = "table 1: m", **more):
        uid = self.begin(**more)
        self.now += took_ms * MS
        self.add(NodeEnded(uid, usage=usage or Usage(10, 2, usd=0.5), latency_ms=took_ms, priced=priced))
        return uid

    def tool(self, took_ms: int = 100):
        uid = self.begin(tool="bash")
        self.now += took_ms * MS
        self.add(NodeEnded(uid, latency_ms=took_ms))
        return uid

    def saved(self, took_ms: float) -> None:
        self.now += int(took_ms * MS)
        self.add(Snapshotted(SnapshotId(f"s{len(self.events)}"), self.tree.head, at_ns=self.now, took_ms=took_ms))

    def rewind(self, to, restore_ms: float = 30, memory: int = 40) -> None:
        self.now += int(restore_ms * MS)
        branch = self.tree.next_branch()
        self.add(
            Rewound(
                branch,
                self.tree.head,
                to,
                SnapshotId("live"),
                "n",
                memory_tokens=memory,
                took_ms=restore_ms + 5,
                restore_ms=restore_ms,
                at_ns=self.now,
            )
        )


def test_what_was_abandoned_and_what_stands_are_told_apart_by_node_not_by_branch() -> None:
    story = Story()
    story.call()
    story.tool()
    kept = story.call(Usage(20, 4, 5, 1, 0.25, 6, 2))
    story.tool(200)
    story.rewind(kept)
    story.call(Usage(30, 6, usd=1.0))
    cost = costs(story.events)
    assert (cost.total.calls, cost.total.tools) == (3, 2)
    assert (cost.abandoned.calls, cost.abandoned.tools, cost.abandoned.usd) == (1, 1, 0.25)
    assert (cost.abandoned.input, cost.abandoned.cached, cost.abandoned.cache_write) == (20, 5, 6)
    assert cost.abandoned.tool_ms == 200
    assert (cost.retained.calls, cost.retained.tools, cost.retained.usd) == (2, 1, 1.5)
    assert (cost.retained.rewinds, cost.retained.memory_tokens, cost.retained.restore_ms) == (1, 40, 30)
    assert cost.branches[BranchId("b0")].usd == 0.75
    assert cost.branches[BranchId("b1")].usd == 1.0


def test_a_call_without_token_numbers_and_one_without_a_price_are_counted_and_never_taken_for_nothing() -> None:
    story = Story()
    story.call(Usage(10, 2, usd=0.5))
    story.call(Usage(), priced="")
    story.call(Usage(10, 2), priced="table 1 doesn't know the model 'x'")
    cost = costs(story.events)
    assert (cost.total.uncounted, cost.total.unpriced, cost.total.usd) == (1, 2, 0.5)
    assert cost.unknown == {"the server said no token numbers": 1, "table 1 doesn't know the model 'x'": 1}
    assert cost.tables == ("table 1",)


def test_a_run_of_which_no_call_has_a_price_has_none() -> None:
    story = Story()
    story.call(Usage(10, 2), priced="")
    assert costs(story.events).total.usd is None
    assert costs(story.events).unknown == {"no prices were looked up when it was recorded": 1}


def test_a_failed_call_has_no_price_and_lacks_none_but_one_that_a_crash_cut_off_may_have_been_billed() -> None:
    story = Story()
    uid = story.begin()
    story.add(NodeEnded(uid, error=Failure("HTTP 500", "no", "provider"), latency_ms=5))
    story.begin()
    total = costs(story.events).total
    assert (total.calls, total.failed, total.uncounted, total.unpriced) == (2, 1, 1, 1)
    assert total.usd is None


def test_snapshots_count_whether_or_not_something_had_changed() -> None:
    story = Story()
    story.saved(7)
    story.call(looked_ms=2)
    story.saved(11)
    story.call()
    assert costs(story.events).total.snapshot_ms == 20


def test_time_between_calls_counts_and_time_in_which_nobody_worked_does_not() -> None:
    story = Story()
    story.call(took_ms=1000)
    story.now += 3 * S  # the agent's own tools
    story.call(took_ms=1000)
    story.now += 3600 * S  # a person comes back to the crashed run: restores files, and resumes it
    story.add(FilesRestored(SnapshotId("s"), SnapshotId("l"), story.now, took_ms=50))
    story.now += 60 * S
    story.add(RunResumed(story.now, story.tree.next_branch(), record_uid(2)))
    story.call(took_ms=2000)
    story.now += S
    story.add(RunEnded(story.now, ok=True, reason="done"))
    story.now += 3600 * S
    story.add(FilesRestored(SnapshotId("s"), SnapshotId("l"), story.now, took_ms=70))
    cost = costs(story.events)
    assert cost.total.wall_ms == pytest.approx(8000)
    assert cost.total.restore_ms == 120
    assert cost.branches[BranchId("b1")].wall_ms == pytest.approx(3000)


@given(st.lists(st.sampled_from(("call", "tool", "free", "saved", "rewind")), max_size=25), st.data())
def test_every_share_stands_in_one_fate_one_branch_and_one_model(acts: list[str], data: st.DataObject) -> None:
    story = Story()
    for act in acts:
        targets = [node.uid for node in story.tree.path() if node.is_llm]
        match act:
            case "call":
                story.call(Usage(3, 1, usd=0.25), model=data.draw(st.sampled_from("ab")))
            case "free":
                story.call(Usage(3, 1))
            case "tool":
                story.tool()
            case "saved":
                story.saved(4)
            case "rewind" if targets:
                story.rewind(data.draw(st.sampled_from(targets)))
    cost = costs(story.events)
    assert _close(cost.retained + cost.abandoned, cost.total)
    assert _close(sum(cost.branches.values(), Cost()), cost.total)
    by_model = sum(cost.models.values(), Cost())
    assert (by_model.calls, by_model.spent) == (cost.total.calls, cost.total.spent)
    assert cost.total.rewinds == story.tree.rewinds


def _close(one: Cost, other: Cost) -> bool:
    names = Cost.__dataclass_fields__
    return all(getattr(one, name) == pytest.approx(getattr(other, name)) for name in names)
