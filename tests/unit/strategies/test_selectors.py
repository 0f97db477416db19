"""Each selector chooses a possible target, the same in equal trees, and the one that it promises."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.core.errors import UsageError
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    SUBMISSION,
    NodeBegan,
    NodeEnded,
    Rewound,
    Snapshotted,
    ToolInput,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId
from agentrewind.strategies.selectors import selector_named, targets
from agentrewind.testing.strategies import rejected

NAMES = (
    "agent", "random", "random:5", "previous", "best-progress", "first-error", "last-change", "oracle:rec_000003",
)  # fmt: skip


def grown(marks) -> RunTree:
    """One call a mark: None for no verdict after it, else how many of 8 are satisfied."""
    tree = RunTree()
    for number, mark in enumerate(marks, 1):
        uid = record_uid(number)
        state = SnapshotId(f"s{number}")
        began = NodeBegan(uid, "llm", tree.head, FIRST_BRANCH, MAIN_THREAD, f"sha256:{number}", state, number)
        tree.apply(replace(began, raw_length=number))
        tree.apply(NodeEnded(uid, calls=("shell(x)",)))
        if mark is not None:
            tree.apply(rejected(number, satisfied=mark, total=8))
    return tree


def asks(tree: RunTree) -> RunTree:
    """The newest call of the tree asks to go back."""
    node = tree.nodes[tree.head]
    node.ended = NodeEnded(node.uid, calls=("backtrack_commit(rec_000001)",))
    return tree


def choose(name: str, tree: RunTree, asked: int = 1) -> int:
    return int(selector_named(name).choose(tree, record_uid(asked), MAIN_THREAD)[4:])


MARKS = st.lists(st.one_of(st.none(), st.integers(0, 8)), min_size=2, max_size=20)


@given(MARKS, st.sampled_from(NAMES), st.data())
def test_the_choice_is_possible_and_the_same_in_equal_trees(marks, name, data) -> None:
    tree = asks(grown(marks))
    asked = data.draw(st.sampled_from([node.uid for node in targets(tree, MAIN_THREAD)]))
    chosen = selector_named(name).choose(tree, asked, MAIN_THREAD)
    assert chosen in {node.uid for node in targets(tree, MAIN_THREAD)}
    assert chosen == selector_named(name).choose(copy.deepcopy(tree), asked, MAIN_THREAD)


def test_the_call_that_asks_is_no_target_of_its_own() -> None:
    assert [node.uid for node in targets(asks(grown([None] * 3)), MAIN_THREAD)] == ["rec_000001", "rec_000002"]
    assert len(targets(grown([None] * 3), MAIN_THREAD)) == 3


def test_previous_is_one_step_back() -> None:
    assert choose("previous", asks(grown([None] * 9)), 3) == 8


def test_best_progress_is_the_first_point_that_had_it() -> None:
    assert choose("best-progress", asks(grown([2, 5, None, 5, 1, None])), 1) == 3
    assert choose("best-progress", asks(grown([None] * 5)), 2) == 2, "without verdicts: as asked"


def with_tool(said: str, name: str = "shell", calls: int = 2) -> RunTree:
    """Calls of the model, of which the second leads to a call of a tool with this result."""
    tree = grown([None] * calls)
    began = NodeBegan(record_uid(calls + 1), "tool", tree.head, FIRST_BRANCH, MAIN_THREAD, "", None, 1)
    tree.apply(replace(began, tool=ToolInput(name)))
    tree.apply(NodeEnded(record_uid(calls + 1), digest=said))
    uid = record_uid(calls + 2)
    tree.apply(NodeBegan(uid, "llm", tree.head, FIRST_BRANCH, MAIN_THREAD, "", SnapshotId("s9"), 1, raw_length=99))
    tree.apply(NodeEnded(uid))
    return asks(tree)


def test_first_error_is_the_call_that_led_to_it() -> None:
    assert choose("first-error", with_tool("cat: no such file or directory")) == 2
    assert choose("first-error", with_tool("fine")) == 1, "none failed: as asked"
    assert choose("first-error", with_tool("P1 failed", SUBMISSION)) == 1, "a rejection is no error of a tool"


def test_last_change_is_the_last_point_with_other_files() -> None:
    tree = asks(grown([None] * 5))
    assert choose("last-change", tree, 2) == 2, "nobody knows what is there now: as asked"
    tree.apply(Snapshotted(SnapshotId("s4")))
    assert choose("last-change", tree, 2) == 3


def test_the_oracle_goes_to_the_last_point_before_the_cause() -> None:
    tree = asks(grown([None] * 9))
    assert choose("oracle:rec_000004", tree, 8) == 4
    assert choose("oracle:rec_000099", tree, 8) == 8, "not done on this path: as asked"


def test_a_cause_on_an_abandoned_branch_is_not_on_the_path() -> None:
    tree = grown([None] * 5)
    tree.apply(Rewound(tree.next_branch(), tree.head, record_uid(3), SnapshotId("live"), "n"))
    began = NodeBegan(record_uid(6), "llm", tree.head, tree.branch, MAIN_THREAD, "sha256:6", SnapshotId("s3"), 6)
    tree.apply(replace(began, raw_length=6))
    assert choose("oracle:rec_000004", asks(tree), 2) == 2


def test_another_seed_draws_otherwise_and_each_point_is_drawn() -> None:
    tree = asks(grown([None] * 9))
    drawn = {choose(f"random:{seed}", tree) for seed in range(200)}
    assert drawn == set(range(1, 9))


@pytest.mark.parametrize("name", ["best", "oracle", "oracle:", "random:x", "agent:1", "previous:2", "last-change:1"])
def test_what_names_no_selector_is_refused(name) -> None:
    with pytest.raises(UsageError, match="best-progress"):
        selector_named(name)
