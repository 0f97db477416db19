"""When a run is taken back unasked, to where, and that it can't go on for ever."""

from __future__ import annotations

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    Gated,
    NodeBegan,
    NodeEnded,
    RewindRejected,
    Rewound,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId
from agentrewind.strategies.triggers import triggers_named, wanted
from agentrewind.testing.strategies import rejected
from tests.unit.strategies.test_selectors import grown


def due(tree, name: str):
    return wanted(tree, triggers_named(name))


def judged(*items):
    """One call and one verdict a (item, satisfied)."""
    tree = grown([None] * len(items))
    for number, (item, satisfied) in enumerate(items, 1):
        tree.apply(rejected(number, item, satisfied=satisfied, total=None if satisfied is None else 8))
    return tree


def test_never_never_does() -> None:
    assert due(judged(*[("a", 1)] * 9), "never") is None


def test_so_many_equal_failures_lead_back_to_where_progress_was_best() -> None:
    tree = judged(("a", 2), ("b", 5), ("c", 3), ("c", 3), ("c", 3))
    found, by = due(tree, "failures:3")
    assert found.target == "rec_000003"
    assert by == "failures:3"
    assert "c is not as it should be" in found.note
    assert due(tree, "failures:4") is None


def test_without_counts_they_lead_back_to_the_beginning() -> None:
    found, _ = due(judged(("a", None), ("a", None)), "failures:2")
    assert found.target == "rec_000001"


def test_unequal_failures_are_progress_of_a_kind() -> None:
    assert due(judged(("a", 1), ("b", 1), ("a", 1)), "failures:2") is None


def test_a_regression_leads_back_to_where_progress_was_best() -> None:
    found, by = due(judged(("a", 2), ("b", 6), ("c", 4)), "loop,regression")
    assert (found.target, by) == ("rec_000003", "regression")
    assert "fell from 6/8 to 4/8" in found.note
    assert due(judged(("a", 2), ("b", 6), ("c", 6)), "regression") is None


def test_the_same_wish_is_made_once() -> None:
    tree = judged(("a", 2), ("b", 6), ("c", 4))
    found, _ = due(tree, "regression")
    tree.apply(Rewound(tree.next_branch(), tree.head, found.target, SnapshotId("live"), found.note))
    assert due(tree, "regression") is None, "the fall is not on the path any more"
    again = judged(("a", 2), ("b", 6), ("c", 4))
    again.apply(Rewound(again.next_branch(), again.head, record_uid(1), SnapshotId("live"), "other"))
    assert due(again, "regression") is None


def acting(*, held: bool, calls: int):
    """So many calls that do the same from the same files; the first may have been held back."""
    tree = RunTree()
    for number in range(1, calls + 1):
        uid = record_uid(number)
        state = SnapshotId("s")
        tree.apply(NodeBegan(uid, "llm", tree.head, FIRST_BRANCH, MAIN_THREAD, f"sha256:{number}", state, number))
        tree.apply(NodeEnded(uid, calls=("push(x)",), action="sha256:push"))
        if held and number == 1:
            tree.apply(Gated(uid, "told", "sha256:key", "c1", "Not run yet."))
    return tree


def test_a_held_call_that_comes_again_is_no_loop() -> None:
    assert due(acting(held=False, calls=2), "loop")[0].target == "rec_000001"
    assert due(acting(held=True, calls=2), "loop") is None
    again, _ = due(acting(held=True, calls=3), "loop")
    assert again.target == "rec_000002", "to before it was first done, not to before it was held back"


def test_what_was_refused_is_not_asked_again() -> None:
    tree = judged(("a", 2), ("b", 6), ("c", 4))
    tree.apply(RewindRejected("rec_000003", "no", "strategy regression"))
    assert due(tree, "regression") is None


@pytest.mark.parametrize("name", ["failures", "failures:1", "failures:x", "loop:3", "sometimes", "loop,"])
def test_what_names_no_trigger_is_refused(name) -> None:
    with pytest.raises(UsageError, match="regression"):
        triggers_named(name)
