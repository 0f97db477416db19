"""The contract of a strategy, to be run on any of them: subclass `StrategyContract` and name its factory."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from agentrewind.core.records import FIRST_BRANCH, MAIN_THREAD, Judged, NodeBegan, NodeEnded, Rewound, record_uid
from agentrewind.core.strategy import GoOn, Stop, Strategy
from agentrewind.core.tools import NAMES
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId


def rejected(number: int, item: str = "FAILED a", *, satisfied: int | None = None, total: int | None = None) -> Judged:
    """The verdict on what lies after node `number`."""
    return Judged(
        record_uid(number),
        accepted=False,
        exit_code=1,
        first_failure=item,
        feedback=f"{item} is not as it should be",
        satisfied=satisfied,
        total=total,
    )


def judged_tree(verdicts: Sequence[Judged]) -> RunTree:
    """A run with one llm node before each verdict."""
    tree = RunTree()
    for number, verdict in enumerate(verdicts, 1):
        uid = record_uid(number)
        state = SnapshotId(f"s{number}")
        tree.apply(NodeBegan(uid, "llm", tree.head, FIRST_BRANCH, MAIN_THREAD, f"sha256:{number}", state, number))
        tree.apply(NodeEnded(uid))
        tree.apply(verdict)
    return tree


class StrategyContract:
    """Every promise of `Strategy`. A subclass writes `strategy`."""

    def strategy(self, equal_failures: int) -> Strategy:
        """A new one that ends a run after so many equal failures."""
        raise NotImplementedError

    def test_an_accepted_submission_ends_the_run_well(self) -> None:
        verdict = Judged(record_uid(1), accepted=True, exit_code=0)
        decision = self.strategy(5).decide(judged_tree([verdict]), verdict)
        assert isinstance(decision, Stop)
        assert decision.ok
        assert decision.reason

    def test_a_rejection_is_told_with_its_feedback(self) -> None:
        verdict = rejected(1)
        decision = self.strategy(5).decide(judged_tree([verdict]), verdict)
        assert isinstance(decision, GoOn)
        assert verdict.feedback in decision.message

    def test_so_many_equal_failures_in_a_row_end_the_run_and_not_one_earlier(self) -> None:
        verdicts = [rejected(number) for number in range(1, 4)]
        assert isinstance(self.strategy(3).decide(judged_tree(verdicts[:2]), verdicts[1]), GoOn)
        decision = self.strategy(3).decide(judged_tree(verdicts), verdicts[2])
        assert isinstance(decision, Stop)
        assert not decision.ok
        assert verdicts[2].first_failure in decision.reason

    def test_another_failure_begins_the_count_again(self) -> None:
        items = ["FAILED a", "FAILED a", "FAILED b", "FAILED a", "FAILED a"]
        verdicts = [rejected(number, item) for number, item in enumerate(items, 1)]
        assert isinstance(self.strategy(3).decide(judged_tree(verdicts), verdicts[-1]), GoOn)

    def test_a_rewind_does_not_reset_the_count(self) -> None:
        tree = judged_tree([rejected(1), rejected(2)])
        tree.apply(Rewound(tree.next_branch(), record_uid(2), record_uid(1), SnapshotId("live"), "a note"))
        verdict = rejected(1)
        tree.apply(verdict)
        assert isinstance(self.strategy(3).decide(tree, verdict), Stop)

    def test_deciding_changes_nothing_and_equal_runs_give_equal_decisions(self) -> None:
        verdicts = [rejected(number, satisfied=5 - number, total=8) for number in range(1, 4)]
        tree = judged_tree(verdicts)
        before = copy.deepcopy(tree)
        first = self.strategy(9).decide(tree, verdicts[-1])
        assert tree == before
        assert self.strategy(9).decide(tree, verdicts[-1]) == first
        assert self.strategy(9).decide(copy.deepcopy(tree), copy.deepcopy(verdicts[-1])) == first

    def test_the_two_tools_are_named_only_where_they_are_offered(self) -> None:
        strategy, verdict = self.strategy(5), rejected(1)
        decision = strategy.decide(judged_tree([verdict]), verdict)
        assert isinstance(decision, GoOn)
        assert strategy.offers_rewind or not any(name in decision.message for name in NAMES)
